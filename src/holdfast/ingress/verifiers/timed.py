"""Families that sign a time with the body, so that an old request cannot be sent again."""

from __future__ import annotations

import binascii

from holdfast.domain import ed25519
from holdfast.domain.errors import BadInput, Unverified
from holdfast.domain.signature import secret_key, verify_standard
from holdfast.ingress.headers import Headers
from holdfast.ingress.verifiers.check import Check, any_equal, digests, near, timestamp

STRIPE = "stripe-signature"
PARTS_MAX = 32


def standard(check: Check, headers: Headers, body: bytes, now_s: int) -> None:
    """Standard Webhooks: `v1` by `whsec_` secrets, `v1a` by `whpk_` public keys. Svix's older names are taken too."""
    family = headers.first_of("webhook-signature", "svix-signature").partition("-")[0]
    message_id = headers.one(f"{family}-id")
    stamp = timestamp(headers, f"{family}-timestamp", now_s, check.tolerance_s)
    given = headers.one(f"{family}-signature")
    if "." in message_id or not message_id.isascii():
        raise Unverified(f"the header {family}-id holds a dot or characters outside ASCII")
    public = [secret for secret in check.secrets if secret.startswith(ed25519.PUBLIC_PREFIX)]
    shared = [secret for secret in check.secrets if not secret.startswith(ed25519.PUBLIC_PREFIX)]
    tokens = given.split(" ")[:PARTS_MAX]
    signed = {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": " ".join(tokens)}
    by_secret = verify_standard(shared, signed, body, now_s, check.tolerance_s)
    message = f"{message_id}.{stamp}.".encode() + body
    by_key = ed25519.verify_v1a(public, tokens, message) if public else False
    if not by_secret and not by_key:
        raise Unverified(f"no signature in {family}-signature fits the id, the time, the body and a secret")


def read_standard_secret(secret: str) -> None:
    """Complain about a secret that could never verify anything."""
    if secret.startswith(ed25519.PUBLIC_PREFIX):
        ed25519.read_public_key(secret)
    elif secret.startswith("whsk_"):
        raise BadInput("a secret begins with whsk_, which is the sender's private key; give the public one, whpk_…")
    else:
        secret_key(secret)


def stripe(check: Check, headers: Headers, body: bytes, now_s: int) -> None:
    """`Stripe-Signature: t=…,v1=…`, one v1 for each secret of the endpoint while it is rolled."""
    parts = [part.strip().partition("=") for part in headers.one(STRIPE).split(",")[:PARTS_MAX]]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1:
        raise Unverified(f"the header {STRIPE} must have exactly one t=")
    stamp = near(times[0], f"the time in {STRIPE}", now_s, check.tolerance_s)
    given = [raw for name, _, value in parts if name == "v1" and (raw := _unhex(value))]
    if not given:
        raise Unverified(f"the header {STRIPE} has no v1= signature in hex")
    if not any_equal(digests(check.secrets, f"{stamp}.".encode() + body), given):
        raise Unverified(f"no v1 signature in {STRIPE} fits the time, the body and a secret")


def slack(check: Check, headers: Headers, body: bytes, now_s: int) -> None:
    """`X-Slack-Signature: v0=<hex>` over `v0:time:body`, whatever form the body has."""
    stamp = timestamp(headers, "x-slack-request-timestamp", now_s, check.tolerance_s)
    version, _, text = headers.one("x-slack-signature").partition("=")
    given = _unhex(text)
    if version != "v0" or not given:
        raise Unverified("the header x-slack-signature does not have the form v0=HEX")
    if not any_equal(digests(check.secrets, f"v0:{stamp}:".encode() + body), [given]):
        raise Unverified("the signature in x-slack-signature does not fit the time, the body and the secret")


def discord(check: Check, headers: Headers, body: bytes, now_s: int) -> None:
    """ed25519 over time and body, by the application's public key, which is this source's `secret`."""
    stamp = timestamp(headers, "x-signature-timestamp", now_s, check.tolerance_s)
    given = _unhex(headers.one("x-signature-ed25519"))
    if len(given) != ed25519.SIGNATURE_BYTES:
        raise Unverified("the header x-signature-ed25519 is not a signature in hex")
    keys = [ed25519.read_hex_key(key) for key in check.secrets]
    if not ed25519.any_signed(keys, [given], stamp.encode() + body):
        raise Unverified("the signature in x-signature-ed25519 does not fit the time, the body and the public key")


def _unhex(text: str) -> bytes:
    """The bytes of a hex text; nothing where it is none."""
    try:
        return binascii.unhexlify(text.encode("latin-1"))
    except ValueError:
        return b""
