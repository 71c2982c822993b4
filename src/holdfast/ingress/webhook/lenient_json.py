"""JSON of webhooks, repaired where a value could not be stored.

The REST API rejects such values with an error. A platform does not read the response to its webhook, and the original
bytes are stored unchanged, so here the value is repaired instead:

| in the text | in the value |
|---|---|
| half of a surrogate pair (`"\\ud83d"`), U+0000 | U+FFFD |
| `NaN`, `Infinity`, a number too large for a float, an integer of more than 4,300 digits | its text |
| a key that occurs twice | its last value |
| control characters inside a string | as they are |
| containers nested deeper than 64 levels | their JSON text |
"""

from __future__ import annotations

import json
import re

from holdfast.domain.errors import BadJson
from holdfast.domain.json_value import DEPTH_MAX, Json

DIGITS_MAX = 4300  # the limit of Python's int()
_CONTAINERS = (dict, list)
_INFINITE = (float("inf"), float("-inf"))
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SUSPECT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")  # the escape of NUL, or of half a character
_WHOLE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


def read_json(text: str, what: str = "the body") -> Json:
    """The value of a JSON text; `BadJson` if it is not JSON.

    >>> read_json('{"a": "cut \\\\ud83d", "b": [NaN, 1e999]}')
    {'a': 'cut \ufffd', 'b': ['NaN', '1e999']}
    """
    try:
        value = _load(text)
    except RecursionError:
        raise BadJson(f"{what} is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadJson(f"{what} is not JSON: {error.msg} at line {error.lineno}") from None
    return _storable(value, 1) if _is_unstorable(text, value) else value


def clean_text(text: str) -> str:
    """The text, with U+FFFD for characters that cannot be stored."""
    return _UNSTORABLE.sub("\ufffd", text)


def _finite(text: str) -> float | str:
    value = float(text)
    return text[:DIGITS_MAX] if value in _INFINITE else value


def _short(text: str) -> int | str:
    return text if len(text) > DIGITS_MAX else int(text)


_decode = json.JSONDecoder(strict=False, parse_constant=str, parse_float=_finite).decode
_decode_long = json.JSONDecoder(strict=False, parse_constant=str, parse_float=_finite, parse_int=_short).decode


def _load(text: str) -> Json:
    try:
        value: Json = _decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of too many digits
        value = _decode_long(text)
    return value


def _is_unstorable(text: str, value: Json) -> bool:
    """Whether the value needs repair. The text decides in most cases: walking the value costs more than parsing."""
    if "\x00" in text or ("\\u" in text and _has_suspects(text)):
        return True
    return text.count("{") + text.count("[") > DEPTH_MAX and _is_deep(value)


def _has_suspects(text: str) -> bool:
    """Whether an escape may produce an unstorable character. `\\\\u` may not be an escape: check the value."""
    if "\\\\u" in text:
        return True
    return _SUSPECT.search(text) is not None and _SUSPECT.search(_WHOLE.sub("", text)) is not None


def _is_deep(value: Json) -> bool:
    level = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(DEPTH_MAX):
        children = (item.values() if isinstance(item, dict) else item for item in level)
        level = [child for items in children for child in items if isinstance(child, _CONTAINERS)]
        if not level:
            return False
    return True


def _storable(value: Json, depth: int) -> Json:
    """The value with everything that cannot be stored replaced. `depth`: the level of this value."""
    if isinstance(value, str):
        return clean_text(value)
    if not isinstance(value, dict | list):
        return value
    if depth > DEPTH_MAX:
        return _as_text(value)
    if isinstance(value, list):
        return [_storable(item, depth + 1) for item in value]
    return {clean_text(key): _storable(item, depth + 1) for key, item in value.items()}


def _as_text(value: Json) -> str:
    try:
        return clean_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    except RecursionError:
        return "…"
