"""JSON values as types, and readers of values whose shape is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

DEPTH_MAX = 64
"""How deeply objects and arrays may be nested."""

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
"""A decoded JSON value of unknown shape, so it has to be checked before use, for example with the readers below.

A value that is still to be encoded is an `object`: `holdfast.domain.canonical.dump_json` checks it.
"""

JsonObject: TypeAlias = dict[str, Json]

KnownJson: TypeAlias = Any
"""Decoded JSON whose shape was checked elsewhere: settings, an answer of the REST API, a payload of the application."""


def text_in(values: Mapping[str, Json], name: str) -> str | None:
    """The text under a name; None if there is none, or if it is something else.

    >>> text_in({"id": "a", "count": 3}, "id"), text_in({"id": "a", "count": 3}, "count")
    ('a', None)
    """
    value = values.get(name)
    return value if isinstance(value, str) else None


def object_in(values: Mapping[str, Json], name: str) -> JsonObject:
    """The object under a name; an empty one if there is none, or if it is something else."""
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def list_in(values: Mapping[str, Json], name: str) -> list[Json]:
    """The list under a name; an empty one if there is none, or if it is something else."""
    value = values.get(name)
    return value if isinstance(value, list) else []


def without_none(values: Mapping[str, T | None]) -> dict[str, T]:
    """The entries that have a value.

    >>> without_none({"title": "Fix the tests", "cwd": None})
    {'title': 'Fix the tests'}
    """
    return {name: value for name, value in values.items() if value is not None}
