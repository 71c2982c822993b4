"""What can go wrong, drawn as one small tree. A message says what happened, to which thing, and what to do.

    HoldfastError
    ├── BadInput            the caller's value cannot be accepted                       422
    │   ├── BadJson         not JSON that every part of the house can carry             400
    │   ├── TooLarge        over a size limit                                           413
    │   ├── BadConfig       a setting, a file or a variable is wrong
    │   └── TargetRefused   the outbound guard does not allow this address              422
    ├── Conflict            clashes with what is already there                          409
    │   ├── DedupConflict   a dedup key was used with another body
    │   └── StreamClosed    the stream takes no more events
    ├── NotFound            no such thing                                               404
    ├── Denied              who asks may not                                            401/403
    │   └── Unverified      a request is not signed as its source must sign             401
    └── StoreError          the store cannot do it                                      503
        ├── StoreMissing    no Holdfast tables in this database
        ├── StoreTooNew     made by a later version
        ├── StoreFull       no room on the disk
        ├── StoreBusy       another writer holds the lock for too long
        ├── StoreFailed     an fsync failed or the file changed under us: stop, restart, verify
        └── KeeperHeld      another process is the keeper of this file

`Reject` and `RetryAfter` are no faults: a handler raises them to say how its delivery ends.
"""

from __future__ import annotations


class HoldfastError(Exception):
    """The root of everything Holdfast raises on purpose."""

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
    """It clashes with what is already there."""


class DedupConflict(Conflict):
    """The dedup key was used before, with another body."""


class StreamClosed(Conflict):
    """The stream is closed and takes no more events."""


class NotFound(HoldfastError):
    """There is no such thing."""


class Denied(HoldfastError):
    """The caller may not do this."""


class Unverified(Denied):
    """The request is not signed as its source must sign it."""


class StoreError(HoldfastError):
    """The store could not do it."""


class StoreMissing(StoreError):
    """This database holds no Holdfast tables."""


class StoreTooNew(StoreError):
    """This store was made by a later version."""


class StoreFull(StoreError):
    """There is no room left on the disk."""


class StoreBusy(StoreError):
    """Another writer held the database for too long."""


class StoreFailed(StoreError):
    """The store can no longer be trusted in this process."""


class KeeperHeld(StoreError):
    """Another process is the keeper of this store."""


class Reject(Exception):
    """Raised by a handler: this event can never be handled. The delivery becomes dead(rejected) at once."""


class RetryAfter(Exception):
    """Raised by a handler: not now; try again in so many seconds (bounded by the policy)."""

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"the handler asked for another try in {seconds:g} s")
        self.seconds = float(seconds)
