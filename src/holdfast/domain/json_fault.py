"""Find what makes a value impossible to encode as JSON, and where in it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from holdfast.domain.json_form import json_form
from holdfast.domain.json_value import DEPTH_MAX
from holdfast.domain.text import clip_text, short_repr

_NAME_MAX = 60
_ERROR_MAX = 300

_REMEDIES = {
    "set": "use a sorted list",
    "frozenset": "use a sorted list",
    "bytes": "decode it, or encode it as base64 text",
    "bytearray": "decode it, or encode it as base64 text",
    "timedelta": "use total_seconds()",
    "type": "pass a value, not a class",
    "ModelMetaclass": "pass a value, not a class",
    "generator": "use a list",
}


def find_fault(value: object, what: str) -> str | None:
    """One sentence that names the first fault and its path; None if there is none.

    >>> find_fault({"lines": [{"tags": {"new"}}]}, "payload")
    'payload is not a JSON value: lines[0].tags is a set; use a sorted list'
    """
    try:
        return next(_faults(value, what, "", 1, frozenset()), None)
    except RecursionError:
        return _too_deep(what)


def _faults(value: object, what: str, path: str, depth: int, open_ids: frozenset[int]) -> Iterator[str]:
    at = f" at {path}" if path else ""
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        yield from _text_faults(value, what, at)
    elif isinstance(value, int):
        yield from _integer_faults(value, what, at)
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield f"{what} contains NaN or an infinity{at}, which JSON does not have; send null or a string"
    elif id(value) in open_ids:
        yield f"{what} contains itself{at}"
    elif depth > DEPTH_MAX and isinstance(value, dict | list | tuple):
        yield _too_deep(what)
    else:
        yield from _container_faults(value, what, path, depth, open_ids | {id(value)})


def _container_faults(value: object, what: str, path: str, depth: int, open_ids: frozenset[int]) -> Iterator[str]:
    at = f" at {path}" if path else ""
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                yield (
                    f"{what} is not a JSON value: the key {short_repr(key)}{at} is of type {type(key).__name__}; "
                    "keys must be strings"
                )
            else:
                yield from _text_faults(key, what, f" in a key{at}")
                yield from _faults(part, what, _member(path, key), depth + 1, open_ids)
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _faults(part, what, f"{path}[{index}]", depth + 1, open_ids)
    else:
        try:
            form = json_form(value)
        except TypeError:
            yield f"{what} is not a JSON value: {path or 'it'} is a {type(value).__name__}{_remedy(value)}"
        except Exception as error:  # of a model's own serializer
            yield f"{what} is not a JSON value: {path or 'it'} cannot be dumped: {clip_text(str(error), _ERROR_MAX)}"
        else:
            yield from _faults(form, what, path, depth, open_ids)


def _text_faults(text: str, what: str, at: str) -> Iterator[str]:
    if "\x00" in text:
        yield f"{what} contains U+0000 (NUL){at}, which databases truncate or refuse; remove or encode it"
    if any("\ud800" <= character <= "\udfff" for character in text):
        yield f"{what} contains a lone surrogate{at}, which is not a character; replace it"


def _integer_faults(value: int, what: str, at: str) -> Iterator[str]:
    try:
        int.__repr__(value)
    except ValueError:
        yield f"{what} contains a number with too many digits{at}; send it as a string"


def _member(path: str, key: str) -> str:
    """
    >>> _member("lines[0]", "price"), _member("", "unit price")
    ('lines[0].price', "['unit price']")
    """
    if not key.isidentifier() or len(key) > _NAME_MAX:
        return f"{path}[{short_repr(key)}]"
    return f"{path}.{key}" if path else key


def _remedy(value: object) -> str:
    found = _REMEDIES.get(type(value).__name__)
    return f"; {found or 'convert it to JSON types, a dataclass or a pydantic model'}"


def _too_deep(what: str) -> str:
    return f"{what} is nested deeper than {DEPTH_MAX} levels; flatten it"
