"""Both dialects have the same statement names; a name that only one of them needs is listed here with a reason."""

from __future__ import annotations

import re
from pathlib import Path

import holdfast
from holdfast.store.postgres.statements import sql
from holdfast.store.sqlite.statements import sql as sqlite
from postgres import Server, opened

pytest_plugins = ("postgres",)

ONLY_HERE = {
    "event_append_one": "one alone needs no splitting and sorting; on SQLite a statement is run for each anyway",
    "event_append_many": "one round trip for many events; SQLite has no round trips",
    "event_whole": "pages look at what is small first; on SQLite a row is read when its turn comes",
    "contract_version_held": "SQLite's writer is alone anyway",
    "quota_lock": "as contract_version_held",
    "route_plain": "one round trip for a whole batch; SQLite has no round trips",
    "settle_delivered": "as route_plain",
    "unrouted_first": "a look spares a transaction here",
    "unrouted_done": "SQLite's events are committed in the order of their numbers, so its router has a place instead",
    "figures_first": "SQLite counts its streams by a trigger; here publishers would wait for each other",
    "owner_lock": "on SQLite a file lock proves the keeper's life",
    "owner_unlock": "as owner_lock",
    "owner_back": "a broken connection may come back; a file lock does not break",
    "owners_missing": "others may work here, and lose their connection; on SQLite the keeper is alone",
    "owner_seen": "behind a pooler there is no lock to hold, so it says that it lives",
    "lease_prolong": "another process may claim here; on SQLite the keeper is alone",
    "lease_disown": "the answer to a claim may be lost on its way; SQLite's cannot",
    "delivery_events": "ends are fenced by state in the same statement, so only the event's id is missing",
    "burst_new": "deliveries are numbered by the database here, so the new ones are asked for",
    "burst_ready": "who waits behind a head has no row in ready",
    "burst_free": "another process may be claiming; on SQLite nobody is",
    "queue_hold": "another process may be claiming; on SQLite nobody is",
    "queue_leased": "as queue_hold",
    "operator_state": "one statement is of one moment here; on SQLite several reads of one transaction are",
    "stream_read_many": "one round trip for many streams; SQLite has no round trips",
    "reader_survey": "another process may survey; on SQLite nobody does",
    "lagging_settle": "one round trip for many streams; SQLite has no round trips",
    "cursors_expire": "as lagging_settle",
    "feed_snapshot": "events commit in any order here, so the feed remembers which transactions were open",
    "streams_first": "one round trip for many streams; SQLite has no round trips",
    "check_settings": "SQLite has its own check",
    "check_indexes": "as check_settings",
    "owner_probe": "a process on SQLite is on the same machine, which knows whether it runs",
    "owners_end_gone": "on SQLite the next keeper ends its predecessors",
    "replication": "SQLite has no standbys",
    "store_size": "SQLite's store is a file",
}
ONLY_SQLITE = {
    "ready_leased": "here the lease itself answers with what it took",
    "stream_extend": "here the door, or a function beside it, extends the stream",
    "event_number": "here a sequence counts events, and never takes a number twice",
    "event_seq": "here the door answers with the sequence number",
    "event_rerouted": "one statement does both here",
    "node_advance": "goes with receipt_add here, to save a round trip",
    "delivery_lane": "here the end itself tells the lane",
    "delivery_lanes": "as delivery_lane",
    "delivery_delivered": "here one call settles them, or each end says what it is",
    "router_place": "several commit at once here, so that a number may be seen before a smaller one",
    "router_advance": "as router_place",
    "again_take": "as router_place",
    "again_done": "as router_place",
    "lease_holders": "here locks tell who is gone, and owners_missing names them",
    "lease_others": "here any number of processes may work, so the answer is always yes",
    "bindings_end": "goes with session_change here, to save a round trip",
    "bindings_begin": "as bindings_end",
    "cursor_begin": "goes with lagging_mark here, to save a round trip",
    "lagging_leased": "here the claim itself answers with what it took",
    "lagging_held": "goes with lagging_settle here",
    "lagging_done": "as lagging_held",
    "lagging_again": "as lagging_held",
    "cursors_idle": "goes with cursors_expire here",
    "cursor_expire": "as cursors_idle",
    "contract_states": "goes with operator_state here",
    "token_states": "as contract_states",
    "lease_reclaim_of": "goes with the other reclaimed leases here",
}
USE = re.compile(r"\bsql\.([a-z_]+)")


def used() -> set[str]:
    folder = Path(holdfast.__file__).parent.joinpath("store", "postgres")
    return {name for source in folder.glob("*.py") for name in USE.findall(source.read_text())}


def test_both_dialects_have_the_same_names_but_for_the_reasons_given() -> None:
    assert set(sql.names()) - set(sqlite.names()) == set(ONLY_HERE)
    assert set(sqlite.names()) - set(sql.names()) == set(ONLY_SQLITE)


def test_every_statement_is_used_and_every_use_has_its_statement() -> None:
    assert sorted(set(sql.names()) ^ used()) == []


async def test_every_statement_fits_the_schema(server: Server, schema: str) -> None:
    async with opened(server, schema) as store, store._pool.connection() as pooled:
        for name in sql.names():
            await pooled.raw.prepare(pooled._named(getattr(sql, name)))
