"""Families without a time in what is signed: HMAC over the body alone, and shared tokens."""

from __future__ import annotations

import base64
import binascii

from holdfast.domain.errors import Unverified
from holdfast.domain.signature import verify_hook
from holdfast.ingress.headers import Headers
from holdfast.ingress.verifiers.check import Check, any_equal, digests

HUB = "x-hub-signature-256"
HOOK = "x-hook-signature"
TELEGRAM = "x-telegram-bot-api-secret-token"


def hub(check: Check, headers: Headers, body: bytes, now_s: int) -> None:
    """GitHub, WhatsApp and other Meta products: `X-Hub-Signature-256: sha256=<hex>`."""
    _either(check, headers, body, HUB, HOOK)


def hook(check: Check, headers: Headers, body: bytes, now_s: int) -> None:
    """The same over `X-Hook-Signature`. Both names are taken in both families: the proof is the same."""
    _either(check, headers, body, HOOK, HUB)


def _either(check: Check, headers: Headers, body: bytes, first: str, second: str) -> None:
    name = headers.first_of(first, second)
    given = headers.one(name)
    if not given.startswith("sha256="):
        raise Unverified(f"the header {name} does not have the form sha256=HEX")
    if not verify_hook(check.secrets, body, given):
        raise Unverified(f"the signature in {name} does not fit the body and the secret")


def plain_hmac(check: Check, headers: Headers, body: bytes, now_s: int) -> None:
    """Any sender that puts an HMAC of the body into a header: which header, hash, encoding and prefix are settings."""
    name = check.header.lower()
    given = headers.one(name)
    if not given.startswith(check.prefix):
        raise Unverified(f"the header {name} does not begin as it must")
    try:
        raw = _decode(given.removeprefix(check.prefix), check.encoding)
    except ValueError:
        raise Unverified(f"the header {name} is not {check.encoding}") from None
    if not any_equal(digests(check.secrets, body, check.algorithm), [raw]):
        raise Unverified(f"the signature in {name} does not fit the body and the secret")


def token(check: Check, headers: Headers, body: bytes, now_s: int) -> None:
    """A shared secret sent as it is, such as GitLab's `X-Gitlab-Token`."""
    _same_token(check, headers, check.header.lower())


def telegram(check: Check, headers: Headers, body: bytes, now_s: int) -> None:
    """The `secret_token` that was given to setWebhook."""
    _same_token(check, headers, TELEGRAM)


def _same_token(check: Check, headers: Headers, name: str) -> None:
    given = headers.one(name).removeprefix(check.prefix).encode("latin-1")
    if not any_equal([secret.encode("utf-8") for secret in check.secrets], [given]):
        raise Unverified(f"the token in {name} is not the one of this source")


def _decode(text: str, encoding: str) -> bytes:
    if encoding == "hex":
        return binascii.unhexlify(text.encode("latin-1"))
    return base64.b64decode(text.encode("latin-1"), validate=True)
