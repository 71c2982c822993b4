"""Read a payload as the type that a handler's parameter is annotated with: dict, TypedDict, dataclass, pydantic model.

A reader of a type is made once, when the handler is registered, so that a type that cannot be read is refused then.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from holdfast.domain.json_value import JsonObject, KnownJson

Kind: TypeAlias = Any
"""A type that is known at run time only."""

Read = Callable[[KnownJson, str], object]
"""Reads one JSON value; the second argument is its path, for an error message."""

_FROM_TEXT: dict[object, Callable[[str], object]] = {
    datetime: datetime.fromisoformat, date: date.fromisoformat, time: time.fromisoformat, UUID: UUID, Decimal: Decimal,
}  # fmt: skip
_PLAIN: dict[object, tuple[type, ...]] = {
    str: (str,), bool: (bool,), int: (int,), types.NoneType: (types.NoneType,), float: (int, float),
}  # fmt: skip


UNTYPED = (typing.Any, object)
"""Annotations that say nothing about the type."""


class Unreadable(Exception):
    """The annotation names a type that JSON cannot be read as."""


class Misfit(Exception):
    """The payload does not fit the type."""


def is_payload_type(annotation: object) -> bool:
    """Whether a parameter with this annotation gets the payload."""
    kind: Kind = get_origin(annotation) or annotation
    return kind in (dict, Mapping) or _has_fields(kind)


def reader_of(annotation: object) -> Read:
    """The reader of a type. Raises Unreadable if there is none."""
    kind: Kind = get_origin(annotation) or annotation
    if annotation in UNTYPED:
        return lambda value, path: value
    if isinstance(kind, type) and hasattr(kind, "model_validate"):
        return _model(kind)
    if kind in (dict, Mapping):
        return _mapping(get_args(annotation))
    if kind in (NotRequired, Required, Annotated):
        return reader_of(get_args(annotation)[0])
    if kind in (list, tuple, set, frozenset):
        return _array(kind, get_args(annotation))
    if kind in (Union, types.UnionType):
        return _one_of([reader_of(each) for each in get_args(annotation)])
    if kind is Literal:
        return _literal(get_args(annotation))
    if kind in _FROM_TEXT:
        return _text(_FROM_TEXT[kind], kind)
    if kind in _PLAIN:
        return _plain(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    if _has_fields(kind):
        return _fields(kind)
    raise Unreadable(getattr(annotation, "__name__", None) or str(annotation))


def _has_fields(kind: object) -> bool:
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "model_validate")
    )


def _fields(kind: Kind) -> Read:
    """A dataclass or TypedDict. Names that it does not have are ignored, so that a publisher may add some."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise Unreadable(f"{kind.__name__}, whose annotations cannot be resolved ({error})") from None
    if dataclasses.is_dataclass(kind):
        fields = [field for field in dataclasses.fields(kind) if field.init]
        needed = {
            field.name
            for field in fields
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        names = {field.name for field in fields}
    else:
        names, needed = (
            set(hints),
            {name for name in kind.__required_keys__ if get_origin(hints[name]) is not NotRequired},
        )
    readers = {name: reader_of(hints[name]) for name in names}

    def read(value: KnownJson, path: str) -> object:
        given = _object(value, path)
        missing = sorted(needed - set(given))
        if missing:
            raise Misfit(f"{_under(path, missing[0])} is missing")
        return kind(**{name: readers[name](given[name], _under(path, name)) for name in given if name in readers})

    return read


def _mapping(arguments: tuple[object, ...]) -> Read:
    if arguments and arguments[0] not in (str, *UNTYPED):
        raise Unreadable(f"a mapping with keys of type {getattr(arguments[0], '__name__', arguments[0])}")
    part = reader_of(arguments[1] if arguments else object)
    return lambda value, path: {
        name: part(each, _under(path, name)) for name, each in _object(value, path).items()
    }  # fmt: skip


def _array(kind: Kind, arguments: tuple[object, ...]) -> Read:
    parts = [reader_of(each) for each in arguments if each is not ...] or [reader_of(object)]
    if len(parts) > 1:
        raise Unreadable("a tuple of several types")

    def read(value: KnownJson, path: str) -> object:
        if not isinstance(value, list):
            raise Misfit(f"{path or 'it'} is not an array")
        return kind(parts[0](each, f"{path}[{index}]") for index, each in enumerate(value))

    return read


def _one_of(readers: list[Read]) -> Read:
    def read(value: KnownJson, path: str) -> object:
        first: Misfit | None = None
        for each in readers:
            try:
                return each(value, path)
            except Misfit as error:
                first = first or error
        raise first or Misfit(f"{path or 'it'} fits no type")

    return read


def _plain(kind: Kind) -> Read:
    def read(value: KnownJson, path: str) -> object:
        if not isinstance(value, _PLAIN[kind]) or (isinstance(value, bool) and kind is not bool):
            raise Misfit(f"{path or 'it'} is not a {'null' if kind is types.NoneType else kind.__name__}")
        return value

    return read


def _text(parse: Callable[[str], object], kind: Kind) -> Read:
    def read(value: KnownJson, path: str) -> object:
        try:
            return parse(str(value) if kind is Decimal and isinstance(value, int | float) else value)
        except (ValueError, TypeError, AttributeError, InvalidOperation):
            raise Misfit(f"{path or 'it'} is not a {kind.__name__}") from None

    return read


def _enum(kind: type[Enum]) -> Read:
    def read(value: KnownJson, path: str) -> object:
        try:
            return kind(value)
        except ValueError:
            raise Misfit(f"{path or 'it'} is not a {kind.__name__}") from None

    return read


def _literal(values: tuple[object, ...]) -> Read:
    def read(value: KnownJson, path: str) -> object:
        if value not in values:
            raise Misfit(f"{path or 'it'} is not one of {', '.join(map(repr, values))}")
        return value

    return read


def _model(kind: Kind) -> Read:
    def read(value: KnownJson, path: str) -> object:
        try:
            return kind.model_validate(value)
        except ValueError as error:  # pydantic's ValidationError
            raise Misfit(f"{path or 'it'} is not a valid {kind.__name__}: {error}") from None

    return read


def _object(value: KnownJson, path: str) -> JsonObject:
    if not isinstance(value, dict):
        raise Misfit(f"{path or 'it'} is not an object")
    return value


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
