"""Ed25519 signatures: `v1a` of Standard Webhooks, and platforms that sign with a key pair. Uses `cryptography`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib.util import find_spec
from typing import NamedTuple

from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.extras import install_command

PUBLIC_PREFIX = "whpk_"
PRIVATE_PREFIX = "whsk_"
KEY_BYTES = 32
SIGNATURE_BYTES = 64

IsSigned = Callable[[bytes, bytes, bytes], bool]
"""(public key, signature, message) -> whether it is."""


class Signer(NamedTuple):
    """Signs with a private key. `public_key` is the `whpk_…` with which receivers verify."""

    sign: Callable[[bytes], bytes]
    public_key: str


@lru_cache(maxsize=1)
def is_available() -> bool:
    """Whether `cryptography` is installed."""
    return find_spec("cryptography") is not None


@lru_cache(maxsize=1)
def load() -> IsSigned:
    """The verification function. `cryptography` is an extra, since most installations do not need it."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        how = install_command("ed25519")
        raise BadConfig(f"Ed25519 signatures need the package cryptography; install it with: {how}") from None

    def is_signed(key: bytes, signature: bytes, message: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    return is_signed


@lru_cache(maxsize=256)
def signer(secret: str) -> Signer:
    """The signer of `whsk_<base64>`: a private key of 32 bytes, optionally followed by its public key."""
    key = _unbase64(secret.removeprefix(PRIVATE_PREFIX))
    if len(key) not in (KEY_BYTES, 2 * KEY_BYTES):
        raise BadInput(f"the secret begins with {PRIVATE_PREFIX} but the rest is not {KEY_BYTES} bytes in base64")
    load()  # raises BadConfig if cryptography is not installed
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.from_private_bytes(key[:KEY_BYTES])
    public = private.public_key().public_bytes_raw()
    if key[KEY_BYTES:] not in (b"", public):
        raise BadInput(f"the secret begins with {PRIVATE_PREFIX} but its second half is not its public key")
    return Signer(private.sign, PUBLIC_PREFIX + base64.b64encode(public).decode())


def any_signed(
    keys: Iterable[bytes], signatures: Iterable[bytes], message: bytes, is_signed: IsSigned | None = None
) -> bool:
    """Whether one of the keys made one of the signatures."""
    decide = is_signed or load()
    candidates = list(signatures)
    return any(decide(key, signature, message) for key in keys for signature in candidates)


def verify_v1a(public_keys: Iterable[str], tokens: Iterable[str], message: bytes) -> bool:
    """Whether one of the `v1a,<base64>` tokens is by one of the `whpk_` keys."""
    given = [_unbase64(text) for version, _, text in (token.partition(",") for token in tokens) if version == "v1a"]
    signatures = [raw for raw in given if len(raw) == SIGNATURE_BYTES]
    return any_signed([read_public_key(key) for key in public_keys], signatures, message)


def read_public_key(text: str) -> bytes:
    """The key of `whpk_<base64>`."""
    key = _unbase64(text.removeprefix(PUBLIC_PREFIX))
    if len(key) != KEY_BYTES:
        raise BadInput(f"a secret begins with {PUBLIC_PREFIX} but the rest is not {KEY_BYTES} bytes in base64")
    return key


def read_hex_key(text: str) -> bytes:
    """A public key in hex."""
    try:
        key = binascii.unhexlify(text.encode("latin-1", "replace"))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BadInput(f"the secret of this source is its sender's public key: {2 * KEY_BYTES} hex digits")
    return key


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode((text + "=" * (-len(text) % 4)).encode("latin-1", "replace"), validate=True)
    except ValueError:
        return b""
