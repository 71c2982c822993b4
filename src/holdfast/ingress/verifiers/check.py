"""What a source's requests are checked against, and the one comparison everything ends in."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.domain.errors import Unverified
from holdfast.domain.signature import TOLERANCE_S
from holdfast.ingress.headers import Headers

ALGORITHMS = ("sha256", "sha1", "sha512")
ENCODINGS = ("hex", "base64")


@dataclass(frozen=True, slots=True)
class Check:
    """How one source proves itself. Several secrets: any of them may have signed (a rotation)."""

    kind: str
    secrets: tuple[str, ...] = field(default=(), repr=False)
    tolerance_s: int = TOLERANCE_S
    header: str = ""
    algorithm: str = "sha256"
    encoding: str = "hex"
    prefix: str = ""


def digests(secrets: Iterable[str], message: bytes, algorithm: str = "sha256") -> list[bytes]:
    """The HMAC by each secret, keyed with the secret's text as it was given."""
    return [hmac.new(secret.encode("utf-8"), message, getattr(hashlib, algorithm)).digest() for secret in secrets]


def any_equal(wanted: Iterable[bytes], given: Iterable[bytes]) -> bool:
    """Whether some pair is equal. Every pair is compared: time must not tell which one fits."""
    candidates = list(given)
    matches = [hmac.compare_digest(one, other) for one in wanted for other in candidates]
    return any(matches)


def timestamp(headers: Headers, name: str, now_s: int, tolerance_s: int) -> str:
    """The text of a timestamp header that is near enough to now."""
    return near(headers.one(name), f"the header {name}", now_s, tolerance_s)


def near(text: str, what: str, now_s: int, tolerance_s: int) -> str:
    """Unix seconds within the replay window, as the text that was signed."""
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise Unverified(f"{what} is not a time in Unix seconds")
    if abs(now_s - int(text)) > tolerance_s:
        raise Unverified(f"{what} is more than {tolerance_s} seconds from now; a replay, or a clock that is wrong")
    return text
