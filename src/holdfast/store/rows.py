"""Convert stored rows to values, and back where the stored form is text: the same for every store."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from holdfast.domain.address import KINDS, Address, address_of_target
from holdfast.domain.canonical import dump_json
from holdfast.domain.chain_check import ChainFault
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.delivery import Claim, Delivery, clean_error
from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event, iso_time
from holdfast.domain.event_search import has_words
from holdfast.domain.json_value import JsonObject
from holdfast.domain.senders import parse_senders
from holdfast.domain.session import Session, SessionChange, SessionState
from holdfast.domain.states import State
from holdfast.domain.substrate_receipt import SubstrateReceipt
from holdfast.store.roles.archives import EventRange
from holdfast.store.roles.contracts import ContractChange, ContractSecrets, QueueRow
from holdfast.store.roles.deliveries import SERVED_MS
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.operator import AttemptRow, DeadGroup, DeliveryFilter, DeliveryRow
from holdfast.store.roles.receipts import CheckedChain
from holdfast.store.roles.sessions import SessionFilter

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


def has_index(wanted: DeliveryFilter) -> bool:
    """Whether the deliveries that match a filter are found by an index, however old they are."""
    return wanted.state == State.DEAD or wanted.event is not None


def by_queue(groups: Iterable[DeadGroup]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for group in groups:
        counts[group.queue] = counts.get(group.queue, 0) + group.letters
    return counts


def nested(rows: Iterable[Stored]) -> dict[str, dict[str, int]]:
    """Rows of two names and a number as numbers by name by name."""
    found: dict[str, dict[str, int]] = {}
    for outer, inner, number in rows:
        found.setdefault(outer, {})[inner] = number
    return found


def to_attempt_row(row: Stored) -> AttemptRow:
    """A row of `attempts_of`."""
    *facts, detail = row
    return AttemptRow._make((*facts, _detail(detail)))


def detail_text(detail: Mapping[str, object] | None) -> str | None:
    return None if detail is None else _encode_detail(detail)[:DETAIL_MAX]


def to_queue_row(row: Stored) -> QueueRow:
    """A row of `queue_all`."""
    id, contract, address, kind, paused, parked, served_at = row
    return QueueRow(id, contract or None, address, kind, bool(paused), bool(parked), served_at)


def pages_by_seq(wanted: EventFilter) -> bool:
    """Whether pages of events are ordered by `seq` in one stream, or by `n` over all events."""
    return wanted.stream is not None and not wanted.unmatched


def is_wanted(wanted: EventFilter, row: Stored, properties: int) -> bool:
    """Whether a row of `event_page` and similar statements matches the filter. `properties`: where that column is."""
    return (
        (wanted.source is None or row[4] == wanted.source)
        and (wanted.type is None or row[5] == wanted.type)
        and (wanted.stream is None or (row[2] or row[1]) == wanted.stream)
        and (not wanted.words or has_words(wanted.words, (row[1], row[2], row[4], row[5]), row[properties]))
    )


def event_bytes(row: Stored) -> int:
    """The bytes of the large columns of an event's row: properties and payload."""
    return sum(len(text) if text.isascii() else len(text.encode("utf-8", "replace")) for text in (row[8], row[9]))


def checked_values(record: CheckedChain) -> tuple[str, int, int, int, str | None]:
    """The values of `checked_put`."""
    fault = None if record.fault is None else json.dumps(record.fault, ensure_ascii=False)
    return record.chain, record.checked_at_ms, record.checked_to, record.faults, fault


def to_checked_chain(row: Stored) -> CheckedChain:
    """A row of `checked_all`."""
    *facts, fault = row
    return CheckedChain._make((*facts, None if fault is None else ChainFault(*json.loads(fault))))


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
            **({"session": contract.session} if contract.session is not None else {}),
            **({"senders": contract.senders.as_json()} if contract.senders is not None else {}),
            **({"registered_by": contract.registered_by} if contract.registered_by is not None else {}),
            **({"retired": True} if contract.retired else {}),
        },
        ensure_ascii=False,
    )


def to_contract_change(row: Stored) -> ContractChange:
    """A row of `contract_changed`."""
    *stored, is_there, queue = row
    return ContractChange(stored[0], to_contract(stored) if is_there else None, queue)


def contract_digest(contract: Contract) -> str:
    """A digest of a contract's stored form, for receipts."""
    return sha256(contract_text(contract).encode()).hexdigest()


def is_same(stored: Contract, given: Contract) -> bool:
    """Whether a contract that code registers is stored already."""
    return not stored.retired and contract_text(stored) == contract_text(given)


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
        session=stored.get("session"),
        senders=None if stored.get("senders") is None else parse_senders(stored["senders"], may_be_all=True),
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
    values = list(row)
    values[3], values[12] = SessionState(values[3]), json.loads(values[12])
    return Session(*values)


def session_values(change: SessionChange, now_ms: int) -> tuple[object, ...]:
    """The values of `session_change`, in its order."""
    return (
        change.id, change.agent, change.native_id, change.state, change.cwd, change.pane, change.transcript,
        change.title, change.last_prompt, change.last_answer, change.name, change.host,
        json.dumps(dict(change.facts), ensure_ascii=False), binding_text(change),
        *(change.rebuilt or (now_ms, now_ms)),
    )  # fmt: skip


def binding_text(change: SessionChange) -> str | None:
    """The changed bindings as JSON: origin, channel, and whether the chat is bound from now on."""
    changed = {**dict.fromkeys(change.unbind, False), **dict.fromkeys(change.bind, True)}
    rows = [{"origin": origin, "channel": channel, "bound": bound} for (origin, channel), bound in changed.items()]
    return json.dumps(rows, ensure_ascii=False) if rows else None


def is_state_only(wanted: SessionFilter) -> bool:
    """Whether sessions are wanted by their state alone, for which there is an index."""
    return wanted.state is not None and wanted == SessionFilter(state=wanted.state)


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


def _detail(text: str | None) -> JsonObject | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:  # cut at DETAIL_MAX
        return {"text": text}
    return value if isinstance(value, dict) else {"value": value}


def substrate_values(receipt: SubstrateReceipt) -> tuple[str | None, ...]:
    """The columns of a receipt of another system, without its place and id."""
    return (
        *receipt.source,
        receipt.tenant_id,
        receipt.actor_id,
        receipt.actor_kind,
        receipt.input_hash,
        receipt.output_hash,
        dump_json(receipt.references).decode(),
    )


def front_only(
    rows: Sequence[tuple[int, str | None, int]], firsts: Mapping[str, int]
) -> list[tuple[int, str | None, int]]:
    """The rows (n, stream, seq), in order, that can go without leaving a gap in their stream.

    `firsts`: the first event of each stream. An event without a stream can always go.

    >>> front_only([(1, "a", 1), (2, None, 1), (3, "a", 3), (4, "b", 2)], {"a": 1, "b": 2})
    [(1, 'a', 1), (2, None, 1), (4, 'b', 2)]
    """
    following, kept = dict(firsts), []
    for row in rows:
        _, stream, seq = row
        if stream is not None:
            if following.get(stream) != seq:
                continue
            following[stream] = seq + 1
        kept.append(row)
    return kept


def event_ranges(rows: Sequence[tuple[int, str | None, int]]) -> list[EventRange]:
    """The ranges of rows that follow one another in their streams.

    >>> event_ranges([(1, "a", 1), (2, "b", 7), (3, "a", 2)])
    [EventRange(stream='a', first_seq=1, last_seq=2), EventRange(stream='b', first_seq=7, last_seq=7)]
    """
    ranges: dict[str, EventRange] = {}
    for _, stream, seq in rows:
        if stream is not None:
            ranges[stream] = EventRange(stream, ranges[stream].first_seq if stream in ranges else seq, seq)
    return list(ranges.values())


def replay_details(stream: str, first_seq: int, last_seq: int, target: str) -> JsonObject:
    """What the receipt of a replay records."""
    return {"stream": stream, "first_seq": first_seq, "last_seq": last_seq, "target": target}
