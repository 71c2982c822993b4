"""Checks of a running daemon, from its status: duties, pauses, breakers, notes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from holdfast.domain.json_value import Json, list_in, object_in, text_in
from holdfast.operations.doctor.finding import Finding, fail, ok, warn
from holdfast.operations.doctor.store import judge_contracts
from holdfast.version import __version__

LISTED_MAX = 5
RESUME = {
    "contract": "holdfast resume --contract",
    "address": "holdfast resume --address",
    "lane": "holdfast resume --lane",
}


def judge_daemon(status: Mapping[str, Json]) -> list[Finding]:
    version = status.get("version")
    if version != __version__:
        text = f"the daemon runs version {version}, this command is {__version__}"
        return [warn("daemon", text, "restart the daemon")]
    failing = [name for name, state in object_in(status, "duties").items() if state != "ok"]
    if failing:
        text = f"the daemon runs, but these duties fail: {', '.join(failing)}"
        return [fail("daemon", text, "check its log, and run: holdfast status")]
    return [
        ok("daemon", f"the daemon (version {version}) runs and is healthy"),
        *_judge_contracts(status),
        *_judge_intake(status),
        *_judge_pauses(status),
        *_judge_breakers(status),
        *_judge_readers(status),
        *_judge_receipts(status),
        *_judge_notes(status),
    ]


def _judge_contracts(status: Mapping[str, Json]) -> list[Finding]:
    """Misconfigured contracts, and those whose handler no process serves, as the daemon reports them."""
    listed = [one for one in list_in(status, "misconfigured") if isinstance(one, dict)]
    return judge_contracts({str(one.get("contract_id")): str(one.get("why")) for one in listed})


def _judge_intake(status: Mapping[str, Json]) -> list[Finding]:
    refusal = text_in(status, "not_accepting")
    return [] if refusal is None else [fail("daemon.intake", f"new events are refused: {refusal}", "free disk space")]


def _judge_pauses(status: Mapping[str, Json]) -> list[Finding]:
    paused = [one for one in list_in(status, "paused") if isinstance(one, dict)]
    found = [
        warn(
            "daemon.paused",
            f"deliveries of {one.get('scope')} {one.get('name')} are paused",
            f"to continue, run: {RESUME.get(str(one.get('scope')), '')} {shlex.quote(str(one.get('name')))}",
        )
        for one in paused[:LISTED_MAX]
    ]
    if len(paused) > LISTED_MAX:
        found.append(warn("daemon.paused", f"{len(paused) - LISTED_MAX:,} more are paused", "run: holdfast status"))
    return found


def _judge_breakers(status: Mapping[str, Json]) -> list[Finding]:
    """Addresses that fail so often that they are tried only now and then."""
    addresses = [str(address) for address in list_in(status, "breakers")]
    if not addresses:
        return []
    named = ", ".join(addresses[:LISTED_MAX])
    text = f"receivers that keep failing and are tried rarely: {named}"
    return [warn("daemon.breakers", text, "fix the receivers; deliveries resume by themselves")]


def _judge_readers(status: Mapping[str, Json]) -> list[Finding]:
    """Readers of streams, sinks among them, that fail, expired or ended."""
    found = []
    for one in (one for one in list_in(status, "readers") if isinstance(one, dict)):
        name, failing, expired = one.get("name"), one.get("failing_streams"), one.get("expired_streams")
        if failing:
            text = f"reader {name} fails in {failing} streams: {one.get('error')}"
            found.append(warn("daemon.readers", text, "run: holdfast streams readers"))
        if expired:
            text = f"reader {name} stood still in {expired} streams for so long that their events may be deleted"
            found.append(warn("daemon.readers", text, "let it catch up, or ignore this if nothing needs it any more"))
        if one.get("active") is False and one.get("lag_events"):
            found.append(warn("daemon.readers", f"reader {name} ended: no process works for it", "start it again"))
    return found[:LISTED_MAX]


def _judge_receipts(status: Mapping[str, Json]) -> list[Finding]:
    """The result of the last check of the receipts."""
    checked = object_in(status, "receipts")
    at, faults = text_in(checked, "checked_at"), checked.get("faults")
    if faults:
        fault = object_in(checked, "fault")
        where = f" at link {fault.get('seq')} of {fault.get('chain')}" if fault.get("chain") else ""
        text = f"the last check of the receipts found {faults} faults, the first{where}: {fault.get('message')}"
        return [fail("daemon.receipts", text, "run: holdfast receipts verify")]
    return [] if at is None else [ok("daemon.receipts", f"the receipts were verified at {at} without a fault")]


def _judge_notes(status: Mapping[str, Json]) -> list[Finding]:
    """Remarks of the daemon, alerts about the fleet among them."""
    notes = [str(note) for note in list_in(status, "notes")]
    return [warn("daemon.notes", note, "run: holdfast status") for note in notes[:LISTED_MAX]]
