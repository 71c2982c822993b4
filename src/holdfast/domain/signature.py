"""Both signature families: the plain `X-Hook-Signature` over the body, and Standard Webhooks over id, time and body."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable, Mapping
from functools import lru_cache

from holdfast.domain import ed25519
from holdfast.domain.errors import BadInput

TOLERANCE_S = 300
_PREFIX = "whsec_"


@lru_cache(maxsize=256)
def secret_key(secret: str) -> bytes:
    """The key of a secret: `whsec_…` is base64 of the key, any other text is the key itself."""
    if not secret.startswith(_PREFIX):
        return secret.encode("utf-8")
    text = secret.removeprefix(_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise BadInput("the secret begins with whsec_ but the rest is not base64")
    return key


def check_signing(secret: str) -> None:
    """Raise `BadInput` for a secret that cannot sign."""
    if secret.startswith(ed25519.PUBLIC_PREFIX):
        raise BadInput(
            "the secret begins with whpk_, which is a public key for receivers; to sign, give whsk_… or whsec_…"
        )
    if is_private_key(secret):
        ed25519.signer(secret)
    else:
        secret_key(secret)


def is_private_key(secret: str) -> bool:
    return secret.startswith(ed25519.PRIVATE_PREFIX)


def public_keys(secrets: Iterable[str]) -> list[str]:
    """The public keys with which receivers verify `v1a` signatures: one for each private key."""
    return [ed25519.signer(secret).public_key for secret in secrets if is_private_key(secret)]


@lru_cache(maxsize=256)
def _keyed(key: bytes) -> hmac.HMAC:
    """An HMAC with only its key set, to be copied for each text.

    `hmac.digest` would release the interpreter lock at every call, however short the text.
    """
    return hmac.new(key, digestmod="sha256")


def _mac(key: bytes, text: bytes) -> bytes:
    mac = _keyed(key).copy()
    mac.update(text)
    return mac.digest()


def hook_signature(secret: str, body: bytes) -> str:
    """`X-Hook-Signature`: HMAC-SHA256 over the body alone, keyed with the secret's text as it was given."""
    return "sha256=" + _mac(secret.encode("utf-8"), body).hex()


def standard_signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """One signature of Standard Webhooks over `id.timestamp.body`: `v1a` by a private key, else `v1`, an HMAC."""
    if "." in message_id:
        raise BadInput("a webhook id must not contain a dot: it would make the signed text ambiguous")
    signed = f"{message_id}.{timestamp}.".encode() + body
    if is_private_key(secret):
        return "v1a," + base64.b64encode(ed25519.signer(secret).sign(signed)).decode()
    return "v1," + base64.b64encode(_mac(secret_key(secret), signed)).decode()


def sign(secrets: Iterable[str], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The signature headers of one attempt. Several secrets (a rotation) give several Standard signatures.

    `X-Hook-Signature` needs a shared secret: a receiver could not verify it with a public key.
    """
    headers = {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
    keys = list(secrets)
    if keys:
        headers["webhook-signature"] = " ".join(standard_signature(s, message_id, timestamp, body) for s in keys)
    if shared := next((secret for secret in keys if not is_private_key(secret)), None):
        headers["X-Hook-Signature"] = hook_signature(shared, body)
    return headers


def verify_hook(secrets: Iterable[str], body: bytes, header: str) -> bool:
    given = header.encode("utf-8", "replace")
    matches = [hmac.compare_digest(hook_signature(secret, body).encode(), given) for secret in secrets]
    return any(matches)  # all are compared, so that the time does not reveal which one matches


def verify_standard(
    secrets: Iterable[str],
    headers: Mapping[str, str],
    body: bytes,
    now_s: int,
    tolerance_s: int = TOLERANCE_S,
) -> bool:
    """Whether one of the signatures is by one of the secrets, and the timestamp is near. Headers in lower case."""
    message_id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
        return False
    if abs(now_s - int(stamp)) > tolerance_s or "." in message_id or not message_id.isascii():
        return False
    expected = [standard_signature(secret, message_id, int(stamp), body).encode() for secret in secrets]
    given = [token.encode("utf-8", "replace") for token in headers.get("webhook-signature", "").split(" ")]
    matches = [hmac.compare_digest(e, g) for e in expected for g in given]
    return any(matches)
