"""What the door refuses, on every store and with every driver. The door is the plain-SQL entry for events."""

from __future__ import annotations

from holdfast.domain.errors import BadInput, Conflict, DedupConflict, HoldfastError, StoreError, StreamClosed

BAD_INPUT, DEDUP_CONFLICT, STREAM_CLOSED, OTHER_HEAD = "HF001", "HF002", "HF003", "HF005"
"""SQLSTATE codes that the door raises on PostgreSQL."""

NO_TABLES = frozenset({"3F000", "42P01", "42883"})
"""SQLSTATE codes for a schema, table or function that does not exist."""

_PREFIX = "holdfast: "


def door_error(code: str | None, text: str) -> HoldfastError | None:
    """The error for a code and message of PostgreSQL; None if the door did not raise it."""
    if code == DEDUP_CONFLICT:
        return _dedup_conflict()
    if code == STREAM_CLOSED:
        return _stream_closed()
    if code == OTHER_HEAD:
        return Conflict("another event was appended to the stream first: expected_seq is taken or not reached yet")
    return BadInput(text.partition(_PREFIX)[2].partition("\n")[0] or text) if code == BAD_INPUT else None


def door_error_in(text: str) -> HoldfastError | None:
    """The error for a message of SQLite, which has no codes; None if the door did not raise it."""
    _, found, message = text.rpartition(_PREFIX)
    if not found:
        return None
    if message.startswith("this store "):  # it was moved, or is being moved
        return StoreError(message)
    if message.startswith("dedup_key"):
        return _dedup_conflict()
    return _stream_closed() if message.startswith("stream is closed") else BadInput(message)


def _dedup_conflict() -> HoldfastError:
    return DedupConflict("this dedup_key was used before with another body; use a new key for a new fact")


def _stream_closed() -> HoldfastError:
    return StreamClosed("the stream is closed and takes no more events")
