"""The tables that a copy from SQLite to PostgreSQL carries over, in order. A test compares them with the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_NO_LEASE = {"owner": "NULL", "token": "NULL", "lease_until": "NULL"}


class CopiedTable(NamedTuple):
    """A table without its prefix, and the key in whose order its rows are copied.

    `changed`: expressions instead of a column's own value, because PostgreSQL stores it in another form or because a
    lease of the old store means nothing in the new one. `omitted`: columns that PostgreSQL sets by itself.
    `numbered`: its key is a number that the database assigns and never reuses.
    """

    name: str
    key: tuple[str, ...]
    changed: Mapping[str, str] = {}
    omitted: tuple[str, ...] = ()
    numbered: bool = False


COPIED = (
    CopiedTable("events", ("n",), numbered=True),
    CopiedTable("streams", ("id",)),
    CopiedTable("dedup", ("source", "key")),
    CopiedTable("unrouted", ("event",)),  # a view of SQLite
    CopiedTable("unmatched", ("event",)),
    CopiedTable("contracts", ("id",), omitted=("version",)),
    CopiedTable("secrets", ("contract", "secret")),
    CopiedTable("headers", ("contract", "name")),
    CopiedTable("queues", ("id",), numbered=True),
    CopiedTable("pauses", ("scope", "name")),
    CopiedTable("lanes", ("id",), numbered=True),
    # On PostgreSQL an ended delivery has a negative place in its lane.
    CopiedTable(
        "deliveries",
        ("id",),
        changed={"pos": "CASE WHEN state = 'pending' THEN abs(pos) ELSE -abs(pos) END"},
        numbered=True,
    ),
    CopiedTable("ready", ("delivery",), changed=_NO_LEASE),
    CopiedTable("attempts", ("id",), numbered=True),
    CopiedTable("gates", ("address",), changed={"probe_until": "NULL", "probe_owner": "NULL"}),
    CopiedTable("quotas", ("name", "minute")),
    CopiedTable("cursors", ("reader", "stream")),
    CopiedTable("readers", ("name",)),
    CopiedTable("lagging", ("reader", "stream"), changed=_NO_LEASE),
    CopiedTable("archives", ("id",)),
    CopiedTable("archived", ("stream", "first_seq")),
    CopiedTable("inbox", ("consumer", "event_id")),
    CopiedTable("sessions", ("id",)),
    CopiedTable("bindings", ("origin", "channel")),
    CopiedTable("blobs", ("sha256",)),
    CopiedTable("bookmarks", ("session", "file")),
    CopiedTable("history", ("minute",)),
    CopiedTable("contract_hours", ("contract", "hour")),
    CopiedTable("nodes", ("chain",), changed={"owner": "NULL"}),
    CopiedTable("receipts", ("chain", "seq")),
    CopiedTable("checked_chains", ("chain",)),
    CopiedTable("substrate", ("chain_seq",)),
    CopiedTable("tokens", ("id",)),
)

NOT_COPIED = {
    "meta": "facts about one store; those that the new one needs are written at the end",
    "counts": "computed at the end: PostgreSQL counts an event when it is routed",
    "router": "a position of SQLite; the events after it are in `unrouted`",
    "again": "part of `unrouted`",
    "owners": "processes that worked on the old store",
}

META_OF_ONE_STORE = frozenset({"schema_version", "made_by", "contracts_version", "kind", "moved_to"})
