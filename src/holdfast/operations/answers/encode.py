"""From an answer to the JSON value that every surface shows."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from holdfast.operations.answers.fields import OMIT_NONE

SCALARS = (str, int, float, bool, type(None), object)

_members: dict[type, tuple[Member, ...]] = {}


class Member(NamedTuple):
    """How one field is encoded. `nested`: it may hold answers, so its value has to be encoded too."""

    name: str
    omit_none: bool
    nested: bool


def encode(answer: object) -> Any:
    """The JSON value of an answer, of a list of answers, or of a mapping to answers.

    Free-form JSON in a field of type `object` is passed on as it is.
    """
    if is_answer(type(answer)):
        name = json_field(type(answer))
        return encode(getattr(answer, name)) if name is not None else _encode_members(answer)
    if isinstance(answer, list | tuple):
        return [encode(item) for item in answer]
    if isinstance(answer, dict):
        return {name: encode(item) for name, item in answer.items()}
    return answer


def encoded_bytes(answer: object) -> int:
    """The size of an answer as JSON."""
    return len(json.dumps(encode(answer), ensure_ascii=False).encode("utf-8", "replace"))


def is_answer(kind: object) -> bool:
    """Whether a type is encoded as a JSON object with one key per field."""
    return isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "_fields"))


def json_field(kind: type) -> str | None:
    """The one field that is the whole JSON value, for answers that carry more than their JSON value can hold."""
    return getattr(kind, "JSON_FIELD", None)


def members_of(kind: type) -> tuple[Member, ...]:
    """How the fields of an answer are encoded, in their order."""
    members = _members.get(kind)
    if members is None:
        members = _members[kind] = _find_members(kind)
    return members


def _find_members(kind: type) -> tuple[Member, ...]:
    hints = get_type_hints(kind)
    if not is_dataclass(kind):  # a NamedTuple
        return tuple(Member(name, False, _may_nest(hint)) for name, hint in hints.items())
    return tuple(
        Member(item.name, item.metadata.get(OMIT_NONE, False), _may_nest(hints[item.name])) for item in fields(kind)
    )


def _encode_members(answer: object) -> dict[str, Any]:
    values = {}
    for name, omit_none, nested in members_of(type(answer)):
        value = getattr(answer, name)
        if value is not None or not omit_none:
            values[name] = encode(value) if nested else value
    return values


def _may_nest(hint: object) -> bool:
    arguments = get_args(hint)
    if get_origin(hint) is None or not arguments:
        return hint not in SCALARS
    return any(_may_nest(argument) for argument in arguments)
