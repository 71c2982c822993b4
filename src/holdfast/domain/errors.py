"""The tree of errors. A message says what happened, to which thing, and what to do.

    HoldfastError
    ├── BadInput            the caller's value cannot be accepted                       422
    │   ├── BadJson         not JSON, or JSON that cannot be stored                     400
    │   ├── TooLarge        over a size limit                                           413
    │   ├── BadConfig       a setting, a file or a variable is wrong
    │   └── TargetRefused   the outbound guard does not allow this address              422
    ├── Conflict            conflicts with existing data                                409
    │   ├── Ambiguous       a name matches several objects
    │   ├── DedupConflict   a dedup key was used with another body
    │   ├── ChainContention other writers keep taking the next number of a chain
    │   └── StreamClosed    the stream takes no more events
    ├── TooMany             a queue is full; try again later                            429
    ├── NotFound            no such thing                                               404
    ├── PositionPruned      retention removed the events after a reader's position      410
    ├── Denied              the caller is not allowed to do this                        401/403
    │   └── Unverified      a request without the signature of its source               401
    └── StoreError          the store cannot do it                                      503
        ├── StoreMissing    no Holdfast tables in this database
        ├── StoreTooNew     made by a later version
        ├── StoreFull       the disk is full
        ├── StoreBusy       another writer holds the lock for too long
        ├── StoreFailed     an fsync failed or the file was replaced: stop, restart, verify
        └── KeeperHeld      another process is the keeper of this file

`Reject` and `RetryAfter` are not errors of Holdfast: a handler raises them to decide how its delivery ends.
"""

from __future__ import annotations

from collections.abc import Sequence


class HoldfastError(Exception):
    """The base class of all errors of Holdfast."""

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else (self.__doc__ or type(self).__name__)


class BadInput(HoldfastError):
    """The value cannot be accepted."""


class BadJson(BadInput):
    """The text is not JSON that can be accepted."""


class TooLarge(BadInput):
    """The value is over a size limit."""


class BadConfig(BadInput):
    """The configuration is wrong."""


class TargetRefused(BadInput):
    """The outbound guard does not allow this address."""


class Conflict(HoldfastError):
    """The change conflicts with existing data."""


class Ambiguous(Conflict):
    """The name matches several objects. `candidates` are their ids."""

    def __init__(self, *message: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(*message)
        self.candidates = tuple(candidates)


class DedupConflict(Conflict):
    """The dedup key was used before, with another body."""


class ChainContention(Conflict):
    """The next sequence number of a receipt chain is already used."""


class StreamClosed(Conflict):
    """The stream is closed and takes no more events."""


class TooMany(HoldfastError):
    """The queue is full; try again later."""


class NotFound(HoldfastError):
    """There is no such thing."""


class PositionPruned(HoldfastError):
    """Retention removed events that a reader has not read."""

    position = first_seq = 0
    archived = False

    @classmethod
    def at(cls, stream: str, position: int, first_seq: int, archived: bool = False) -> PositionPruned:
        """`first_seq`: the first stored event. `archived`: an archive holds the others."""
        kept = "; an archive holds the others" if archived else ""
        error = cls(f"events of stream {stream!r} after {position} were removed; the first stored is {first_seq}{kept}")
        error.position, error.first_seq, error.archived = position, first_seq, archived
        return error


class Denied(HoldfastError):
    """The caller may not do this."""


class Unverified(Denied):
    """The signature of the request is missing or wrong."""


class StoreError(HoldfastError):
    """The store failed."""


class StoreMissing(StoreError):
    """This database holds no Holdfast tables."""


class StoreTooNew(StoreError):
    """This store was made by a later version."""


class StoreFull(StoreError):
    """The disk is full."""


class StoreBusy(StoreError):
    """Another writer held the database for too long."""


class StoreFailed(StoreError):
    """The store can no longer be trusted in this process."""


class KeeperHeld(StoreError):
    """Another process is the keeper of this store."""


class Reject(Exception):
    """Raised by a handler: the event can never be handled. The delivery becomes dead(rejected) without a retry."""


class RetryAfter(Exception):
    """Raised by a handler: try again after this many seconds, within the bounds of the policy."""

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"the handler asked for a retry in {seconds:g} s")
        self.seconds = float(seconds)
