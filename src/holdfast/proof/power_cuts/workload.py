"""A recorded workload: the disk operations, the content after each commit, and what was promised when."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from holdfast.domain.address import KINDS, parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Claim, Dead, Delivered, Outcome, Retry, Settlement, settle
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.retry import POLICIES
from holdfast.domain.states import Reason
from holdfast.proof.power_cuts.contents import digest
from holdfast.proof.power_cuts.recorder import Op, TestDisk
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.roles.deliveries import ClaimRequest, Served
from holdfast.store.roles.maintenance import Retention
from holdfast.store.sqlite.connection import ApswConnection
from holdfast.store.sqlite.disk import DiskSpace
from holdfast.store.sqlite.store import SqliteStore, inline_executor
from holdfast.testing.clock import ManualClock, SeededChance

NO_BALLAST = DiskSpace(0, 0)
POLICY = POLICIES["webhook"]
KNOWN_MAX = 20


@dataclass(slots=True)
class Recording:
    """Disk operations, with the operation numbers at which commits began and were promised to be durable."""

    ops: Sequence[Op]
    opened_at: int = 0
    digests: list[str] = field(default_factory=list)
    begun_at: list[int] = field(default_factory=list)
    promised: list[tuple[int, int]] = field(default_factory=list)
    accepted: list[tuple[int, str]] = field(default_factory=list)
    pruned: list[tuple[int, str]] = field(default_factory=list)
    laid: int = 0
    excused: int = 0

    def allowed(self, point: int) -> list[str]:
        """The digests allowed after a cut at this point: every promised commit is there, and none is partial."""
        first = max((commit for at, commit in self.promised if at <= point), default=0)
        return self.digests[first : bisect_right(self.begun_at, point)]

    def accepted_by(self, point: int) -> list[str]:
        """Events acknowledged before this point and not being pruned."""
        pruned = {id for at, id in self.pruned if at <= point}
        return [id for at, id in self.accepted if at <= point and id not in pruned]


class Workload:
    """Append, route, claim, settle, checkpoint and prune, in an order drawn from a seed."""

    def __init__(self, folder: Path, disk: TestDisk, seed: int) -> None:
        self._chance, self._clock, self._disk = Random(seed), ManualClock(), disk
        self._path = folder / "recorded.db"
        self.recording = Recording(disk.ops)
        self._claims: list[Claim] = []
        self._begun = self._promised = self._ops_before = 0
        self._known: list[NewEvent] = []

    async def run(self, steps: int) -> Recording:
        store = self._store = SqliteStore.open(
            self._path, driver=self._disk.name, keep=True, clock=self._clock, chance=SeededChance(1),
            executor=inline_executor, probe=self._probe, disk_space=NO_BALLAST,
        )  # fmt: skip
        store._writer._before_sync = self._laying(store._writer._before_sync)
        self._witness = ApswConnection(self._path)
        self._note_commit(begun_at=0)
        self.recording.opened_at = len(self._disk.ops)
        self.recording.promised.append((len(self._disk.ops), 0))
        self._owner = await store.owners.register()
        self._registry = Registry(store.contracts, POLICIES, readers=store.readers)
        self._router = Router(store.routing, self._registry)
        by = self._owner.acting("proof")
        await store.contracts.put(Contract("plain", parse_address("handler:a")), "secret", by=by)
        await store.contracts.put(Contract("ordered", parse_address("handler:b"), ordered=True), None, by=by)
        self._promise()
        actions = [self._append] * 5 + [self._route] * 3 + [self._claim] * 3 + [self._settle] * 4
        actions += [self._release, self._checkpoint, self._prune]
        for _ in range(steps):
            self._begin()
            self._clock.advance(self._chance.choice((0.01, 0.5, 3.0)))
            await self._chance.choice(actions)()
        await self._checkpoint()
        self._witness.close()
        await store.close()
        return self.recording

    def _laying(self, lay: Callable[[], None]) -> Callable[[], None]:
        """The store preallocates its log without SQLite, so the recorder does not see it: record those writes here."""
        log = self._path.with_name(self._path.name + "-wal")

        def noted() -> None:
            before = log.stat().st_size if log.exists() else 0
            lay()
            after = log.stat().st_size if log.exists() else 0
            if after > before:
                self._disk.does("write", str(log), before, log.read_bytes()[before:after])
                self.recording.laid += 1

        return noted

    def _probe(self, point: str) -> None:
        if point == "before_commit":
            self._begun = len(self._disk.ops)
        elif point == "after_commit":
            self._note_commit(self._begun)

    def _note_commit(self, begun_at: int) -> None:
        self.recording.begun_at.append(begun_at)
        self.recording.digests.append(digest(self._witness))

    def _promise(self) -> None:
        """A call has returned: its commit, and every commit before it, is promised to be durable.

        A call that changed and wrote nothing promises nothing: SQLite has no frame for it, and so nothing to sync. In
        recordings that is a prune without rows to prune, or an event that was already stored. Claims before it may
        still be unsynced then; a lost claim is simply claimed again. But a commit that wrote even one frame to the
        log is a promise, whether or not rows changed.
        """
        digests = self.recording.digests
        last = next((i for i in range(len(digests) - 1, self._promised, -1) if digests[i] != digests[i - 1]), None)
        if last is None and self._wrote_frames():
            last = len(digests) - 1
        if last is not None:
            self.recording.promised.append((len(self._disk.ops), last))
        else:
            self.recording.excused += 1
        self._begin()

    def _begin(self) -> None:
        """Later operations belong to the next promise."""
        self._promised, self._ops_before = len(self.recording.digests) - 1, len(self._disk.ops)

    def _wrote_frames(self) -> bool:
        """Whether the log was written since the last promise. Preallocated zeros are not frames."""
        new = self._disk.ops[self._ops_before :]
        return any(op.kind == "write" and op.file == "-wal" and op.data.strip(b"\0") for op in new)

    async def _append(self) -> None:
        """Append new events, or sometimes a known one, which promises the first append of it again."""
        again = bool(self._known) and self._chance.random() < 0.15
        count = self._chance.choice((1, 1, 1, 3, 8))
        events = [self._chance.choice(self._known)] if again else [self._event(keyed=True) for _ in range(count)]
        self._known = (self._known + events)[-KNOWN_MAX:]
        appended = await self._store.events.append(events)
        self._promise()
        self.recording.accepted += [(len(self._disk.ops), one.id) for one in appended]

    def _event(self, keyed: bool = False) -> NewEvent:
        stream = self._chance.choice(("s1", "s2", "s3", None))
        size = self._chance.choice((5, 50, 500, 6000))
        key = f"{self._chance.getrandbits(64):x}" if keyed else None
        return new_event("t.x", {"text": "x" * size}, stream=stream, dedup_key=key)

    async def _route(self) -> None:
        await self._router.tick()

    async def _claim(self) -> None:
        request = ClaimRequest(
            owner=self._owner.id,
            served=Served(frozenset(KINDS), frozenset()),
            limit=self._chance.choice((1, 4, 10)),
            lease_ms=dict.fromkeys(KINDS, 3_600_000),
            capacity={},
            capacity_default=dict.fromkeys(KINDS, 100),
        )
        self._claims += (await self._store.deliveries.claim(request)).claims

    async def _settle(self) -> None:
        count = self._chance.choice((1, 3, 10))
        ended, self._claims = self._claims[:count], self._claims[count:]
        if ended:
            await self._store.deliveries.settle(self._owner, [self._settlement(claim) for claim in ended])
            self._promise()

    def _settlement(self, claim: Claim) -> Settlement:
        effects = (self._event(),) if self._chance.random() < 0.2 else ()
        ends: list[Outcome] = [Delivered(effects), Delivered(), Delivered(), Retry("503"), Dead(Reason.REJECTED, "no")]
        outcome = self._chance.choice(ends)
        now_ms = self._clock.now_ms()
        return Settlement(
            claim,
            settle(claim.delivery.attempts, outcome, POLICY, now_ms, self._chance.random()),
            effects=outcome.effects if isinstance(outcome, Delivered) else (),
            started_at_ms=now_ms,
            outcome=type(outcome).__name__.lower(),
        )

    async def _release(self) -> None:
        released, self._claims = self._claims[:2], self._claims[2:]
        await self._store.deliveries.release(released)

    async def _checkpoint(self) -> None:
        self._store.maintenance.wal_max_bytes = self._chance.choice((0, 1 << 30))
        await self._store.maintenance.checkpoint()

    async def _prune(self) -> None:
        """Pruned events are no longer promised from the start of the prune; after it, their absence is promised."""
        minute = 20_000
        before = {row[0] for row in self._witness.rows("SELECT id FROM holdfast_events")}
        started = len(self._disk.ops)
        await self._store.maintenance.prune(
            Retention(minute, minute, minute, minute), 50, self._owner.acting("retention")
        )
        self._promise()
        gone = before - {row[0] for row in self._witness.rows("SELECT id FROM holdfast_events")}
        accepted = self.recording.accepted
        self.recording.pruned += [(started, id) for at, id in accepted if id in gone]
