"""Arguments of tools: how each is checked, and its schema. Both come from one description."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from holdfast.domain.errors import BadInput
from holdfast.domain.text import short_repr
from holdfast.operations.answers.schema import JsonSchema

TEXT_MAX = 2048


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool. `read` turns its JSON value into the verb's argument, or raises `BadInput`."""

    name: str
    schema: JsonSchema
    read: Callable[[object], object]
    required: bool = False


def text(name: str, description: str, *, required: bool = False, maximum: int = TEXT_MAX) -> Argument:
    def read(value: object) -> str:
        if not isinstance(value, str) or not value or "\0" in value or len(value) > maximum:
            raise BadInput(f"{name} must be text of 1 to {maximum:,} characters, not {short_repr(value)}")
        return value

    schema: JsonSchema = {"type": "string", "minLength": 1, "maxLength": maximum, "description": description}
    return Argument(name, schema, read, required)


def choice(name: str, description: str, words: Iterable[str]) -> Argument:
    known = tuple(words)

    def read(value: object) -> object:
        if value not in known:
            raise BadInput(f"{name} must be one of {', '.join(known)}, not {short_repr(value)}")
        return value

    return Argument(name, {"type": "string", "enum": list(known), "description": description}, read)


def flag(name: str, description: str) -> Argument:
    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise BadInput(f"{name} must be true or false, not {short_repr(value)}")
        return value

    return Argument(name, {"type": "boolean", "description": description}, read)


def whole(name: str, description: str, least: int, most: int, default: int | None = None) -> Argument:
    def read(value: object) -> int:
        number = _integer(value)
        if number is None or not least <= number <= most:
            raise BadInput(f"{name} must be a whole number from {least} to {most}, not {short_repr(value)}")
        return number

    schema: JsonSchema = {"type": "integer", "minimum": least, "maximum": most, "description": description}
    return Argument(name, schema if default is None else {**schema, "default": default}, read)


def delivery_ids(name: str, description: str, most: int) -> Argument:
    """Ids of deliveries. Models often send numbers as text, so digits are accepted too."""

    def read(value: object) -> list[int]:
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            raise BadInput(f"{name} must list 1 to {most} delivery ids, not {short_repr(value)}")
        return [_delivery_id(item) for item in value]

    items: JsonSchema = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]{1,18}$"}]}
    schema: JsonSchema = {
        "type": "array", "minItems": 1, "maxItems": most, "items": items, "description": description,
    }  # fmt: skip
    return Argument(name, schema, read, required=True)


_VALUE: JsonSchema = {"type": ["string", "number", "boolean"]}
_CRITERION: JsonSchema = {
    "anyOf": [
        _VALUE,
        {"type": "array", "items": _VALUE, "minItems": 1},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "match": {"anyOf": [_VALUE, {"type": "array", "items": _VALUE, "minItems": 1}]},
                "pattern": {"type": "string", "description": "A pattern with * and ?."},
                "required": {"type": "boolean"},
            },
        },
    ]
}


def criterion(name: str, description: str) -> Argument:
    """A criterion of a contract. The verb checks it."""
    return Argument(name, {**_CRITERION, "description": description}, lambda value: value)


def criteria(name: str, description: str) -> Argument:
    """Criteria by property name. The verb checks them."""
    schema: JsonSchema = {"type": "object", "additionalProperties": _CRITERION, "description": description}
    return Argument(name, schema, lambda value: value)


def input_schema(arguments: Iterable[Argument]) -> JsonSchema:
    listed = list(arguments)
    required = [argument.name for argument in listed if argument.required]
    return {
        "type": "object",
        "properties": {argument.name: argument.schema for argument in listed},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def read_arguments(arguments: Iterable[Argument], given: Mapping[str, object]) -> dict[str, object]:
    """The checked arguments. Null means the same as an argument that is left out."""
    listed = {argument.name: argument for argument in arguments}
    unknown = sorted(set(given) - set(listed))
    if unknown:
        known = ", ".join(listed) or "none"
        raise BadInput(f"unknown argument {short_repr(unknown[0])}; known are: {known}")
    missing = [name for name, argument in listed.items() if argument.required and given.get(name) is None]
    if missing:
        raise BadInput(f"the argument {missing[0]} is missing")
    return {name: listed[name].read(value) for name, value in given.items() if value is not None}


def _integer(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 5.0 is an integer in JSON
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _delivery_id(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    number = _integer(value)
    if number is None or not 0 <= number < 2**62:
        raise BadInput(f"{short_repr(value)} is not a delivery id; dlq_inspect lists them as id")
    return number
