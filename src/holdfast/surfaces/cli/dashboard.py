"""`holdfast status` in a terminal: health, counts and what needs attention, on one screen."""

from __future__ import annotations

from collections.abc import Mapping

import click

from holdfast.domain.json_value import KnownJson
from holdfast.operations.elapsed import span
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.output import visible
from holdfast.surfaces.cli.text_width import cut, cut_middle, wrap

STATES = ("waiting", "working", "initializing", "idle", "failed", "ended", "closed")
"""Sessions in the order in which a person looks for them."""
LEAST_LINES = 3


def dashboard_lines(status: KnownJson) -> list[str]:
    width = terminal.width()
    lines = [_headline(status), cut_middle(visible(str(status["store"])), width), ""]
    lines += [_figure(*figure, width) for figure in _figures(status)]
    if len(status["daemons"]) > 1 or status["healthy"] is None:
        lines += ["", *(cut(f"  {visible(daemon_line(one))}", width) for one in status["daemons"])]
    return lines + _attention_lines(status, max(LEAST_LINES, terminal.height() - len(lines) - 2), width)


def _headline(status: KnownJson) -> str:
    if status["healthy"] is None:
        found = "read without a daemon" if status["daemons"] else "read without a daemon; no process delivers from it"
        return f"holdfast {status['version']}, a store {found}"
    word, color = ("healthy", terminal.GOOD) if status["healthy"] else ("unhealthy", terminal.BAD)
    up = "" if status["uptime_seconds"] is None else f", up {span(status['uptime_seconds'])}"
    return f"holdfast {status['version']} is {_styled(word, color)}{up}"


def _figures(status: KnownJson) -> list[tuple[str, int | None, str, str | None]]:
    """For each line: its name, the number, what there is to say about it, and the color of a number above 0."""
    oldest = status["oldest_pending_seconds"]
    pending = [f"{status['in_flight']:,} in flight"] + ([] if oldest is None else [f"oldest {span(oldest)}"])
    unrouted = [f"{status['unrouted']:,} not routed yet"] if status["unrouted"] else []
    unmatched = [f"{status['unmatched']:,} matched no contract"] if status["unmatched"] else []
    sessions: dict[str, int] = status["sessions"]
    figures: list[tuple[str, int | None, str, str | None]] = [
        ("events", status["events"], ", ".join(unrouted + unmatched), None),
        ("pending", status["pending"], ", ".join(pending), None),
        ("dead", status["dead"], _counts(status["dead_by_reason"]), terminal.BAD),
        ("sessions", sum(sessions.values()), _counts({name: sessions.get(name, 0) for name in STATES}), None),
    ]
    if status["spooled"]:
        figures.append(("spooled", status["spooled"], "waiting to be imported", terminal.WARN))
    return figures


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count)


def _figure(name: str, count: int | None, about: str, color: str | None, width: int) -> str:
    number = "unknown" if count is None else f"{count:,}"
    start = f"  {name:<9}{_styled(number.rjust(11), color if count else None)}"
    return f"{start}  {_styled(cut(about, width - 24), terminal.FAINT)}" if about else start


def daemon_line(one: KnownJson) -> str:
    """
    >>> daemon_line({"owner": 3, "host": "db", "pid": 17, "alive": True, "deliveries": 2, "streams": 0,
    ...              "since": "2026-11-18T10:00:00.000Z", "last_seen_at": None})
    '3 on db (pid 17): 2 deliveries and 0 streams leased, since 2026-11-18T10:00:00.000Z, last seen unknown'
    """
    state = "" if one["alive"] else ", its work is being taken over"
    if terminal.is_terminal():
        held = f"holds {one['deliveries']:,} deliveries"
        return f"process {one['pid']} on {one['host']} {held}, started {terminal.relative(one['since'])}{state}"
    return (
        f"{one['owner']} on {one['host']} (pid {one['pid']}): {one['deliveries']:,} deliveries and {one['streams']:,} "
        f"streams leased, since {one['since']}, last seen {one['last_seen_at'] or 'unknown'}{state}"
    )


def receipts_line(checked: KnownJson) -> str:
    """
    >>> receipts_line({"checked_at": None, "faults": 0, "fault": None})
    'not verified yet'
    """
    if checked["checked_at"] is None:
        return "not verified yet"
    faults = checked["faults"]
    found = "no faults" if not faults else f"{faults:,} faults, the first: {checked['fault']['message']}"
    return f"verified at {checked['checked_at']}, {found}"


def _attention_lines(status: KnownJson, room: int, width: int) -> list[str]:
    """What needs attention, within so many lines."""
    blocks = [wrap(visible(text), width - 2, divide=True) for text in _attention(status)]
    lines = [
        _styled(("! " if number == 0 else "  ") + line, terminal.WARN)
        for block in blocks
        for number, line in enumerate(block)
    ]
    if not lines:
        return []
    if len(lines) > room - 1:
        left = len(lines) - (room - 2)
        lines = [*lines[: room - 2], f"  … {left:,} more lines: holdfast status | less"]
    return ["", *lines]


def _attention(status: KnownJson) -> list[str]:
    """Sentences about what an operator should look at, with the command that shows more."""
    lines = []
    if status["not_accepting"]:
        lines.append(f"New events are refused: {status['not_accepting']}")
    lines += [f"Duty {name} is failing: {state}" for name, state in status["duties"].items() if state != "ok"]
    if status["dead"]:
        lines.append("Dead letters: see holdfast dlq list")
    if status["receipts"]["faults"]:
        lines.append(f"Receipts: {receipts_line(status['receipts'])}")
    lines += [f"Contract {item['contract_id']} is misconfigured: {item['why']}" for item in status["misconfigured"]]
    if status["disabled"]:
        lines.append(f"Disabled contracts: {', '.join(status['disabled'])}")
    lines += [
        f"Lane {item['lane']} is stuck: {item['waiting']:,} wait for delivery {item['delivery_id']}, which fails"
        for item in status["stuck"]
    ]
    lines += [f"Breaker open: {address}" for address in status["breakers"]]
    lines += [f"Paused: {item['scope']} {item['name']}" for item in status["paused"]]
    lines += [
        f"Reader {reader['name']} is {reader['lag_events']:,} events behind"
        for reader in status["readers"]
        if reader["lag_events"]
    ]
    lines += [f"Hooks not appended: {count:,} {name}" for name, count in status["hooks"].items() if count]
    return [*lines, *status["notes"]]


def _styled(text: str, color: str | None) -> str:
    return click.style(text, fg=color) if color is not None and terminal.has_color() else text
