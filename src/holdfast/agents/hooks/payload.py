"""Reads a hook's payload, including payloads that were cut off or are not strictly valid JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from holdfast.domain.canonical import parse_json
from holdfast.domain.errors import BadInput, HoldfastError
from holdfast.domain.json_value import Json, JsonObject

DEPTH_MAX = 40
NUMBER_MAX = 300
TEXT_MAX = 2000

_SPACE = re.compile(r"[ \t\r\n]*")


def read_payload(body: bytes, truncated: bool) -> tuple[Json, bool]:
    """The payload's value, and whether it is complete. Values that the store cannot hold are replaced.

    For a truncated payload, the value holds the fields that arrived completely.
    """
    try:
        return parse_json(body, "payload", limit=len(body)), True
    except HoldfastError:
        pass
    text = body.decode("utf-8", "replace").lstrip("\ufeff")
    try:
        return clean(json.loads(text, parse_constant=str, parse_float=_number(float), parse_int=_number(int))), True
    except (ValueError, RecursionError):
        fields = read_start(text) if truncated else {}
    if not fields:
        raise BadInput("the payload is not JSON")
    return clean(fields), False


def read_start(text: str) -> JsonObject:
    """The complete fields at the start of a truncated object.

    >>> read_start('{"session_id": "s1", "cwd": "/src", "prompt": "Fix the')
    {'session_id': 's1', 'cwd': '/src'}
    """
    fields: JsonObject = {}
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
                fields[key] = value
    except (ValueError, IndexError, RecursionError):
        pass
    return fields


def clean(value: Json, text_max: int | None = None, depth: int = 0) -> Json:
    """The value with everything replaced that cannot be stored: NUL, lone surrogates, nesting beyond 40 levels."""
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


def _number(read: Callable[[str], float]) -> Callable[[str], Json]:
    """Parses a number; one that is too long or infinite stays text."""

    def parse(text: str) -> Json:
        value = read(text) if len(text) <= NUMBER_MAX else None
        return text[:TEXT_MAX] if value is None or value in (float("inf"), float("-inf")) else value

    return parse
