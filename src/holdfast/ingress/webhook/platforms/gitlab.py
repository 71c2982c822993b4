"""GitLab: a secret token as it is, or, in newer versions, a signing token by Standard Webhooks.

`Idempotency-Key` stays the same when GitLab retries or a user resends. `X-Gitlab-Event-UUID` is not a delivery id: all
events that one webhook triggered share it. GitLab waits ten seconds and disables an endpoint that keeps failing.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.errors import Unverified
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
    type_words,
)
from holdfast.ingress.webhook.verifiers import VERIFIERS
from holdfast.ingress.webhook.verifiers.check import Check, Verifier
from holdfast.ingress.webhook.verifiers.request import InboundRequest
from holdfast.ingress.webhook.verifiers.scheme import Scheme

SIGNING_PREFIX = "whsec_"


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`gitlab.push`, `gitlab.merge_request.open`, …, one stream per project."""
    body = object_of(payload, "GitLab")
    name = headers.get("x-gitlab-event", "")
    kind = text(body, "object_kind") or text(body, "event_name") or type_words(name.removesuffix(" Hook")) or "unknown"
    action = text(body, "object_attributes", "action") or text(body, "action")
    project = text(body, "project", "path_with_namespace") or text(body, "path_with_namespace")
    ref = text(body, "ref") or text(body, "object_attributes", "ref")
    return HookEvent(
        source="gitlab",
        type=event_type("gitlab", kind.lower(), action),
        properties=properties(
            event=name or None,
            kind=kind,
            action=action,
            project=project,
            user=text(body, "user", "username") or text(body, "user_username"),
            ref=ref,
            branch=_branch(body, ref),
            number=dig(body, "object_attributes", "iid"),
            status=text(body, "object_attributes", "status") or text(body, "build_status"),
            delivery=delivery_id(body, headers),
            **_sender(body, kind, action, project),
        ),
        payload=body,
        stream=stream("gitlab", project or text(body, "group", "full_path") or text(body, "user", "username")),
    )


def _sender(body: JsonObject, kind: str, action: str | None, project: str | None) -> dict[str, Json]:
    """Who acted, and the note that they wrote."""
    login = text(body, "user", "username") or text(body, "user_username")
    number = text(body, "merge_request", "iid") or text(body, "issue", "iid")
    about = f"{project}!{number}" if dig(body, "merge_request") else f"{project}#{number}" if number else project
    is_note = kind == "note"
    return sent_by(
        text(body, "user", "id") or text(body, "user_id"),
        name=text(body, "user", "name") or login,
        login=login,
        channel=about,
        message=text(body, "object_attributes", "id") if is_note else None,
        headline=f"GitLab: {login} commented on {about}" if is_note else None,
        text_path="object_attributes.note" if is_note else None,
        edited=is_note and action == "update",
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return headers.get("idempotency-key") or headers.get("webhook-id")


def verify(check: Check, request: InboundRequest, now_s: int) -> str | None:
    """Verify with the signing token if there is one, else with the secret token. Both may be set during a change."""
    signing = tuple(secret for secret in check.secrets if secret.startswith(SIGNING_PREFIX))
    tokens = tuple(secret for secret in check.secrets if not secret.startswith(SIGNING_PREFIX))
    if signing and (request.headers.get("webhook-signature") or not tokens):
        return VERIFIERS["standard"].verify(_with(check, signing), request, now_s)
    if not tokens:
        raise Unverified("the header webhook-signature is missing")
    return VERIFIERS["token"].verify(_with(check, tokens), request, now_s)


def prepare(check: Check) -> None:
    signing = tuple(secret for secret in check.secrets if secret.startswith(SIGNING_PREFIX))
    if check_signing := VERIFIERS["standard"].prepare:
        check_signing(_with(check, signing))


def _with(check: Check, secrets: tuple[str, ...]) -> Check:
    return Check(check.verifier, secrets, check.scheme, check.public_url)


def _branch(body: JsonObject, ref: str | None) -> str | None:
    if ref is not None and ref.startswith("refs/heads/"):
        return ref.removeprefix("refs/heads/")
    return text(body, "object_attributes", "source_branch")


PLATFORM = Platform(
    "gitlab",
    normalize,
    Verifier("gitlab", verify, Scheme("x-gitlab-token"), prepare=prepare),
    ("x-gitlab-event", "x-gitlab-event-uuid", "x-gitlab-webhook-uuid", "x-gitlab-instance", "idempotency-key"),
    delivery_id,
)
