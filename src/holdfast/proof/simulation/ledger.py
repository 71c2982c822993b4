"""What is recorded outside a simulated store: events sent, attempts, and every state seen after a commit."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.proof.kills.evidence import StoreRows
from holdfast.proof.kills.records import Accepted, Sent


class Seen(NamedTuple):
    """A delivery as stored after a commit."""

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
    """One delivery before and after a commit. `n` orders all entries of the ledger."""

    n: int
    before: Seen | None
    after: Seen
    at_s: float = 0.0


@dataclass(slots=True)
class Attempt:
    """A request reached the receiver. `stale`: its sender's lease was no longer valid."""

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
    """The result of a settlement, as returned to the process."""

    n: int
    life: str
    delivery: int
    token: int
    lost: bool


@dataclass
class LifeRecord:
    """Facts about one process: when it died, was frozen, or was declared dead by a new keeper.

    `stalled_until_s`: until then it may lose leases, since it was frozen for too long to renew them.
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
        """Add a line to the trace; the hash over all lines is the fingerprint of the schedule."""
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
    """The input of the checks: the ledger, the final store, and the contracts every event must reach."""

    ledger: Ledger
    store: StoreRows
    contracts: frozenset[str]
    ordered: frozenset[str]
    quiet: bool
    errors: tuple[str, ...] = ()
