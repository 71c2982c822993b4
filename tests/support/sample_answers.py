"""Values made from their types: with every optional part filled in, or with none of them."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from holdfast.operations.answers.contracts import ContractTarget
from holdfast.operations.answers.fields import Format
from holdfast.operations.verbs import Operations

TIME = "2026-11-18T09:00:00.000Z"


def sample(kind: Any, full: bool) -> Any:
    """A value of a type. `full`: no None, no empty list and no empty mapping in it."""
    if kind == ContractTarget:
        return {"url": "https://hook.example/", "handler": None, "session": None, "secret": None, "has_secret": full}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _formatted(arguments[0], [extra for extra in arguments[1:] if isinstance(extra, Format)], full)
    if origin in (typing.Union, types.UnionType):
        inner = [one for one in arguments if one is not type(None)]
        return sample(inner[0], full) if full or len(inner) == len(arguments) else None
    if origin is typing.Literal:
        return arguments[0 if full else -1]
    if origin is list:
        return [sample(arguments[0], full)] if full else []
    if origin is tuple:
        return tuple(sample(one, full) for one in arguments if one is not Ellipsis) if full else ()
    if origin in (dict, Mapping):
        return {sample(arguments[0], full): sample(arguments[1], full)} if full else {}
    if dataclasses.is_dataclass(origin or kind):
        return _instance(origin or kind, arguments, full)
    return _plain(kind, full)


def _formatted(kind: Any, formats: list[Format], full: bool) -> Any:
    for format in formats:
        if format.format == "date-time":
            return TIME
        if format.enum is not None:
            return format.enum[0 if full else -1]
    return sample(kind, full)


def _plain(kind: Any, full: bool) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[0 if full else -1]
    values = {str: "text", int: 3, float: 2.5, bool: full, object: {"key": "value"}, bytes: b"bytes"}
    return values.get(kind, {"key": "value"})


def _instance(kind: Any, arguments: tuple[Any, ...], full: bool) -> Any:
    hints = typing.get_type_hints(kind, include_extras=True)
    variables = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    values = {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        inner = [variables.get(one, one) for one in typing.get_args(hint)]
        if any(one in variables for one in typing.get_args(hint)):
            hint = typing.get_origin(hint)[tuple(inner)]
        values[field.name] = sample(variables.get(hint, hint), full)
    return kind(**values)


class SampleVerbs:
    """Answers each verb of a class with a sample of the type that it promises."""

    def __init__(self, kind: type, full: bool) -> None:
        self._kind, self._full = kind, full

    def __getattr__(self, name: str) -> Callable[..., Any]:
        promised = typing.get_type_hints(getattr(self._kind, name), include_extras=True)["return"]

        async def verb(*values: object, **more: object) -> Any:
            return sample(promised, self._full)

        return verb


class SampleOperations:
    """Stands for `Operations`: every verb exists, and its answers are full or empty."""

    def __init__(self, real: Operations, full: bool) -> None:
        for subject, verbs in vars(real).items():
            setattr(self, subject, SampleVerbs(type(verbs), full))
