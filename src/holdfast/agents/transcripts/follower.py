"""The follower: reads the transcripts of running sessions as they grow and appends the agents' output as events.

Each step reads a batch, appends its events and moves the bookmark. After a crash between the last two, the same lines
are read again; their dedup keys make that harmless. So each output is stored once, in the order of the file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from holdfast.agents.registry import transcript_format
from holdfast.agents.transcripts.output import digest, is_output, output_event
from holdfast.agents.transcripts.reader import BATCH_BYTES, Batch, end_of, head_of, read, start_at
from holdfast.agents.transcripts.search import find_transcript
from holdfast.agents.transcripts.transcript_file import FileMark, Signature, try_stat
from holdfast.domain.bookmark import Bookmark
from holdfast.domain.errors import Conflict, DedupConflict, HoldfastError, StoreError
from holdfast.domain.event import NewEvent, parse_time
from holdfast.domain.session import FINISHED_STATES, Session, SessionState
from holdfast.ports import Clock, Executor, Probe, no_probe
from holdfast.store.roles.sessions import SessionFilter
from holdfast.store.roles.store import Store

APPEND_MAX = 200
KNOWN_KEYS_MAX = 2048
PAGE = 200
PAGES_MAX = 5
NUDGES_MAX = 1000
START_GRACE_MS = 5_000
"""With start `first_hook`, lines up to this long before the first hook are read too: clocks and writes lag a little."""
LIST_EVERY_MS = 5_000
FOLLOW_AFTER_END_MS = 60_000
"""How long a transcript is still read after its session ended or moved to another file."""
SEARCH_EVERY_MS = 30_000

BUSY = frozenset({SessionState.INITIALIZING, SessionState.WORKING})

Start = Literal["first_hook", "beginning", "now"]
Find = Callable[[str, str], str | None]

log = logging.getLogger("holdfast.transcripts")


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """How many transcripts are followed, how much is read at once, and how often.

    `start` applies to a transcript that was never read: `first_hook` starts with lines written since the session's
    first hook, `beginning` with the first line, `now` with the next new line.
    """

    sessions_max: int = 64
    batch_bytes: int = BATCH_BYTES
    busy_ms: int = 1_000
    idle_ms: int = 5_000
    start: Start = "first_hook"


@dataclass(slots=True)
class FollowedTranscript:
    """One transcript and how far it was read.

    `file` is the bookmark's key; None until the transcript is opened. `generation` counts how often the file was
    truncated or replaced. `known` holds dedup keys of recent output. `problem` is the last logged reason why it could
    not be read.
    """

    session: Session
    path: str
    due_ms: int = 0
    file: str | None = None
    generation: int = 0
    offset: int = 0
    mark: FileMark | None = None
    signature: Signature | None = None
    known: dict[str, None] = field(default_factory=dict)
    problem: str | None = None
    left_ms: int | None = None

    @property
    def has_more(self) -> bool:
        """The last batch did not reach the end of the file."""
        return self.due_ms == 0 and self.signature is None


class Follower:
    """The background duty. Each tick reads one batch of every transcript that grew, so none waits for another."""

    name = "transcripts"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        executor: Executor,
        *,
        settings: FollowSettings | None = None,
        find: Find = find_transcript,
        probe: Probe = no_probe,
    ) -> None:
        self._store, self._clock, self._executor = store, clock, executor
        self._settings, self._find, self._probe = settings or FollowSettings(), find, probe
        self._followed: dict[tuple[str, str], FollowedTranscript] = {}
        self._nudged: dict[str, str | None] = {}
        self._paths: dict[str, str] = {}
        self._searched_ms: dict[str, int] = {}
        self._listed_ms: int | None = None
        self.wake: Callable[[], None] = lambda: None
        self.appended = self.repeated = self.unknown = self.broken = self.oversized = self.refused = 0

    def read_now(self, session_id: str, path: str | None = None) -> None:
        """Read this session's transcript now. Must be called on the event loop."""
        if len(self._nudged) < NUDGES_MAX:
            self._nudged[session_id] = path
        self.wake()

    async def tick(self) -> float | None:
        nudged, self._nudged = self._nudged, {}
        now_ms = self._clock.boot_ms()
        if nudged or self._listed_ms is None or now_ms - self._listed_ms >= LIST_EVERY_MS:
            await self._list(nudged, now_ms)
        due = [one for one in self._followed.values() if one.due_ms <= now_ms or one.session.id in nudged]
        states = await self._executor.submit(lambda: [try_stat(one.path) for one in due])
        more = False
        for one, state in zip(due, states, strict=True):
            more |= await self._serve(one, state, now_ms)
        return 0.0 if more or self._nudged else self._delay_s(now_ms)

    def _delay_s(self, now_ms: int) -> float:
        next_ms = min((one.due_ms for one in self._followed.values()), default=now_ms + LIST_EVERY_MS)
        return max(1, min(next_ms - now_ms, LIST_EVERY_MS)) / 1000

    async def _list(self, nudged: dict[str, str | None], now_ms: int) -> None:
        """Choose the transcripts to follow: those of running sessions, the last changed first."""
        self._listed_ms = now_ms
        sessions = await self._running_sessions()
        ids = {session.id for session in sessions}
        named = {id: path for id, path in nudged.items() if path is not None}
        self._paths = {id: path for id, path in (self._paths | named).items() if id in ids}
        self._searched_ms = {id: at for id, at in self._searched_ms.items() if id in ids}
        chosen: dict[tuple[str, str], FollowedTranscript] = {}
        for session in sessions:
            path = session.transcript or self._paths.get(session.id) or await self._search(session, now_ms)
            if path is not None:
                one = self._followed.get((session.id, path)) or FollowedTranscript(session, path)
                one.session, one.left_ms = session, None
                chosen[session.id, path] = one
        lingering = {
            key: one
            for key, one in self._followed.items()
            if key not in chosen and self._is_still_followed(one, ids, now_ms)
        }
        self._followed = chosen | dict(islice(lingering.items(), self._settings.sessions_max))

    def _is_still_followed(self, one: FollowedTranscript, ids: set[str], now_ms: int) -> bool:
        """A file with unread lines is read to its end. A session that moved to another file may still write the old."""
        one.left_ms = now_ms if one.left_ms is None else one.left_ms
        return one.has_more or (one.session.id in ids and now_ms - one.left_ms < FOLLOW_AFTER_END_MS)

    async def _running_sessions(self) -> list[Session]:
        """Sessions with readable transcripts, including just ended ones: the last lines may follow the last hook."""
        ended_after_ms = self._clock.now_ms() - FOLLOW_AFTER_END_MS
        running: list[Session] = []
        after: str | None = None
        for _ in range(PAGES_MAX):
            page = await self._store.sessions.find(SessionFilter(), after, PAGE)
            for session in page.items:
                ended = session.state in FINISHED_STATES and session.updated_at_ms < ended_after_ms
                if transcript_format(session.agent) is not None and not ended:
                    running.append(session)
            after = page.next
            if after is None or len(running) >= self._settings.sessions_max:
                break
        return running[: self._settings.sessions_max]

    async def _search(self, session: Session, now_ms: int) -> str | None:
        """The path of a transcript that no hook named, searched at most every 30 seconds."""
        searched_ms = self._searched_ms.get(session.id)
        if searched_ms is not None and now_ms - searched_ms < SEARCH_EVERY_MS:
            return None
        self._searched_ms[session.id] = now_ms
        path = await self._executor.submit(lambda: self._find(session.agent, session.native_id))
        if path is not None:
            self._paths[session.id] = path
        return path

    async def _serve(self, one: FollowedTranscript, state: Signature | str, now_ms: int) -> bool:
        """Read one batch of one transcript; returns whether there is more to read."""
        one.due_ms = now_ms + (self._settings.busy_ms if one.session.state in BUSY else self._settings.idle_ms)
        if isinstance(state, str):
            return self._postpone(one, state)
        if one.signature == state:
            return False
        try:
            if one.file is None and not await self._open(one):
                return False
            batch = await self._executor.submit(
                lambda: read(one.session.agent, one.path, one.offset, self._settings.batch_bytes, one.mark)
            )
            if batch.replaced:
                return await self._restart(one)
            await self._store_output(one, batch)
        except OSError as error:
            return self._postpone(one, f"{type(error).__name__}: {error.strerror}")
        except Conflict:  # another daemon is ahead in the same file: continue from its bookmark
            one.file, one.due_ms = None, 0
            return True
        except StoreError:
            one.due_ms = 0
            raise
        except HoldfastError as error:
            return self._postpone(one, error.message)
        except Exception as error:  # a bug in reading one file must not block the others
            log.exception("cannot follow the transcript of session %s", one.session.id)
            return self._postpone(one, f"{type(error).__name__}: {error}")
        one.problem = None
        one.signature = None if batch.more else batch.signature
        one.due_ms = 0 if batch.more else one.due_ms
        return batch.more

    async def _open(self, one: FollowedTranscript) -> bool:
        """Load the bookmark, or set one for a transcript that was never read. False: its first line is incomplete."""
        head = await self._executor.submit(lambda: head_of(one.path))
        if head is None:
            return False
        file = digest(one.path, head)
        bookmark = await self._store.bookmarks.get(one.session.id, file)
        if bookmark is None:
            bookmark = Bookmark(0, await self._start_offset(one))
            await self._store.bookmarks.put(one.session.id, file, bookmark)
        one.file, one.mark = file, None
        one.generation, one.offset = bookmark
        return True

    async def _start_offset(self, one: FollowedTranscript) -> int:
        match self._settings.start:
            case "beginning":
                return 0
            case "now":
                return await self._executor.submit(lambda: end_of(one.path))
            case "first_hook":
                first = await self._store.events.read(one.session.stream, 0, 1)
                heard_ms = parse_time(first[0].timestamp, "timestamp") if first else one.session.created_at_ms
                since_ms = heard_ms - START_GRACE_MS
        return await self._executor.submit(lambda: start_at(one.session.agent, one.path, since_ms))

    async def _restart(self, one: FollowedTranscript) -> bool:
        """Start over in a truncated or replaced file: with its own bookmark if its first line changed."""
        previous, one.mark, one.signature = one.file, None, None
        if not await self._open(one):
            one.file = None
            return False
        if one.file is not None and one.file == previous:
            bookmark = Bookmark(one.generation + 1, await self._start_offset(one))
            await self._store.bookmarks.put(one.session.id, one.file, bookmark)
            one.generation, one.offset = bookmark
        one.due_ms = 0
        return True

    async def _store_output(self, one: FollowedTranscript, batch: Batch) -> None:
        """Append the batch's new output, then move the bookmark."""
        self.unknown += batch.unknown
        self.broken += batch.broken
        self.oversized += batch.oversized
        file = one.file or ""
        output = (output_event(one.session, entry, file) for entry in batch.entries if is_output(entry))
        events = {key: event for key, event in output if key not in one.known}
        self._probe("transcripts:read")
        keys = list(events)
        for start in range(0, len(keys), APPEND_MAX):
            await self._append([events[key] for key in keys[start : start + APPEND_MAX]])
        self._probe("transcripts:appended")
        if batch.next_offset != one.offset:
            await self._store.bookmarks.put(one.session.id, file, Bookmark(one.generation, batch.next_offset))
        one.offset, one.mark = batch.next_offset, batch.mark
        self._probe("transcripts:moved")
        one.known.update(dict.fromkeys(keys))
        for key in list(one.known)[: max(0, len(one.known) - KNOWN_KEYS_MAX)]:
            del one.known[key]

    async def _append(self, events: Sequence[NewEvent]) -> None:
        try:
            stored = await self._store.events.append(events)
        except DedupConflict:  # read again in another turn, so the event names another message
            if len(events) > 1:
                for event in events:
                    await self._append([event])
            else:
                self.repeated += 1
            return
        except Conflict as error:  # a closed stream accepts nothing: the rest of the transcript must not wait for it
            log.warning("dropped output for %s: %s", events[0].stream, error.message)
            self.refused += len(events)
            return
        repeated = sum(event.duplicate for event in stored)
        self.repeated, self.appended = self.repeated + repeated, self.appended + len(stored) - repeated

    def _postpone(self, one: FollowedTranscript, problem: str) -> bool:
        """Try again later, less often. Each new problem is logged once."""
        if one.problem != problem:
            log.info("cannot read the transcript of session %s: %s", one.session.id, problem)
        one.problem, one.file, one.mark, one.signature = problem, None, None, None
        one.due_ms += self._settings.idle_ms
        return False
