"""Pages of lists, and the limits on what a caller may ask for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from holdfast.domain.errors import BadInput
from holdfast.domain.text import short_repr
from holdfast.operations.answers.encode import encoded_bytes
from holdfast.store.roles.page import PAGE_BYTES_MAX, PAGE_MAX

LIMIT_DEFAULT = 50

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list. `next` is the cursor of the following page, null on the last one."""

    items: list[T]
    next: str | None


def check_limit(limit: int) -> int:
    if not 1 <= limit <= PAGE_MAX:
        raise BadInput(f"limit must be between 1 and {PAGE_MAX}, not {limit}")
    return limit


def check_cursor(after: str | None) -> str | None:
    """Check the cursor of a list that is ordered by number."""
    if after is not None and not is_number(after):
        raise bad_cursor(after)
    return after


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def bad_cursor(after: str | None) -> BadInput:
    return BadInput(f"after={short_repr(after)} is not a cursor: pass `next` of the previous page")


def fit_page(answers: Iterable[T]) -> list[T]:
    """The first answers, until together they have `PAGE_BYTES_MAX` or more."""
    page, size = [], 0
    for answer in answers:
        page.append(answer)
        size += encoded_bytes(answer)
        if size >= PAGE_BYTES_MAX:
            break
    return page
