"""Page: one part of a long list, and where the next part begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

PAGE_MAX = 1000
PAGE_BYTES_MAX = 8 * 1024 * 1024  # a page ends after the event that reaches it, so it always holds at least one


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """`next` is the cursor of the following page; None: this is the last."""

    items: list[T]
    next: str | None = None
