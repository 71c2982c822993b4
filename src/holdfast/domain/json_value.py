"""JSON values as types, for the places where any JSON may stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Json: TypeAlias = Any
"""Any JSON value: an object, a list, a string, a number, a boolean or null. Its shape is the caller's."""

JsonObject: TypeAlias = dict[str, Json]


def without_none(values: Mapping[str, T | None]) -> dict[str, T]:
    """The entries that have a value.

    >>> without_none({"title": "Fix the tests", "cwd": None})
    {'title': 'Fix the tests'}
    """
    return {name: value for name, value in values.items() if value is not None}
