"""What is known from outside a simulated store: who sent what, what arrived, and every state seen after a commit."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.proof.kills.evidence import StoreRows
from holdfast.proof.kills.records import Accepted, Sent


class Seen(NamedTuple):
    """A delivery as the store had it after some commit."""

    id: int
    event: str
    contract: str
    seq: int
    state: str
    generation: int
    attempts: int
    reason: str | None
    lane: int | None
    pos: int | None
    token: int | None
    owner: int | None
    starts: int | None


class Change(NamedTuple):
    """One delivery before and after one commit. `n` orders everything in the ledger."""

    n: int
    before: Seen | None
    after: Seen
    at_s: float = 0.0


@dataclass(slots=True)
class Attempt:
    """The receiver was asked to take something. `stale`: by someone whose lease was no longer in force."""

    n: int
    life: str
    delivery: int
    generation: int
    contract: str
    event: str
    stream: str
    seq: int
    key: str
    digest: str
    body: str
    token: int
    stale: bool
    overtakes: int | None
    at_s: float = 0.0
    answer: str = "none"
    answered_n: int = 0


class Settled(NamedTuple):
    """The store told a process what became of its settlement."""

    n: int
    life: str
    delivery: int
    token: int
    lost: bool


@dataclass
class LifeRecord:
    """The outside facts about one process: when it died, stood still, or was declared dead by a new keeper.

    `still_until_s`: till then its leases may end under it, since it stood still for too long to renew them.
    """

    name: str
    owner: int | None = None
    died_n: int | None = None
    declared_dead: bool = False
    stalled_until_s: float = -1.0
    stopping: bool = False

    def may_lose(self, at_s: float) -> bool:
        return self.declared_dead or at_s <= self.stalled_until_s


@dataclass
class Ledger:
    sent: dict[str, Sent] = field(default_factory=dict)
    accepted: list[Accepted] = field(default_factory=list)
    spooled: list[tuple[str, str, str]] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    lives: dict[str, LifeRecord] = field(default_factory=dict)
    operated: dict[int, float] = field(default_factory=dict)
    released: set[tuple[int, int]] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    n: int = 0
    trace: list[str] | None = None
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)

    def next_n(self) -> int:
        self.n += 1
        return self.n

    def log(self, at_s: float, line: str) -> None:
        """One line of what happened; the hash over all of them is the fingerprint of the schedule."""
        text = f"{at_s:10.3f}  {line}"
        self._hash.update(text.encode() + b"\n")
        if self.trace is not None:
            self.trace.append(text)

    def fault(self, kind: str) -> None:
        self.faults[kind] += 1

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()[:32]


@dataclass(frozen=True)
class Case:
    """Everything the checks look at: the ledger, the store at rest, and what every event must reach."""

    ledger: Ledger
    store: StoreRows
    contracts: frozenset[str]
    ordered: frozenset[str]
    quiet: bool
    errors: tuple[str, ...] = ()
