"""The lease history of a campaign on PostgreSQL: triggers in its schema record each lease, by a claim or by the router,
and each end of a lease.

A trigger runs in the transaction of its statement, so its record exists exactly if the change does. It names the
session by its `application_name`, which ends with the number of the daemon's life.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.domain.receipt import Link
from holdfast.proof.kills.evidence import Lease, Settle
from holdfast.proof.kills.records import UNKNOWN_LIFE
from holdfast.store.pgmq.statements import queue_name
from holdfast.store.roles.queue_admin import QueueKind

INSTALL = """
CREATE TABLE IF NOT EXISTS {schema}.prove_leases (
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xid text NOT NULL, at bigint NOT NULL, by text NOT NULL,
  delivery bigint NOT NULL, old_token bigint, new_token bigint, old_starts integer NOT NULL, new_starts integer,
  old_until bigint);
CREATE TABLE IF NOT EXISTS {schema}.prove_links (
  xid text NOT NULL, at bigint NOT NULL, by text NOT NULL, chain text NOT NULL, seq bigint NOT NULL);
CREATE TABLE IF NOT EXISTS {schema}.prove_orders (key text PRIMARY KEY);

CREATE OR REPLACE FUNCTION {schema}.prove_note_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}.prove_links (xid, at, by, chain, seq)
  VALUES (pg_current_xact_id()::text, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
          current_setting('application_name'), NEW.chain, NEW.seq);
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER prove_linked AFTER INSERT ON {schema}.receipts FOR EACH ROW
  EXECUTE FUNCTION {schema}.prove_note_link();
"""
WATCH = """
CREATE OR REPLACE FUNCTION {schema}.prove_note_lease_{kind}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}.prove_leases (xid, at, by, delivery, old_token, new_token, old_starts, new_starts, old_until)
  VALUES (pg_current_xact_id()::text, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
          current_setting('application_name'), OLD.{id}, OLD.token,
          CASE WHEN TG_OP = 'UPDATE' THEN NEW.token END, OLD.starts, CASE WHEN TG_OP = 'UPDATE' THEN NEW.starts END,
          OLD.lease_until);
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION {schema}.prove_note_routed_{kind}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}.prove_leases (xid, at, by, delivery, old_token, new_token, old_starts, new_starts, old_until)
  VALUES (pg_current_xact_id()::text, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
          current_setting('application_name'), NEW.{id}, NULL, NEW.token, 0, NEW.starts, NULL);
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER prove_routed AFTER INSERT ON {table} FOR EACH ROW
  WHEN (NEW.token IS NOT NULL) EXECUTE FUNCTION {schema}.prove_note_routed_{kind}();
CREATE OR REPLACE TRIGGER prove_changed AFTER UPDATE ON {table} FOR EACH ROW
  WHEN (OLD.token IS DISTINCT FROM NEW.token) EXECUTE FUNCTION {schema}.prove_note_lease_{kind}();
CREATE OR REPLACE TRIGGER prove_removed AFTER DELETE ON {table} FOR EACH ROW
  WHEN (OLD.token IS NOT NULL) EXECUTE FUNCTION {schema}.prove_note_lease_{kind}();
"""
CHANGES = """
SELECT xid, at, by, delivery, old_token, new_token, old_starts, new_starts, old_until
FROM {schema}.prove_leases ORDER BY n"""
NOTES = "SELECT xid, at, by, chain, seq FROM {schema}.prove_links"


def watch(kind: QueueKind, schema: str) -> str:
    """The triggers on the table that holds the ready queue. They stay with the store's own table during a move."""
    table, id = (
        ("{schema}.ready", "delivery") if kind is QueueKind.NATIVE else (f"pgmq.q_{queue_name(schema)}", "msg_id")
    )
    return WATCH.replace("{kind}", kind).replace("{id}", id).replace("{table}", table)


class Change(NamedTuple):
    """A change of a delivery's lease: tokens and start counts before and after, and its former expiry."""

    xid: str
    at_ms: int
    by: str
    delivery: int
    old_token: int | None
    new_token: int | None
    old_starts: int
    new_starts: int | None
    old_until_ms: int | None = None


class Note(NamedTuple):
    """A receipt link was written."""

    xid: str
    at_ms: int
    by: str
    chain: str
    seq: int


def life_of(tag: str) -> int:
    """The life number at the end of a session's name."""
    number = tag.rpartition("-")[2]
    return int(number) if number.isdigit() else UNKNOWN_LIFE


def fold(changes: Sequence[Change], notes: Sequence[Note], links: Sequence[Link]) -> tuple[list[Lease], list[Settle]]:
    """Build leases and settlements from the trigger records and the receipts."""
    transitions = _transitions(notes, links)
    settled = {(xid, delivery) for xid, delivery, *_ in transitions}
    leases: list[Lease] = []
    ended: dict[tuple[str, int], Lease] = {}
    open_claims: dict[int, Change] = {}
    for change in changes:
        claim = open_claims.pop(change.delivery, None)
        if change.old_token is not None and claim is not None and claim.new_token == change.old_token:
            end = _end_of(change, settled)
            lease = Lease(change.delivery, life_of(claim.by), claim.at_ms, change.at_ms, end, claim.new_token)
            leases.append(lease)
            ended[change.xid, change.delivery] = lease
        if change.new_token is not None:
            open_claims[change.delivery] = change
    leases += [
        Lease(item.delivery, life_of(item.by), item.at_ms, None, "held", item.new_token)
        for item in open_claims.values()
    ]
    settles = [
        Settle(delivery, life_of(by), state, at_ms, ended.get((xid, delivery)))
        for xid, delivery, state, by, at_ms in transitions
    ]
    return leases, sorted(settles, key=lambda item: item.at_ms)


def _end_of(change: Change, settled: set[tuple[str, int]]) -> str:
    if (change.xid, change.delivery) in settled:
        return "settled"
    given_back = change.new_starts is not None and change.new_starts < change.old_starts
    if given_back:
        return "released"
    return "run out" if change.old_until_ms is not None and change.old_until_ms < change.at_ms else "taken"


def _transitions(notes: Sequence[Note], links: Sequence[Link]) -> list[tuple[str, int, str, str, int]]:
    """Every leaf written by the engine, with its transaction, session and time."""
    by_link: Mapping[tuple[str, int], Note] = {(note.chain, note.seq): note for note in notes}
    found = []
    for link in links:
        note = by_link.get((link.chain, link.seq), Note("", link.at_ms, "", link.chain, link.seq))
        for line in link.leaves.split(b"\n"):
            leaf = json.loads(line)
            if leaf["actor"] == "engine" and "delivery" in leaf:
                found.append((note.xid, leaf["delivery"], leaf["state"], note.by, note.at_ms))
    return found
