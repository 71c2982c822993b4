"""Parameters in the path and the query: how each is read, and its schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from holdfast.domain.errors import BadInput
from holdfast.domain.event import check_name
from holdfast.domain.text import short_repr
from holdfast.operations.answers.schema import JsonSchema
from holdfast.surfaces.rest.value_schemas import NO_NUL

TEXT_MAX = 2048
ID_MAX = 2**62
PAGE_MAX = 1000

_WHOLE = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `read` turns its text into a value, or raises `BadInput`."""

    name: str
    read: Callable[[str], object]
    schema: JsonSchema
    where: str = "query"
    needs: str | None = None
    """Another parameter without which this one is refused."""

    @property
    def argument(self) -> str:
        """The name of the verb's argument, such as last_event_id for the header Last-Event-ID."""
        if self.where != "header":
            return self.name
        return self.name.lower().removeprefix("x-substrate-").replace("-", "_")

    def describe(self) -> dict[str, object]:
        return {"name": self.name, "in": self.where, "required": self.where == "path", "schema": self.schema}


def describe_parameters(parameters: Iterable[Parameter]) -> list[dict[str, object]]:
    """The parameters as an OpenAPI document shows them.

    Only an object can express that one parameter needs another: both become keys of one exploded object.
    """
    by_name = {parameter.name: parameter for parameter in parameters}
    described = []
    for name, parameter in by_name.items():
        dependent = next((other for other in by_name.values() if other.needs == name), None)
        if dependent is not None:
            schema = {
                "type": "object",
                "additionalProperties": False,
                "properties": {name: parameter.schema, dependent.name: dependent.schema},
                "dependentRequired": {dependent.name: [name]},
            }
            described.append({"name": f"{name}_{dependent.name}", "in": "query", "required": False, "style": "form",
                              "explode": True, "schema": schema})  # fmt: skip
        elif parameter.needs is None:
            described.append(parameter.describe())
    return described


def text(name: str, pattern: str = NO_NUL, where: str = "query", needs: str | None = None) -> Parameter:
    """Any text. What a verb refuses beyond that is declared by `pattern`."""

    def read(value: str) -> str:
        if len(value) > TEXT_MAX:
            raise BadInput(f"{name} is {len(value):,} characters long; the limit is {TEXT_MAX:,}")
        if "\0" in value:
            raise BadInput(f"{name} holds U+0000 (NUL); remove it")
        return value

    return Parameter(name, read, {"type": "string", "maxLength": TEXT_MAX, "pattern": pattern}, where, needs)


def choice(name: str, words: Iterable[str]) -> Parameter:
    """One of a few words. The verb refuses others, with an error that lists them."""
    return Parameter(name, text(name).read, {"type": "string", "enum": [str(word) for word in words]})


def flag(name: str) -> Parameter:
    def read(value: str) -> bool:
        if value not in ("true", "false"):
            raise BadInput(f"{name} must be true or false, not {short_repr(value)}")
        return value == "true"

    return Parameter(name, read, {"type": "boolean", "default": False})


def whole(name: str, least: int, most: int, default: int | None = None, where: str = "query") -> Parameter:
    def read(value: str) -> int:
        number = int(value) if _WHOLE.fullmatch(value) else least - 1
        if not least <= number <= most:
            raise BadInput(f"{name} must be a whole number from {least} to {most}, not {short_repr(value)}")
        return number

    schema: JsonSchema = {"type": "integer", "minimum": least, "maximum": most}
    return Parameter(name, read, schema if default is None else {**schema, "default": default}, where)


def limit(default: int) -> Parameter:
    return whole("limit", 1, PAGE_MAX, default)


NUMBER_CURSOR = text("after", "^[0-9]{1,18}$")
TEXT_CURSOR = text("after")
TEXT_ID = text("id", where="path")
NUMBER_ID = whole("id", 0, ID_MAX, where="path")


def principal(value: str) -> str:
    return check_name(value, "the header X-Substrate-Principal")


def read_all(
    parameters: Iterable[Parameter], path: Mapping[str, str], query: Mapping[str, str], headers: Mapping[str, str]
) -> dict[str, object]:
    """The values of all parameters that were given, by argument."""
    places = {"path": path, "query": query, "header": headers}
    values = {}
    for parameter in parameters:
        given = places[parameter.where].get(parameter.name)
        if given is not None:
            values[parameter.argument] = parameter.read(given)
    return values
