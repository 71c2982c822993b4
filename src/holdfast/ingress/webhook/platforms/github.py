"""GitHub: the name of the event is in a header, its data in the body."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import dig, event_type, object_of, properties, stream, text, unwrap_form
from holdfast.ingress.webhook.verifiers import VERIFIERS


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
        ),
        payload=body,
        stream=stream("github", repo or text(body, "organization", "login") or text(body, "sender", "login")),
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return headers.get("x-github-delivery")


def _branch(body: Mapping[str, Json], ref: str | None) -> str | None:
    if ref is not None and ref.startswith("refs/heads/"):
        return ref.removeprefix("refs/heads/")
    named = (("pull_request", "head", "ref"), ("workflow_run", "head_branch"), ("check_suite", "head_branch"))
    return next((found for path in named if (found := text(body, *path))), None)


def _number(body: Mapping[str, Json]) -> int | None:
    found = dig(body, "number") or dig(body, "pull_request", "number") or dig(body, "issue", "number")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


PLATFORM = Platform(
    "github",
    normalize,
    VERIFIERS["hub"],
    ("x-github-event", "x-github-delivery", "x-github-hook-id", "x-github-hook-installation-target-type"),
    delivery_id,
)
