"""Canonical JSON: one text for one value, and a strict parser that rejects values which some store could not hold.

Keys sorted by code point, no spaces, UTF-8, no NaN. These bytes are stored; signatures and digests are computed over
the stored bytes, never over a value that went through another parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection

from holdfast.domain.errors import BadJson, TooLarge
from holdfast.domain.json_value import DEPTH_MAX, Json

BYTES_MAX = 1024 * 1024

_ARRAYS = (list, tuple)
_SCALARS = frozenset({str, int, float, bool, type(None)})
_only_scalars = _SCALARS.issuperset

# Finds every key that the encoder may have made of a number, a boolean or None. Where it finds none, and that is the
# usual payload, no key has to be checked.
_find_key_of_number = re.compile(r'"(?:-?\d[\d.e+-]*|true|false|null)":').search


def _form(value: object) -> object:
    """The JSON form of a value that JSON does not have. The encoder calls it for such values only."""
    from holdfast.domain.json_form import json_form

    form = json_form(value)
    check_keys(form)
    return form


def check_keys(value: object) -> None:
    """Raise TypeError if an object has a key that is not a string: the encoder would turn a number into one.

    It looks into objects and arrays only; `_form` checks the other values.
    """
    if isinstance(value, dict):
        "".join(value)  # raises TypeError, without a loop of ours
        parts: Collection[object] = value.values()
    elif isinstance(value, _ARRAYS):
        parts = value
    else:
        return
    if not _only_scalars(map(type, parts)):
        for part in parts:
            if type(part) not in _SCALARS:
                check_keys(part)


_encoder = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_form
)  # fmt: skip


def _fast_encoder() -> Callable[[object], str]:
    """`_encoder.encode` without its set-up for each value. It may raise other errors."""
    make = getattr(json.encoder, "c_make_encoder", None)
    quote = getattr(json.encoder, "c_encode_basestring", None)
    if make is None or quote is None:
        return _encoder.encode
    parts = make(None, _form, quote, None, ":", ",", True, False, False)
    return lambda value: "".join(parts(value, 0))


_encode = _fast_encoder()


def dump_json(value: object, what: str = "payload", limit: int = BYTES_MAX) -> bytes:
    """The canonical bytes of a JSON value, or an error that names what is wrong with it.

    >>> dump_json({"b": 1.5, "a": [True, None, "é"]})
    b'{"a":[true,null,"\\xc3\\xa9"],"b":1.5}'
    """
    try:
        text = _encode(value)
        if _find_key_of_number(text):
            check_keys(value)
        raw = text.encode("utf-8")
    except Exception as error:
        from holdfast.domain.json_fault import find_fault

        raise BadJson(find_fault(value, what) or f"{what} is not a JSON value: {error}") from None
    check_bytes(raw, value, what, limit)
    return raw


def check_bytes(raw: bytes, value: object, what: str, limit: int) -> None:
    """Check size, depth and NUL."""
    if len(raw) > limit:
        raise TooLarge(f"{what} is {len(raw):,} bytes; the limit is {limit:,}. Store it elsewhere and send a link")
    if raw.count(b"{") + raw.count(b"[") > DEPTH_MAX and _depth(value) > DEPTH_MAX:
        raise BadJson(f"{what} is nested deeper than {DEPTH_MAX} levels; flatten it")
    if b"\\u0000" in raw and _has_nul(raw):
        from holdfast.domain.json_fault import find_fault

        raise BadJson(find_fault(value, what) or f"{what} contains U+0000 (NUL); remove or encode it")


def parse_json(raw: bytes, what: str = "body", limit: int = BYTES_MAX) -> Json:
    """Parse JSON from outside. Errors name the problem and its position.

    Stricter than `json.loads`: UTF-8 only, no NaN, no duplicate keys, bounded depth and size.
    """
    if len(raw) > limit:
        raise TooLarge(f"{what} is {len(raw):,} bytes; the limit is {limit:,}")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadJson(f"{what} is not UTF-8 (byte {error.start}); send JSON encoded as UTF-8") from None
    if text.startswith("\ufeff"):
        raise BadJson(f"{what} starts with a byte order mark; send plain UTF-8")
    if "\x00" in text:
        raise BadJson(f"{what} contains a NUL byte; remove it")
    try:
        value: Json = _decoder.decode(text)
    except RecursionError:
        raise BadJson(f"{what} is nested deeper than {DEPTH_MAX} levels; flatten it") from None
    except _Refused as error:
        raise BadJson(f"{what} {error}") from None
    except json.JSONDecodeError as error:
        raise BadJson(f"{what} is not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except ValueError:
        raise BadJson(f"{what} contains a number with too many digits; send it as a string") from None
    if text.count("{") + text.count("[") > DEPTH_MAX and _depth(value) > DEPTH_MAX:
        raise BadJson(f"{what} is nested deeper than {DEPTH_MAX} levels; flatten it")
    if b"\\u" in raw:  # only an escape can hide what the checks above look for
        dump_json(value, what, limit=2 * limit)
    return value


class _Refused(Exception):
    pass


def _no_constant(name: str) -> Json:
    raise _Refused(f"contains {name}, which JSON does not have; send null or a string")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _Refused(f"contains {text[:20]}, which is too large for a number; send it as a string")
    return value


def _no_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Refused(f"has the key {_first_duplicate(pairs)} twice; parsers disagree on which value counts")
    return value


def _first_duplicate(pairs: list[tuple[str, Json]]) -> str:
    """The first repeated key, clipped and in ASCII. One pass: a body may have 100,000 keys."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return ascii(name[:60])
        seen.add(name)
    raise AssertionError("every key is there once")


_decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_duplicates)


def _depth(value: object) -> int:
    deepest, open_values = 0, [(value, 1)]
    while open_values:
        item, depth = open_values.pop()
        if isinstance(item, dict):
            children = list(item.values())
        elif isinstance(item, list | tuple):
            children = list(item)
        elif type(item) in _SCALARS or isinstance(item, str | int | float):
            continue
        else:
            open_values.append((_form(item), depth))
            continue
        deepest = max(deepest, depth)
        if deepest > DEPTH_MAX:
            break
        open_values.extend((child, depth + 1) for child in children)
    return deepest


def _has_nul(raw: bytes) -> bool:
    """Whether one of the `\\u0000` in the text is an escape and not an escaped backslash before `u0000`."""
    at = raw.find(b"\\u0000")
    while at >= 0:
        before = at
        while before > 0 and raw[before - 1 : before] == b"\\":
            before -= 1
        if (at - before) % 2 == 0:
            return True
        at = raw.find(b"\\u0000", at + 1)
    return False
