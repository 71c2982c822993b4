"""GitHub: the name of the event is in a header, its data in the body."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json, JsonObject
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import (
    dig,
    event_type,
    object_of,
    properties,
    sent_by,
    stream,
    text,
    unwrap_form,
)
from holdfast.ingress.webhook.verifiers import VERIFIERS

WRITTEN, DESCRIBED = ("comment", "review"), ("pull_request", "issue", "discussion")
BUILDS = ("workflow_run", "check_run", "check_suite", "workflow_job")


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`github.push`, `github.pull_request.opened`, …, one stream per repository."""
    body = object_of(unwrap_form(payload), "GitHub")
    name = headers.get("x-github-event", "").lower() or "unknown"
    action = text(body, "action")
    repo = text(body, "repository", "full_name")
    ref = text(body, "ref")
    return HookEvent(
        source="github",
        type=event_type("github", name, action),
        properties=properties(
            event=name,
            action=action,
            repo=repo,
            sender=text(body, "sender", "login"),
            organization=text(body, "organization", "login"),
            ref=ref,
            branch=_branch(body, ref),
            number=_number(body),
            delivery=headers.get("x-github-delivery"),
            zen=text(body, "zen") if name == "ping" else None,
            hook_id=text(body, "hook_id") if name == "ping" else None,
            **_build(body, name),
            **_sender(body, name, action, repo),
        ),
        payload=body,
        stream=stream("github", repo or text(body, "organization", "login") or text(body, "sender", "login")),
    )


def _sender(body: JsonObject, name: str, action: str | None, repo: str | None) -> dict[str, Json]:
    """Who acted, and the comment, the review or the description that they wrote."""
    login, number = text(body, "sender", "login"), _number(body)
    written = next((key for key in WRITTEN if isinstance(body.get(key), dict)), None)
    if written is None and action in ("opened", "edited"):
        written = next(
            (key for key in ("pull_request", "issue", "discussion") if isinstance(body.get(key), dict)), None
        )
    about = f"{repo}#{number}" if number else repo
    place = f" ({text(body, 'comment', 'path')}:{text(body, 'comment', 'line') or '?'})"
    verb = f"reviewed ({text(body, 'review', 'state')})" if written == "review" else "commented on"
    if written not in WRITTEN:
        verb = str(action)
    line = f"GitHub: {login} {verb} {about}{place if dig(body, 'comment', 'path') else ''}"
    return sent_by(
        text(body, "sender", "id"),
        name=login,
        login=login,
        association=None if written is None else text(body, written, "author_association"),
        channel=about,
        message=None if written is None else text(body, written, "id"),
        thread=text(body, "pull_request", "node_id") or text(body, "issue", "node_id"),
        headline=line if written is not None else None,
        text_path=None if written is None else f"{written}.body",
        edited=action in ("edited", "deleted", "dismissed"),
    )


def _build(body: JsonObject, name: str) -> dict[str, Json]:
    """How a workflow or a check ended. A failed one has a text for an agent."""
    conclusion = text(body, name, "conclusion")
    if conclusion is None or name not in BUILDS:
        return {}
    title = text(body, name, "name") or text(body, name, "app", "name") or name
    link = text(body, name, "html_url") or text(body, "repository", "html_url") or ""
    return {"conclusion": conclusion, "workflow": title, "text": f"{title}: {conclusion}\n{link}".strip()}


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return headers.get("x-github-delivery")


def _branch(body: JsonObject, ref: str | None) -> str | None:
    if ref is not None and ref.startswith("refs/heads/"):
        return ref.removeprefix("refs/heads/")
    named = (("pull_request", "head", "ref"), ("workflow_run", "head_branch"), ("check_suite", "head_branch"))
    return next((found for path in named if (found := text(body, *path))), None)


def _number(body: JsonObject) -> int | None:
    found = dig(body, "number") or dig(body, "pull_request", "number") or dig(body, "issue", "number")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


PLATFORM = Platform(
    "github",
    normalize,
    VERIFIERS["hub"],
    ("x-github-event", "x-github-delivery", "x-github-hook-id", "x-github-hook-installation-target-type"),
    delivery_id,
)
