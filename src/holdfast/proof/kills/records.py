"""Records: the facts that load, sink and campaign observe, and the append-only files they write them to.

Each line is written with one `write` before anything depends on it. There is no fsync: processes are killed here, not
machines. Times named `_ns` are from the machine's monotonic clock, which all processes share; `_ms` is UTC, as in the
store.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, get_args

UNKNOWN_LIFE = -1
"""The life of a sender that did not identify itself."""

LEASE_HEADER = "X-Holdfast-Prove-Lease"
"""The header in which a daemon of a campaign sends the token of its lease."""

SLOT_HEADER = "X-Holdfast-Prove-Slot"
"""The header in which it sends when a rate limit let the request pass, on the machine's monotonic clock."""

BLOCKED = "kept waiting by a stopped daemon"
"""A consequence of a disruption: a daemon was stopped inside a transaction, and others wait for its locks."""


class Sent(NamedTuple):
    """The load is about to post this event for the first time. Until `Accepted` its outcome is unknown."""

    key: str
    stream: str | None
    digest: str
    at_ns: int


class RolledBack(NamedTuple):
    """A transaction that published this key was rolled back: the event must not exist."""

    key: str
    at_ns: int


class Accepted(NamedTuple):
    """The daemon answered 2xx, or the transaction around `publish` committed (then `stream` and `seq` are None).

    `duplicate`: an earlier request with this key had been accepted, but its response was lost.
    """

    key: str
    id: str
    stream: str | None
    seq: int | None
    duplicate: bool
    at_ns: int


class Refused(NamedTuple):
    """The daemon refused this event for good."""

    key: str
    status: int
    detail: str


class Received(NamedTuple):
    """A complete request reached the sink: one attempt at one delivery, sent by daemon process `life`.

    `token` is the token of the lease it was sent under, and `slot_ns` when a rate limit let it pass, as named by the
    sender.
    """

    n: int
    contract: str
    id: str
    stream: str
    seq: int
    key: str
    digest: str
    body: str
    at_ms: int
    at_ns: int
    life: int = UNKNOWN_LIFE
    token: int | None = None
    slot_ns: int | None = None


class Answered(NamedTuple):
    """The sink's response to request `n`: `ok`, `503`, `reset`, or `lost` (accepted, but no response sent)."""

    n: int
    answer: str
    at_ns: int


class Started(NamedTuple):
    """A daemon process started. `waited`: it was not disrupted before its first delivery."""

    life: int
    waited: bool
    at_ns: int


class Killed(NamedTuple):
    """A life ended by SIGKILL, with the state of its store and, as far as known, what it was doing.

    `at_ns`: just after the kill. `at_ms`: just before it, if recorded.
    """

    life: int
    kind: str
    point: str | None
    leases: int
    due: int
    at_ns: int
    doing: Sequence[str] = ()
    at_ms: int | None = None

    @property
    def commit_open(self) -> bool:
        return self.point in ("begun", "before_commit")

    @property
    def in_flight(self) -> bool:
        return self.leases > 0 or self.commit_open

    @property
    def place(self) -> str:
        if self.point is not None:
            return {"begun": "commit begun", "before_commit": "before commit"}.get(self.point, "just after commit")
        return "lease held" if self.leases else "nothing in flight"


class Disruption(NamedTuple):
    """A disruption on PostgreSQL that killed no daemon. `life`: the daemon affected, None for all. `until`: its end."""

    kind: str
    life: int | None
    at_ms: int
    until_ms: int
    until_ns: int


class Crashed(NamedTuple):
    """The daemon killed itself here, on reaching the named point for the n-th time."""

    point: str
    n: int


Record = Sent | RolledBack | Accepted | Refused | Received | Answered | Started | Killed | Disruption | Crashed
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Record)}


class RecordFile:
    """An append-only file. Each line outlives the process that wrote it once `write` returns."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._lock = Lock()

    def write(self, record: Record) -> None:
        line = json.dumps([type(record).__name__, *record], ensure_ascii=True).encode() + b"\n"
        with self._lock:
            if os.write(self._descriptor, line) != len(line):
                raise OSError("only part of a line was written to the record file")

    def close(self) -> None:
        os.close(self._descriptor)


class RecordReader:
    """Follows a record file while it is written: `more` gives the records added since the last call."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def more(self) -> Iterator[Record]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            kind, *values = json.loads(line)
            yield _KINDS[kind](*values)


def read_records(path: Path) -> list[Record]:
    return list(RecordReader(path).more())


def digest_json(value: object) -> str:
    """The digest of a JSON value, whatever the order and spacing it was written in."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
