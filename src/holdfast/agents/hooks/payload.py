"""Reading what a CLI sent, whatever it sent: nothing of it may be lost because it is not quite JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from holdfast.domain.canonical import parse_json
from holdfast.domain.errors import BadInput, HoldfastError

DEPTH_MAX = 40
NUMBER_MAX = 300
TEXT_MAX = 2000

_SPACE = re.compile(r"[ \t\r\n]*")


def read_payload(body: bytes, truncated: bool) -> tuple[Any, bool]:
    """The value in the bytes, and whether it is all there. What our store could not carry is replaced by what it can.

    Of one that was cut, the fields that are whole.
    """
    try:
        return parse_json(body, "payload", limit=len(body)), True
    except HoldfastError:
        pass
    text = body.decode("utf-8", "replace").lstrip("\ufeff")
    try:
        return clean(json.loads(text, parse_constant=str, parse_float=_number(float), parse_int=_number(int))), True
    except (ValueError, RecursionError):
        found = read_start(text) if truncated else {}
    if not found:
        raise BadInput("the payload is not JSON")
    return clean(found), False


def read_start(text: str) -> dict[str, Any]:
    """The whole fields at the start of an object that was cut.

    >>> read_start('{"session_id": "s1", "cwd": "/src", "prompt": "Fix the')
    {'session_id': 's1', 'cwd': '/src'}
    """
    found: dict[str, Any] = {}
    at = _SPACE.match(text, 0).end()  # type: ignore[union-attr]
    decode = json.JSONDecoder(parse_constant=str, parse_float=_number(float), parse_int=_number(int)).raw_decode
    try:
        while text[at] in "{,":
            key, at = decode(text, _SPACE.match(text, at + 1).end())  # type: ignore[union-attr]
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
            if not isinstance(key, str) or text[at] != ":":
                break
            value, at = decode(text, _SPACE.match(text, at + 1).end())  # type: ignore[union-attr]
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
            if text[at] in ",}":  # a number at the very end may have lost its last digits
                found[key] = value
    except (ValueError, IndexError, RecursionError):
        pass
    return found


def clean(value: Any, text_max: int | None = None, depth: int = 0) -> Any:
    """The value with everything replaced that could not be stored: NUL, half characters, bottomless nesting."""
    if isinstance(value, str):
        return clean_text(value if text_max is None or len(value) <= text_max else value[:text_max] + "…")
    if not isinstance(value, dict | list):
        return value
    if depth >= DEPTH_MAX:
        return "…"
    if isinstance(value, list):
        return [clean(item, text_max, depth + 1) for item in value]
    return {clean_text(key): clean(item, text_max, depth + 1) for key, item in value.items()}


def clean_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def _number(read: Callable[[str], float]) -> Callable[[str], Any]:
    """A number, or its text where it is beyond what can be kept."""

    def parse(text: str) -> Any:
        value = read(text) if len(text) <= NUMBER_MAX else None
        return text[:TEXT_MAX] if value is None or value in (float("inf"), float("-inf")) else value

    return parse
