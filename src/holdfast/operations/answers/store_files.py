"""Answers of the verbs on the store as a whole: migrate, back up, restore, copy, move its queue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MigratedStore:
    """The schema version before and after, and the ids of the application's contracts that were registered."""

    store: str
    before: int
    after: int
    contracts: list[str]


@dataclass(frozen=True, slots=True)
class StoreBackup:
    store: str
    backup: str
    bytes: int


@dataclass(frozen=True, slots=True)
class RestoredStore:
    """`kept` is the path of the old file, None if there was none."""

    store: str
    restored: str
    kept: str | None


@dataclass(frozen=True, slots=True)
class CopiedStore:
    """`rows`: how many rows each table has. `resumed`: an interrupted copy was continued."""

    source: str
    target: str
    resumed: bool
    rows: dict[str, int]


@dataclass(frozen=True, slots=True)
class PromotedQueue:
    """Where the queue was before, where it is now, and how many deliveries were in it. Equal: nothing was done."""

    store: str
    before: str
    after: str
    rows: int
