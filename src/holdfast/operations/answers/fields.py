"""Building blocks of answers: optional keys, value formats, one answer made from another."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from holdfast.domain.event import iso_time
from holdfast.domain.session import SessionState
from holdfast.domain.states import State

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

OMIT_NONE = "omit_none"
OMITTED_IF_NONE = {OMIT_NONE: True}
"""Metadata of a field that is left out of the JSON object while it is None."""


@dataclass(frozen=True, slots=True)
class Format:
    """JSON Schema keywords that a Python type cannot express, such as `format` or `enum`."""

    format: str | None = None
    enum: tuple[str, ...] | None = None
    pattern: str | None = None


Time = Annotated[str, Format(format="date-time")]
DeliveryState = Annotated[str, Format(enum=tuple(state.value for state in State))]
AgentState = Annotated[str, Format(enum=tuple(state.value for state in SessionState))]
HexDigest = Annotated[str, Format(pattern="^[0-9a-f]{64}$")]


def extend(kind: type[T], answer: DataclassInstance, **more: Any) -> T:
    """An answer of a subclass: the fields of `answer`, and more."""
    return kind(**{item.name: getattr(answer, item.name) for item in fields(answer)}, **more)


def time_or_none(ms: int | None) -> str | None:
    return None if ms is None else iso_time(ms)
