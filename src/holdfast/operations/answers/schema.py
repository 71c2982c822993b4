"""From the type of an answer to its JSON Schema, for OpenAPI and other surfaces."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from holdfast.operations.answers.encode import is_answer, json_field, members_of
from holdfast.operations.answers.fields import Format

JsonSchema: TypeAlias = dict[str, object]

SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


class Schemas:
    """Schemas by name, as `components.schemas` of an OpenAPI document holds them."""

    def __init__(self, prefix: str = "#/components/schemas/") -> None:
        self._prefix = prefix
        self.by_name: dict[str, JsonSchema] = {}

    def of(self, hint: object) -> JsonSchema:
        """The schema of a type. An answer's schema is stored under its name, and this is a reference to it."""
        origin, arguments = get_origin(hint), get_args(hint)
        if hint is object:
            return {}
        if isinstance(hint, type) and hint in SCALARS:
            return {"type": SCALARS[hint]}
        if origin is Annotated:
            return {**self.of(arguments[0]), **_keywords(arguments[1])}
        if origin in (Union, UnionType):
            return self._union(arguments)
        if origin is list:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        kind = origin or hint
        assert isinstance(kind, type), hint
        assert is_answer(kind), hint
        name = json_field(kind)
        if name is not None:
            return self.of(get_type_hints(kind, include_extras=True)[name])
        return self._reference(kind, arguments)

    def _union(self, options: tuple[object, ...]) -> JsonSchema:
        schemas = [self.of(option) for option in options]
        if all(set(schema) == {"type"} for schema in schemas):
            return {"type": [schema["type"] for schema in schemas]}
        return {"anyOf": schemas}

    def _reference(self, kind: type, arguments: tuple[object, ...]) -> JsonSchema:
        name = "".join(_short_name(argument) for argument in arguments) + _short_name(kind)
        if name not in self.by_name:
            self.by_name[name] = {}  # reserved: an answer may refer to itself
            self.by_name[name] = self._object(kind, arguments)
        return {"$ref": self._prefix + name}

    def _object(self, kind: type, arguments: tuple[object, ...]) -> JsonSchema:
        variables = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=True))
        hints = get_type_hints(kind, include_extras=True)
        names = [item.name for item in fields(kind)] if is_dataclass(kind) else list(hints)
        omitted = {member.name for member in members_of(kind) if member.omit_none}
        return {
            "type": "object",
            "description": inspect.getdoc(kind) or "",
            "required": [name for name in names if name not in omitted],
            "properties": {
                name: self.of(_without_none(hints[name]) if name in omitted else _bind(hints[name], variables))
                for name in names
            },
        }


def _bind(hint: object, variables: Mapping[object, object]) -> object:
    """A hint with its type variables filled in."""
    if isinstance(hint, TypeVar):
        return variables[hint]
    arguments = get_args(hint)
    if get_origin(hint) is list and isinstance(arguments[0], TypeVar):
        return GenericAlias(list, (variables[arguments[0]],))
    return hint


def _without_none(hint: object) -> object:
    """`X` of `X | None`: a key that is left out while it is None is never null."""
    rest = tuple(option for option in get_args(hint) if option is not NoneType)
    return rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007


def _keywords(format: object) -> JsonSchema:
    assert isinstance(format, Format)
    keywords = {"format": format.format, "enum": format.enum and list(format.enum), "pattern": format.pattern}
    return {name: value for name, value in keywords.items() if value is not None}


def _short_name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind)).removesuffix("Answer")
