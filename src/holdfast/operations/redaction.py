"""Payloads as operators see them in lists: secrets masked, and no longer than a limit."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

MASKED = "***"
DEPTH_MAX = 100

_SECRET = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|api[-_ ]?key|access[-_ ]?key|private[-_ ]?key|authorization|cookie"
    r"|signature|credential",
    re.IGNORECASE,
)


class Excerpt(NamedTuple):
    """`value`: the redacted value, or the beginning of its JSON text if that is longer than the limit (`cut`)."""

    value: object
    cut: bool = False


def redact(value: object, secret: bool = False, depth: int = 0) -> object:
    """Mask the texts under keys that name a secret, such as `password` or `Authorization`.

    >>> redact({"user": "ann", "password": "p", "tokens_used": 5})
    {'user': 'ann', 'password': '***', 'tokens_used': 5}
    """
    if isinstance(value, str):
        return MASKED if secret and value else value
    if depth >= DEPTH_MAX:
        return MASKED if isinstance(value, dict | list) else value
    if isinstance(value, dict):
        return {key: redact(item, secret or bool(_SECRET.search(str(key))), depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item, secret, depth + 1) for item in value]
    return value


def excerpt(value: object, limit: int) -> Excerpt:
    """A payload for a list: redacted, and at most `limit` characters of JSON."""
    redacted = redact(value)
    text = json.dumps(redacted, ensure_ascii=False)
    return Excerpt(redacted) if len(text) <= limit else Excerpt(text[:limit], cut=True)
