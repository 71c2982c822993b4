"""Answers of maintenance verbs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.operations.answers.fields import Format

PAUSE_SCOPES = ("contract", "address", "lane")
PauseScope = Annotated[str, Format(enum=PAUSE_SCOPES)]


@dataclass(frozen=True, slots=True)
class PauseChange:
    """A pause or its end. `changed`: false if it was so already."""

    scope: PauseScope
    name: str
    paused: bool
    changed: bool


@dataclass(frozen=True, slots=True)
class PrunedCounts:
    """How many rows of each kind were removed."""

    deliveries: int
    events: int
    dedup_keys: int
    inbox: int
    lanes: int
    sessions: int
    streams: int
    blobs: int
