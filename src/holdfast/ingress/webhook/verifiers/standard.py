"""Standard Webhooks: `v1` by `whsec_` secrets, `v1a` by `whpk_` public keys."""

from __future__ import annotations

from holdfast.domain import ed25519
from holdfast.domain.errors import BadInput, Unverified
from holdfast.domain.signature import secret_key, verify_standard
from holdfast.ingress.webhook.verifiers.check import Check
from holdfast.ingress.webhook.verifiers.request import InboundRequest
from holdfast.ingress.webhook.verifiers.timestamp import check_time

PARTS_MAX = 32


def standard(check: Check, request: InboundRequest, now_s: int) -> None:
    """Verify as in the specification. The older header names of Svix are accepted too."""
    headers, tolerance_s = request.headers, check.scheme.tolerance_seconds
    family = headers.first_of("webhook-signature", "svix-signature").partition("-")[0]
    message_id, stamp = headers.one(f"{family}-id"), headers.one(f"{family}-timestamp")
    check_time(stamp, f"the header {family}-timestamp", "s", tolerance_s, now_s)
    given = headers.one(f"{family}-signature")
    if "." in message_id or not message_id.isascii():
        raise Unverified(f"the header {family}-id contains a dot or non-ASCII characters")
    public = [secret for secret in check.secrets if secret.startswith(ed25519.PUBLIC_PREFIX)]
    shared = [secret for secret in check.secrets if not secret.startswith(ed25519.PUBLIC_PREFIX)]
    tokens = given.split(" ")[:PARTS_MAX]
    signed = {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": " ".join(tokens)}
    by_secret = verify_standard(shared, signed, request.body, now_s, tolerance_s)
    message = f"{message_id}.{stamp}.".encode() + request.body
    by_key = ed25519.verify_v1a(public, tokens, message) if public else False
    if not by_secret and not by_key:
        raise Unverified(f"no signature in {family}-signature matches the id, the time, the body and a secret")


def prepare(check: Check) -> None:
    """Reject a secret that cannot verify anything."""
    for secret in check.secrets:
        if secret.startswith(ed25519.PUBLIC_PREFIX):
            ed25519.read_public_key(secret)
            ed25519.load()
        elif secret.startswith("whsk_"):
            raise BadInput("a secret begins with whsk_, which is the sender's private key; give the public key, whpk_…")
        else:
            secret_key(secret)
