"""Is a request from who it says? One function for each family of senders, over the raw bytes, before anything is read.

`verify` raises `Unverified` with a sentence that says which check failed, and never what would have passed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.domain import ed25519
from holdfast.domain.errors import BadInput
from holdfast.ingress.headers import Headers
from holdfast.ingress.verifiers import plain, timed
from holdfast.ingress.verifiers.check import Check

Verify = Callable[[Check, Headers, bytes, int], None]

VERIFIERS: Mapping[str, Verify] = {
    "hub": plain.hub,
    "hook": plain.hook,
    "hmac": plain.plain_hmac,
    "token": plain.token,
    "telegram": plain.telegram,
    "standard": timed.standard,
    "stripe": timed.stripe,
    "slack": timed.slack,
    "discord": timed.discord,
}


def verify(check: Check, headers: Headers, body: bytes, now_s: int) -> None:
    """Pass, or raise `Unverified`."""
    VERIFIERS[check.kind](check, headers, body, now_s)


def prepare(check: Check) -> Check:
    """Whether a check can work at all, asked once at the start: bad keys and missing parts are said then."""
    if check.kind == "discord":
        for key in check.secrets:
            ed25519.read_hex_key(key)
    if check.kind == "standard":
        for secret in check.secrets:
            timed.read_standard_secret(secret)
    if check.kind in ("hmac", "token") and not check.header:
        raise BadInput(f"the verifier {check.kind} needs header: the name of the header that carries it")
    if check.kind == "discord" or any(secret.startswith(ed25519.PUBLIC_PREFIX) for secret in check.secrets):
        ed25519.load()
    return check
