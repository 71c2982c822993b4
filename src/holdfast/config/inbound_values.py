"""Reads single values of `hooks.inbound`. Errors name the key and what it must be, and never show a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from holdfast.domain.errors import BadConfig
from holdfast.domain.text import short_repr
from holdfast.ingress.webhook.headers import KEPT_MAX, may_be_secret

TEXT_MAX = 500
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")
_FIELD = re.compile(r"[^.\s]{1,100}(\.[^.\s]{1,100}){0,9}")


def check_keys(value: Mapping[object, object], known: Iterable[str], where: str) -> None:
    names = tuple(known)
    for key in value:
        if key not in names:
            near = get_close_matches(str(key), names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
            raise BadConfig(f"{where} has an unknown key {short_repr(key)}; {hint}")


def read_text(value: Mapping[str, object], key: str, where: str) -> str | None:
    found = value.get(key)
    if found is not None and (not isinstance(found, str) or not found or len(found) > TEXT_MAX):
        raise BadConfig(f"{where}.{key} must be a non-empty text of at most {TEXT_MAX} characters")
    return found


def read_choice(value: Mapping[str, object], key: str, where: str, choices: Iterable[str], default: str) -> str:
    found, known = value.get(key, default), tuple(choices)
    if found not in known:
        raise BadConfig(f"{where}.{key} must be one of {', '.join(known)}, not {short_repr(found)}")
    return str(found)


def read_number(value: Mapping[str, object], key: str, where: str, default: int, most: int) -> int:
    found = value.get(key, default)
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) < 12:
        found = int(found)  # an environment variable is always text
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= max(most, default):
        raise BadConfig(f"{where}.{key} must be a whole number from 1 to {max(most, default)}, not {short_repr(found)}")
    return found


def read_header(value: Mapping[str, object], key: str, where: str) -> str | None:
    found = value.get(key)
    return None if found is None else _header_name(found, f"{where}.{key}")


def read_kept_header(value: Mapping[str, object], key: str, where: str) -> str | None:
    """A header that is stored with the request, and so must not be one that carries secrets."""
    found = read_header(value, key, where)
    return None if found is None else _kept(found, f"{where}.{key}")


def read_kept_headers(value: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
    found = value.get(key, [])
    if not isinstance(found, list) or len(found) > KEPT_MAX:
        raise BadConfig(f"{where}.{key} must be a list of at most {KEPT_MAX} header names")
    return tuple(_kept(_header_name(name, f"{where}.{key}"), f"{where}.{key}") for name in found)


def read_field(value: Mapping[str, object], key: str, where: str) -> str | None:
    """A path into a JSON body, such as `data.object.id`."""
    found = value.get(key)
    if found is not None and (not isinstance(found, str) or not _FIELD.fullmatch(found)):
        raise BadConfig(
            f"{where}.{key} must be the path of a field, such as event_id or data.id, not {short_repr(found)}"
        )
    return found


def _kept(name: str, what: str) -> str:
    if may_be_secret(name):
        raise BadConfig(f"{what} names {name}, which may carry a secret and is never stored")
    return name


def _header_name(value: object, what: str) -> str:
    if not isinstance(value, str) or not _HEADER.fullmatch(value):
        raise BadConfig(f"{what} must be the name of a header, such as X-Signature, not {short_repr(value)}")
    return value.lower()
