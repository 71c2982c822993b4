"""The follower: reads the transcripts of living sessions as they grow, and appends what agents say as events.

Read, append, move the cursor. A crash between the last two reads the same lines again, and their dedup keys make that
harmless: each line's output is in the log once, in the order of the file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from holdfast.agents.transcripts.file import Mark, Signature, glance
from holdfast.agents.transcripts.output import digest, is_output, output_of
from holdfast.agents.transcripts.places import find_transcript
from holdfast.agents.transcripts.reader import BATCH_BYTES, FORMATS, Batch, end_of, head_of, read, start_at
from holdfast.domain.errors import Conflict, HoldfastError, StoreError
from holdfast.domain.event import NewEvent, parse_time
from holdfast.domain.session import Session, SessionState
from holdfast.ports import Clock, Executor, Probe, no_probe
from holdfast.store.roles.sessions import SessionFilter
from holdfast.store.roles.store import Store

READER = "transcripts"
OFFSET_BITS = 40
APPEND_MAX = 200
KNOWN_KEYS_MAX = 2048
PAGE = 200
PAGES_MAX = 5
NUDGES_MAX = 1000
HEARD_GRACE_MS = 5_000
LIST_EVERY_MS = 5_000
LINGER_MS = 60_000
FIND_EVERY_MS = 30_000

FINISHED_STATES = frozenset({SessionState.ENDED, SessionState.CLOSED})
BUSY = frozenset({SessionState.INITIALIZING, SessionState.WORKING})

Start = Literal["heard", "beginning", "now"]
Find = Callable[[str, str], str | None]

log = logging.getLogger("holdfast.transcripts")


@dataclass(frozen=True, slots=True)
class Pace:
    """How much the follower takes on, and how often it looks.

    `start`, for a transcript that was never read: `heard` begins with what was written since the session's first
    hook, `beginning` with its first line, `now` with its next one.
    """

    sessions_max: int = 64
    batch_bytes: int = BATCH_BYTES
    busy_ms: int = 1_000
    idle_ms: int = 5_000
    start: Start = "heard"


@dataclass(slots=True)
class Follow:
    """One transcript, and how far it is read. `generation` counts how often it was cut short and written anew."""

    session: Session
    path: str
    due_ms: int = 0
    cursor: str | None = None
    generation: int = 0
    offset: int = 0
    mark: Mark | None = None
    seen: Signature | None = None
    known: dict[str, None] = field(default_factory=dict)
    complaint: str | None = None
    left_ms: int | None = None

    @property
    def is_behind(self) -> bool:
        """There is more in it than was read so far."""
        return self.due_ms == 0 and self.seen is None


class Follower:
    """The duty. Each tick serves every transcript that has something new with one batch, so none waits for another."""

    name = "transcripts"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        executor: Executor,
        *,
        pace: Pace | None = None,
        find: Find = find_transcript,
        probe: Probe = no_probe,
    ) -> None:
        self._store, self._clock, self._executor = store, clock, executor
        self._pace, self._find, self._probe = pace or Pace(), find, probe
        self._follows: dict[tuple[str, str], Follow] = {}
        self._nudged: dict[str, str | None] = {}
        self._told: dict[str, str] = {}
        self._sought_ms: dict[str, int] = {}
        self._listed_ms: int | None = None
        self.wake: Callable[[], None] = lambda: None
        self.appended = self.repeated = self.unknown = self.broken = self.oversized = self.refused = 0

    def nudge(self, session_id: str, path: str | None = None) -> None:
        """Look at this session's transcript at once. To be called on the event loop."""
        if len(self._nudged) < NUDGES_MAX:
            self._nudged[session_id] = path
        self.wake()

    async def tick(self) -> float | None:
        nudged, self._nudged = self._nudged, {}
        now_ms = self._clock.boot_ms()
        if nudged or self._listed_ms is None or now_ms - self._listed_ms >= LIST_EVERY_MS:
            await self._list(nudged, now_ms)
        due = [one for one in self._follows.values() if one.due_ms <= now_ms or one.session.id in nudged]
        looks = await self._executor.submit(lambda: [glance(one.path) for one in due])
        more = False
        for one, found in zip(due, looks, strict=True):
            more |= await self._serve(one, found, now_ms)
        return 0.0 if more or self._nudged else self._delay_s(now_ms)

    def _delay_s(self, now_ms: int) -> float:
        next_ms = min((one.due_ms for one in self._follows.values()), default=now_ms + LIST_EVERY_MS)
        return max(1, min(next_ms - now_ms, LIST_EVERY_MS)) / 1000

    async def _list(self, nudged: dict[str, str | None], now_ms: int) -> None:
        """Whom to follow: sessions that are not over, those that changed last first."""
        self._listed_ms = now_ms
        chosen = await self._living()
        ids = {session.id for session in chosen}
        self._told = {id: path for id, path in (self._told | _named(nudged)).items() if id in ids}
        self._sought_ms = {id: at for id, at in self._sought_ms.items() if id in ids}
        follows: dict[tuple[str, str], Follow] = {}
        for session in chosen:
            path = session.transcript or self._told.get(session.id) or await self._seek(session, now_ms)
            if path is not None:
                one = self._follows.get((session.id, path)) or Follow(session, path)
                one.session, one.left_ms = session, None
                follows[session.id, path] = one
        left = {
            key: one for key, one in self._follows.items() if key not in follows and self._lingers(one, ids, now_ms)
        }
        self._follows = follows | dict(islice(left.items(), self._pace.sessions_max))

    def _lingers(self, one: Follow, ids: set[str], now_ms: int) -> bool:
        """What is begun is read to its end. A session that went on in another file may still finish the one before."""
        one.left_ms = now_ms if one.left_ms is None else one.left_ms
        return one.is_behind or (one.session.id in ids and now_ms - one.left_ms < LINGER_MS)

    async def _living(self) -> list[Session]:
        """One that ended a moment ago still counts: its last lines may be written after its last hook."""
        ended_after_ms = self._clock.now_ms() - LINGER_MS
        found: list[Session] = []
        after: str | None = None
        for _ in range(PAGES_MAX):
            page = await self._store.sessions.find(SessionFilter(), after, PAGE)
            for session in page.items:
                over = session.state in FINISHED_STATES and session.updated_at_ms < ended_after_ms
                if session.agent in FORMATS and not over:
                    found.append(session)
            after = page.next
            if after is None or len(found) >= self._pace.sessions_max:
                break
        return found[: self._pace.sessions_max]

    async def _seek(self, session: Session, now_ms: int) -> str | None:
        """Where a transcript is that no hook named; looked for now and then."""
        sought = self._sought_ms.get(session.id)
        if sought is not None and now_ms - sought < FIND_EVERY_MS:
            return None
        self._sought_ms[session.id] = now_ms
        path = await self._executor.submit(lambda: self._find(session.agent, session.native_id))
        if path is not None:
            self._told[session.id] = path
        return path

    async def _serve(self, one: Follow, found: Signature | str, now_ms: int) -> bool:
        """One batch of one transcript; whether there is more of it."""
        one.due_ms = now_ms + (self._pace.busy_ms if one.session.state in BUSY else self._pace.idle_ms)
        if isinstance(found, str):
            return self._complain(one, found)
        if one.seen == found:
            return False
        try:
            if one.cursor is None and not await self._open(one):
                return False
            batch = await self._executor.submit(
                lambda: read(one.session.agent, one.path, one.offset, self._pace.batch_bytes, one.mark)
            )
            if batch.replaced:
                return await self._begin_anew(one)
            await self._take(one, batch)
        except OSError as error:
            return self._complain(one, f"{type(error).__name__}: {error.strerror}")
        except Conflict:  # another daemon is ahead of us in the same file: go on from where it is
            one.cursor, one.due_ms = None, 0
            return True
        except StoreError:
            one.due_ms = 0
            raise
        except HoldfastError as error:
            return self._complain(one, error.message)
        except Exception as error:  # a fault of ours in reading one file must not keep the others from being read
            log.exception("the transcript of session %s cannot be followed", one.session.id)
            return self._complain(one, f"{type(error).__name__}: {error}")
        one.complaint = None
        one.seen = None if batch.more else batch.signature
        one.due_ms = 0 if batch.more else one.due_ms
        return batch.more

    async def _open(self, one: Follow) -> bool:
        """Find the place that was read to; of a transcript never read, the place to begin."""
        head = await self._executor.submit(lambda: head_of(one.path))
        if head is None:
            return False
        name = f"{one.session.stream}#{digest(one.path, head)}"
        cursor = await self._store.cursors.get(READER, name)
        if cursor is None or cursor.position == 0:  # nothing was read yet, even if we died while beginning
            start = await self._start(one)
            await self._store.cursors.ensure(READER, name)
            cursor = await self._store.cursors.advance(READER, name, start)
        one.cursor, one.mark = name, None
        one.generation, one.offset = cursor.position >> OFFSET_BITS, cursor.position & ((1 << OFFSET_BITS) - 1)
        return True

    async def _start(self, one: Follow) -> int:
        match self._pace.start:
            case "beginning":
                return 0
            case "now":
                return await self._executor.submit(lambda: end_of(one.path))
            case "heard":
                first = await self._store.events.read(one.session.stream, 0, 1)
                heard_ms = parse_time(first[0].timestamp, "timestamp") if first else one.session.created_at_ms
                since_ms = heard_ms - HEARD_GRACE_MS
        return await self._executor.submit(lambda: start_at(one.path, since_ms))

    async def _begin_anew(self, one: Follow) -> bool:
        """The file was cut short or replaced. Under another beginning it has another cursor; else it counts on."""
        before, one.mark, one.seen = one.cursor, None, None
        if not await self._open(one):
            one.cursor = None
            return False
        if one.cursor == before:
            start = await self._start(one)
            await self._store.cursors.advance(READER, one.cursor or "", _position(one.generation + 1, start))
            one.generation, one.offset = one.generation + 1, start
        one.due_ms = 0
        return True

    async def _take(self, one: Follow, batch: Batch) -> None:
        self.unknown += batch.unknown
        self.broken += batch.broken
        self.oversized += batch.oversized
        place = one.cursor or ""
        told = (output_of(one.session, entry, place) for entry in batch.entries if is_output(entry))
        events = {key: event for key, event in told if key not in one.known}
        self._probe("transcripts:read")
        keys = list(events)
        for start in range(0, len(keys), APPEND_MAX):
            await self._append([events[key] for key in keys[start : start + APPEND_MAX]])
        self._probe("transcripts:appended")
        if batch.next_offset != one.offset:
            await self._store.cursors.advance(READER, place, _position(one.generation, batch.next_offset))
        one.offset, one.mark = batch.next_offset, batch.mark
        self._probe("transcripts:moved")
        one.known.update(dict.fromkeys(keys))
        for key in list(one.known)[: max(0, len(one.known) - KNOWN_KEYS_MAX)]:
            del one.known[key]

    async def _append(self, events: Sequence[NewEvent]) -> None:
        try:
            stored = await self._store.events.append(events)
        except Conflict as error:  # its stream was closed: what can never be appended must not hold up the rest
            log.warning("output on %s is left out: %s", events[0].stream, error.message)
            self.refused += len(events)
            return
        repeated = sum(one.duplicate for one in stored)
        self.repeated, self.appended = self.repeated + repeated, self.appended + len(stored) - repeated

    def _complain(self, one: Follow, trouble: str) -> bool:
        """Once for each trouble; the file is looked at again, less often."""
        if one.complaint != trouble:
            log.info("the transcript of session %s is not read: %s", one.session.id, trouble)
        one.complaint, one.cursor, one.mark, one.seen = trouble, None, None, None
        one.due_ms += self._pace.idle_ms
        return False


def _position(generation: int, offset: int) -> int:
    """Both in the one number of a cursor, which only grows."""
    return (generation << OFFSET_BITS) | offset


def _named(nudged: dict[str, str | None]) -> dict[str, str]:
    return {id: path for id, path in nudged.items() if path is not None}
