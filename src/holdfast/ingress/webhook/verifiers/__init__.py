"""Verify the sender of a request, over its raw bytes and before the body is parsed.

`verify` raises `Unverified` with the check that failed, and never with the expected value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.domain import ed25519
from holdfast.domain.errors import BadInput
from holdfast.ingress.webhook.verifiers import template
from holdfast.ingress.webhook.verifiers.check import Check, Verifier
from holdfast.ingress.webhook.verifiers.request import InboundRequest
from holdfast.ingress.webhook.verifiers.scheme import ED25519, Scheme
from holdfast.ingress.webhook.verifiers.signature import HOOK, HUB, hook, hub, read_key, signed
from holdfast.ingress.webhook.verifiers.standard import prepare as prepare_standard
from holdfast.ingress.webhook.verifiers.standard import standard
from holdfast.ingress.webhook.verifiers.token import token

EVERYTHING = frozenset(Scheme.__slots__)


def signature(name: str, scheme: Scheme) -> Verifier:
    """A verifier in which a source may change every part of the scheme."""
    return Verifier(name, signed, scheme, EVERYTHING, check_scheme)


def check_scheme(check: Check) -> None:
    """Reject a scheme that cannot work, or that leaves a part of the request unsigned."""
    scheme, names = check.scheme, template.names(check.scheme.content)
    _check_header(check)
    if not names.intersection(template.OVER_BODY):
        shown = " or ".join(f"{{{name}}}" for name in template.OVER_BODY)
        raise BadInput(f"content must contain {shown}, or the body of a signed request could be replaced")
    _check_timestamp(scheme, names)
    if names.intersection(template.OVER_URL) and not check.public_url:
        raise BadInput(
            "the sender signs the URL it sends to, and Holdfast cannot know it behind a tunnel or a proxy; "
            "set public_url: to that URL, such as https://hooks.example.com/hooks/shop"
        )
    if scheme.prefix and scheme.signature_key:
        raise BadInput("prefix and signature_key exclude each other: a signature is in a list, or it is not")
    for secret in check.secrets:
        read_key(secret, scheme)
    if scheme.algorithm == ED25519:
        ed25519.load()


def _check_timestamp(scheme: Scheme, names: frozenset[str]) -> None:
    sources = [key for key in ("timestamp_key", "timestamp_header", "timestamp_field") if getattr(scheme, key)]
    if len(sources) > 1:
        raise BadInput(f"{sources[0]} and {sources[1]} exclude each other: the time is in one place")
    outside = scheme.timestamp_key or scheme.timestamp_header
    if "timestamp" in names and not outside:
        raise BadInput("content contains {timestamp}; set timestamp_key or timestamp_header to where it is found")
    if outside and "timestamp" not in names:
        raise BadInput(f"content must contain {{timestamp}}, or the time that {sources[0]} names could be changed")
    if scheme.timestamp_key and not scheme.signature_key:
        raise BadInput("timestamp_key needs signature_key: the name of the signature in the same list")


def _check_header(check: Check) -> None:
    if not check.scheme.header:
        raise BadInput(f"the verifier {check.kind} needs header: the name of the header with the signature")


_SHA256 = Scheme(prefix="sha256=")
VERIFIERS: Mapping[str, Verifier] = {
    each.name: each
    for each in (
        Verifier("hub", hub, replace(_SHA256, header=HUB)),
        Verifier("hook", hook, replace(_SHA256, header=HOOK)),
        signature("hmac", Scheme()),
        Verifier("token", token, Scheme(), frozenset({"header", "prefix", "tolerance_seconds"}), _check_header),
        Verifier("standard", standard, prepare=prepare_standard),
    )
}


def prepare(verifier: Verifier, secrets: tuple[str, ...], public_url: str = "", **changes: str | int) -> Check:
    """The check of a source. `BadInput` for a key or a scheme that cannot verify anything."""
    for name in ("header", "timestamp_header"):
        if name in changes:
            changes[name] = str(changes[name]).lower()
    scheme = replace(verifier.scheme, **changes)  # type: ignore[arg-type]  # read by the type of each field
    check = Check(verifier, secrets, scheme, public_url)
    if verifier.prepare is not None:
        verifier.prepare(check)
    return check


def verify(check: Check, request: InboundRequest, now_s: int) -> str | None:
    """The secret that matches, if the verifier can tell. `Unverified` if none does."""
    return check.verifier.verify(check, request, now_s)
