"""Convert stored rows to values, and back where the stored form is text: the same for every store."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.domain.address import KINDS, Address, address_of_target
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.delivery import Claim, Delivery, clean_error
from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event, iso_time
from holdfast.domain.session import Session, SessionChange, SessionState
from holdfast.store.roles.contracts import ContractChange, ContractSecrets, QueueRow
from holdfast.store.roles.deliveries import SERVED_MS
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.operator import AttemptRow, DeliveryRow

Stored = Sequence[Any]

DETAIL_MAX = 4000
UNREADABLE = Address("handler", "handler:unreadable")
"""Stands for the address of a contract that cannot be read."""
_encode_detail = json.JSONEncoder(ensure_ascii=False).encode


def to_claim(row: Stored, token: int, addresses: Mapping[int, tuple[str, str | None]]) -> Claim:
    """A row of `ready_leased`."""
    delivery, queue, starts, attempts, generation, handed = row[:6]
    address, contract_id = addresses[queue]
    return Claim(
        Delivery(delivery, address, contract_id, attempts, generation, bool(handed)),
        Event(*row[6:]),
        queue,
        token,
        starts,
    )


def to_delivery_row(row: Stored) -> DeliveryRow:
    """A row of `delivery_columns`."""
    values = list(row)
    values[3] = values[3] or values[1]
    values[6] = values[6] or None
    values[12] = bool(values[12])
    return DeliveryRow(*values)


def to_attempt_row(row: Stored) -> AttemptRow:
    """A row of `attempts_of`."""
    *facts, detail = row
    return AttemptRow._make((*facts, _detail(detail)))


def detail_text(detail: Mapping[str, Any] | None) -> str | None:
    return None if detail is None else _encode_detail(detail)[:DETAIL_MAX]


def to_queue_row(row: Stored) -> QueueRow:
    """A row of `queue_all`."""
    id, contract, address, kind, paused, parked, served_at = row
    return QueueRow(id, contract or None, address, kind, bool(paused), bool(parked), served_at)


def pages_by_seq(wanted: EventFilter) -> bool:
    """Whether pages of events are ordered by `seq` in one stream, or by `n` over all events."""
    return wanted.stream is not None and not wanted.unmatched


def is_wanted(wanted: EventFilter, row: Stored) -> bool:
    """Whether a row of `event_page` and similar statements matches the filter."""
    return (
        (wanted.source is None or row[4] == wanted.source)
        and (wanted.type is None or row[5] == wanted.type)
        and (wanted.stream is None or (row[2] or row[1]) == wanted.stream)
    )


def event_bytes(row: Stored) -> int:
    """The bytes of the large columns of an event's row: properties and payload."""
    return sum(len(text) if text.isascii() else len(text.encode("utf-8", "replace")) for text in (row[8], row[9]))


def contract_text(contract: Contract) -> str:
    """The stored form of a contract: readable, and without the secret."""
    return json.dumps(
        {
            "id": contract.id,
            "target": contract.address.as_target(),
            "source_criterion": contract.source_criterion and contract.source_criterion.as_dict(),
            "type_criterion": contract.type_criterion and contract.type_criterion.as_dict(),
            "properties": {name: criterion.as_dict() for name, criterion in contract.properties.items()},
            "expires_at": contract.expires_at_ms and iso_time(contract.expires_at_ms),
            "expires_at_ms": contract.expires_at_ms,
            "policy": contract.policy,
            "attempts": contract.attempts,
            "ordered": contract.ordered,
            "timeout": contract.timeout_s,
            "concurrency": contract.concurrency,
            "rate": contract.rate,
            "headers": list(contract.headers),
            "format": contract.format,
            "template": contract.template,
            "retry_on": list(contract.retry_on),
            **({"registered_by": contract.registered_by} if contract.registered_by is not None else {}),
            **({"retired": True} if contract.retired else {}),
        },
        ensure_ascii=False,
    )


def to_contract_change(row: Stored) -> ContractChange:
    """A row of `contract_changed`."""
    *stored, is_there, queue = row
    return ContractChange(stored[0], to_contract(stored) if is_there else None, queue)


def to_private(secrets: Sequence[Stored], headers: Sequence[Stored]) -> ContractSecrets:
    """The rows of `secret_all` and `header_all`."""
    ends = [until for _, until in secrets if until is not None]
    shown = {str(name): str(value) for name, value in headers}
    return ContractSecrets(tuple(secret for secret, _ in secrets), shown, min(ends, default=None))


def to_contract(row: Stored) -> Contract:
    """A row of `contract_get`. One that this version cannot read gets a `fault`, and does not affect the others."""
    id, text, active, source, created_at = row
    try:
        return _contract(row, json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, BadInput) as error:
        why = f"its stored form cannot be read by this version ({type(error).__name__}: {error})"
        return Contract(
            id, UNREADABLE, source=source, active=bool(active), created_at_ms=created_at, fault=clean_error(why)
        )


def _contract(row: Stored, stored: dict[str, Any]) -> Contract:
    id, _, active, source, created_at = row
    target = stored["target"]
    key = next(kind.key for kind in KINDS.values() if target.get(kind.key) is not None)
    return Contract(
        id=id,
        address=address_of_target(key, target[key]),
        source_criterion=_criterion(stored.get("source_criterion")),
        type_criterion=_criterion(stored.get("type_criterion")),
        properties={name: _to_criterion(value) for name, value in stored.get("properties", {}).items()},
        source=source,
        active=bool(active),
        created_at_ms=created_at,
        expires_at_ms=stored.get("expires_at_ms"),
        policy=stored.get("policy"),
        attempts=stored.get("attempts"),
        ordered=stored.get("ordered"),
        timeout_s=stored.get("timeout"),
        concurrency=stored.get("concurrency"),
        rate=stored.get("rate"),
        headers=tuple(stored.get("headers", ())),
        format=stored.get("format"),
        template=stored.get("template"),
        retry_on=tuple(stored.get("retry_on", ())),
        registered_by=stored.get("registered_by"),
        retired=bool(stored.get("retired")),
    )


def retirable(
    known: Iterable[Contract],
    modules: Collection[str],
    present: Sequence[Contract],
    served_at: Mapping[str, int],
    now_ms: int | None,
) -> list[Contract]:
    """The contracts that these modules registered before and no longer do, marked as retired.

    With `now_ms`, without those that another process may still serve: last served within `SERVED_MS`.
    """
    ids = {contract.id for contract in present}
    return [
        replace(contract, active=False, retired=True)
        for contract in known
        if contract.source == "programmatic" and contract.registered_by in modules
        and contract.id not in ids and not contract.retired and contract.fault is None
        and (now_ms is None or now_ms - served_at.get(contract.id, 0) > SERVED_MS)
    ]  # fmt: skip


def to_session(row: Stored) -> Session:
    """A row of `session_get`."""
    id, agent, native_id, state, cwd, pane, transcript, title, prompt, answer, facts, created_at, updated_at = row
    return Session(
        id, agent, native_id, SessionState(state), cwd, pane, transcript, title, prompt, answer, json.loads(facts),
        created_at, updated_at,
    )  # fmt: skip


def session_values(change: SessionChange) -> tuple[Any, ...]:
    """The values of `session_change`, in its order, without the time."""
    return (
        change.id, change.agent, change.native_id, change.state, change.cwd, change.pane, change.transcript,
        change.title, change.last_prompt, change.last_answer, json.dumps(dict(change.facts), ensure_ascii=False),
    )  # fmt: skip


def session_start(after: str | None) -> tuple[int, str]:
    """The start of a page of sessions: before this time and id."""
    if after is None:
        return 1 << 62, ""
    time, _, id = after.partition(".")
    return int(time), id


def session_cursor(found: Sequence[Session], limit: int) -> str | None:
    return f"{found[-1].updated_at_ms}.{found[-1].id}" if len(found) == limit else None


def _criterion(value: Mapping[str, Any] | None) -> Criterion | None:
    return None if value is None else _to_criterion(value)


def _to_criterion(value: Mapping[str, Any]) -> Criterion:
    match = value.get("match")
    return Criterion(tuple(match) if isinstance(match, list) else match, value.get("pattern"), value["required"])


def _detail(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:  # cut at DETAIL_MAX
        return {"text": text}
    return value if isinstance(value, dict) else {"value": value}
