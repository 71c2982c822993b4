"""What needs an operator's attention, most urgent first, each with the button or link that repairs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from holdfast.operations.answers.contracts import ContractAnswer
from holdfast.operations.answers.sessions import SessionAnswer
from holdfast.operations.answers.status import Status
from holdfast.operations.elapsed import span

LATE_S = 300
LISTED_MAX = 5


@dataclass(frozen=True, slots=True)
class Attention:
    """One sentence and how bad it is (`bad` or `warn`). `path` and `label` are a link to where it is explained.

    `post` and `button`: a form that repairs it, for those who may (`operate`).
    """

    level: str
    text: str
    path: str = ""
    label: str = ""
    post: str = ""
    button: str = ""


def find_attention(
    status: Status, contracts: Sequence[ContractAnswer], sessions: Sequence[SessionAnswer]
) -> list[Attention]:
    found = [*_of_daemon(status), *_of_deliveries(status), *_of_contracts(status, contracts), *_of_others(status)]
    waiting = [session for session in sessions if session.state == "waiting"][:LISTED_MAX]
    for session in waiting:
        where = session.title or session.cwd or session.id
        path = f"/sessions/{quote(session.id, safe='')}"
        found.append(Attention("warn", f"{session.agent} waits for you in “{where}”.", path, "Open session"))
    return sorted(found, key=lambda item: item.level != "bad")


def _of_daemon(status: Status) -> Iterator[Attention]:
    if status.not_accepting is not None:
        yield Attention("bad", f"New events are refused: {status.not_accepting}")
    for name, state in status.duties.items():
        if state != "ok":
            yield Attention("bad", f"The background duty {name} is failing: {state}", "#processes", "Processes")
    for daemon in status.daemons:
        if not daemon.alive:
            text = f"Process {daemon.pid} on {daemon.host} has died; its work is being taken over."
            yield Attention("warn", text, "#processes", "Processes")
    if status.receipts.faults:
        fault = status.receipts.fault
        where = f" First: {fault.message}." if fault else ""
        text = f"The receipts have {_plural(status.receipts.faults, 'fault')}.{where}"
        yield Attention("bad", text, "#receipts", "Where", "/receipts/verify", "Verify again")


def _of_deliveries(status: Status) -> Iterator[Attention]:
    if status.dead:
        noun = "delivery is" if status.dead == 1 else "deliveries are"
        yield Attention("bad", f"{status.dead:,} {noun} dead.", "/dead-letters", "Inspect and requeue")
    for lane in status.stuck[:LISTED_MAX]:
        behind = _plural(lane.waiting - 1, "delivery waits", "deliveries wait")
        text = (
            f"{behind} in lane {lane.lane} behind one that failed {_plural(lane.attempts, 'time')}: {lane.last_error}"
        )
        retry = f"/deliveries/{lane.delivery_id}/retry"
        yield Attention("bad", text, f"/events/{lane.event_id}", "Open event", retry, "Try now")
    if (status.oldest_pending_seconds or 0) > LATE_S:
        text = f"The oldest pending delivery was created {span(status.oldest_pending_seconds or 0)} ago."
        yield Attention("warn", text, "#queues", "Queues")


def _of_contracts(status: Status, contracts: Sequence[ContractAnswer]) -> Iterator[Attention]:
    for fault in status.misconfigured[:LISTED_MAX]:
        text = f"Contract {fault.contract_id} is misconfigured: {fault.why}."
        yield Attention("bad", text, _contract(fault.contract_id), "Open contract")
    for id in status.disabled[:LISTED_MAX]:
        text = f"Contract {id} is disabled."
        yield Attention("warn", text, _contract(id), "Open contract", f"{_contract(id)}/enable", "Enable")
    urls = {contract.target.get("url"): contract.id for contract in contracts}
    for address in status.breakers[:LISTED_MAX]:
        text = f"{address} keeps failing and is tried only now and then."
        known = urls.get(address)
        yield Attention("warn", text, _contract(known) if known else "/contracts", "Open contract")
    for pause in status.paused[:LISTED_MAX]:
        path = _contract(pause.name) if pause.scope == "contract" else ""
        resume = f"/resume/{pause.scope}/{quote(pause.name, safe='')}" if "…" not in pause.name else ""
        text = f"Deliveries of {pause.scope} {pause.name} are paused."
        yield Attention("warn", text, path, "Open contract" if path else "", resume, "Resume")


def _of_others(status: Status) -> Iterator[Attention]:
    for reader in status.readers:
        if reader.failing_streams:
            text = f"Reader {reader.name} fails in {_plural(reader.failing_streams, 'stream')}: {reader.error}"
            yield Attention("warn", text, "/streams", "Streams")
    for name, count in status.hooks.items():
        if count and name != "repeated":
            yield Attention("warn", f"{_plural(count, 'hook event')} of agents were not appended: {name}.")
    for note in status.notes:
        yield Attention("warn", f"{note[:1].upper()}{note[1:].rstrip('.')}.")


def _contract(id: str) -> str:
    return f"/contracts/{quote(id, safe='')}"


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
