"""How contracts look: a row of the list, the fields of one, the results of a test and of a ping."""

from __future__ import annotations

import time

from holdfast.domain.event import iso_time
from holdfast.domain.json_value import KnownJson
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.fields import show_fields
from holdfast.surfaces.cli.output import echo, echo_wrapped, plural, visible
from holdfast.surfaces.cli.table import show_table

COLUMNS = ("id", "matches", "address", "policy", "ordered", "state")
SPARE = ("policy", "ordered")
OPTIONS = ("attempts", "timeout", "concurrency", "rate", "format", "template")


def show_contracts(contracts: list[KnownJson]) -> None:
    show_table([_row(contract) for contract in contracts], COLUMNS, spare=SPARE)
    for contract in contracts if terminal.is_terminal() else ():
        if contract["active"] and contract["misconfigured"]:
            echo_wrapped(visible(f"{contract['id']}: {contract['misconfigured']}"), "! ")


def show_contract(contract: KnownJson) -> None:
    row = _row(contract)
    target = contract["target"]
    signed = "yes" if target["has_secret"] else "no"
    options = {name: contract[name] for name in OPTIONS if contract[name] is not None}
    show_fields(
        {
            "id": row["id"],
            "state": row["state"],
            "misconfigured": contract["misconfigured"],
            "matches": row["matches"],
            "address": row["address"],
            **({"signed": signed} if target["url"] else {}),
            "headers": ", ".join(contract["headers"]) or None,
            "ordered": contract["ordered"],
            "policy": contract["policy"],
            **options,
            "retry_on": contract["retry_on"],
            "senders": _senders(contract["senders"]),
            "public_keys": contract.get("public_keys"),
            "source": contract["source"],
            "created_at": contract["created_at"],
            "expires_at": contract["expires_at"],
        }
    )


def show_ping(answer: KnownJson) -> None:
    detail = (answer["attempt"] or {}).get("detail") or {}
    status = f" answered {detail['status']}" if detail.get("status") else ""
    took = f" in {detail['duration_ms']:,} ms" if "duration_ms" in detail else ""
    if answer["delivered"]:
        echo_wrapped(f"Delivered: {visible(answer['address'])}{status}{took}.")
    else:
        echo_wrapped(f"Not delivered to {visible(answer['address'])}: {visible(answer['error'] or 'unknown')}.")
    if detail.get("response"):
        echo_wrapped(visible(detail["response"]), "  response  ")
    echo(f"  see       holdfast explain {visible(terminal.for_people('id', answer['event_id']))}")


def show_statistics(answer: KnownJson) -> None:
    now = ("paused", "pending", "in_flight", "oldest_pending_seconds", "dead", "last_delivered_at", "last_failed_at")
    show_fields({name: answer[name] for name in now})
    echo()
    spans = [{"span": "last day", **answer["last_day"]}, {"span": "in all", **answer["total"]}]
    show_table(spans, ("span", "delivered", "dead", "dropped", "failed", "latency_seconds"))


def show_trial(answer: KnownJson) -> None:
    """The result of `contracts test`."""
    echo(f"Would have matched {answer['matched']} of the last {answer['tested']} events.")
    if answer["items"]:
        echo()
        show_table(answer["items"], ("id", "type", "source", "stream"))
    if answer["misses"]:
        echo("\nNot matched:")
        for group in answer["misses"]:
            example = terminal.for_people("id", group["example"])
            events = f"{plural(group['events'], 'event')}, such as {visible(example)}"
            echo_wrapped(f"{events}: {visible(group['why'])}", "  ")
        if answer["misses_left_off"]:
            echo(f"  ({plural(answer['misses_left_off'], 'reason')} more)")


def _row(contract: KnownJson) -> KnownJson:
    target = contract["target"]
    criteria = {"type": contract["type_criterion"], "source": contract["source_criterion"], **contract["properties"]}
    words = [f"{name}={_criterion_text(value)}" for name, value in criteria.items() if value is not None]
    session = target.get("session")
    address = target["url"] or (f"session:{session}" if session else f"handler:{target['handler']}")
    return {**contract, "matches": " ".join(words) or "everything", "address": address, "state": _state(contract)}


def _state(contract: KnownJson) -> str:
    if not contract["active"]:
        if contract["retired"]:
            return "retired"
        return "expired" if (contract["expires_at"] or "Z") <= iso_time(time.time_ns() // 1_000_000) else "disabled"
    if not contract["misconfigured"]:
        return "active"
    return "misconfigured" if terminal.is_terminal() else f"misconfigured: {contract['misconfigured']}"


def _criterion_text(value: KnownJson) -> str:
    match = value.get("match")
    texts = [match] if isinstance(match, str) else list(match or ())
    return "|".join(texts) or value.get("pattern") or "(any)"


def _senders(senders: KnownJson) -> str | None:
    """Such as `github 583231`, with the further conditions of each in brackets."""
    if not isinstance(senders, dict):
        return None if senders is None else str(senders)
    return "; ".join(f"{source} {_sender(wanted)}" for source, wanted in senders.items())


def _sender(wanted: KnownJson) -> str:
    if isinstance(wanted, list):
        return ", ".join(map(str, wanted))
    if not isinstance(wanted, dict):
        return str(wanted)
    return ", ".join(f"{name} {_sender(value)}" for name, value in wanted.items())
