"""The JSON shapes every surface shows: one place, so that REST, the command line and Python answer alike."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.domain.address import without_tokens
from holdfast.domain.contract import Contract
from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event, iso_time
from holdfast.domain.receipt import Link
from holdfast.domain.session import Session
from holdfast.domain.text import short_repr
from holdfast.store.roles.events import StreamRow
from holdfast.store.roles.operator import AttemptRow, DeliveryRow
from holdfast.store.roles.page import PAGE_BYTES_MAX, PAGE_MAX
from holdfast.store.roles.tokens import TokenRow

LIMIT_DEFAULT = 50
MASKED = "***"


def check_limit(limit: int) -> int:
    if not 1 <= limit <= PAGE_MAX:
        raise BadInput(f"limit must be between 1 and {PAGE_MAX}, not {limit}")
    return limit


def check_cursor(after: str | None) -> str | None:
    """The cursor of a page that is ordered by number, as an earlier page handed it out."""
    if after is not None and not (after.isascii() and after.isdigit() and len(after) < 19):
        raise BadInput(f"after={short_repr(after)} is not a cursor: pass what `next` said on the page before")
    return after


class Listing(list[dict[str, Any]]):
    """A plain list, as the seed answers it, that knows where the next page begins."""

    next: str | None = None


class Index(dict[str, list[str]]):
    """Names with their values, as the seed answers them, that know where the next page begins."""

    next: str | None = None


def weigh(shape: object) -> int:
    """The bytes it takes in an answer."""
    return len(json.dumps(shape, ensure_ascii=False).encode("utf-8", "replace"))


def fitting(shapes: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first of them, up to the one that makes the page heavy enough."""
    fit, size = [], 0
    for shape in shapes:
        fit.append(shape)
        size += weigh(shape)
        if size >= PAGE_BYTES_MAX:
            break
    return fit


def when(ms: int | None) -> str | None:
    return None if ms is None else iso_time(ms)


def event_shape(event: Event, deliveries: list[DeliveryRow] | None = None) -> dict[str, Any]:
    shape = event.as_dict()
    if event.to is not None:
        shape["to"] = without_tokens(event.to)
    if deliveries is not None:
        shape["deliveries"] = [delivery_shape(row) for row in deliveries]
    return shape


def delivery_shape(row: DeliveryRow, attempts: list[AttemptRow] | None = None) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "id": row.id,
        "event_id": row.event_id,
        "event_type": row.event_type,
        "stream": row.stream,
        "seq": row.seq,
        "address": without_tokens(row.address),
        "contract_id": row.contract_id,
        "state": row.state,
        "reason": row.reason,
        "attempts": row.attempts,
        "generation": row.generation,
        "due_at": when(row.due_at_ms),
        "in_flight": row.leased,
        "waits_for": row.waits_for,
        "survivor": row.survivor,
        "created_at": when(row.created_at_ms),
        "settled_at": when(row.settled_at_ms),
        "last_error": row.last_error,
    }
    if attempts is not None:
        shape["history"] = [attempt_shape(attempt) for attempt in attempts]
    return shape


def with_fault(row: DeliveryRow, faults: Mapping[str, str]) -> DeliveryRow:
    """A delivery of a misconfigured contract waits for that to be repaired, whatever else it waits for."""
    fault = faults.get(row.contract_id) if row.contract_id is not None and row.state == "pending" else None
    return row if fault is None else row._replace(waits_for=f"its contract is misconfigured: {fault}")


def attempt_shape(row: AttemptRow) -> dict[str, Any]:
    return {
        "generation": row.generation,
        "attempt": row.attempt,
        "started_at": when(row.started_at_ms),
        "ended_at": when(row.ended_at_ms),
        "outcome": row.outcome,
        "error": row.error,
        "detail": row.detail,
    }


def stream_shape(row: StreamRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "head": row.head,
        "created_at": when(row.created_at_ms),
        "closed_at": when(row.closed_at_ms),
    }


def session_shape(session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "stream": session.stream,
        "agent": session.agent,
        "native_id": session.native_id,
        "state": session.state,
        "cwd": session.cwd,
        "pane": session.pane or None,
        "transcript": session.transcript,
        "title": session.title,
        "last_prompt": session.last_prompt,
        "last_answer": session.last_answer,
        "created_at": when(session.created_at_ms),
        "updated_at": when(session.updated_at_ms),
    }


def contract_shape(contract: Contract, has_secret: bool) -> dict[str, Any]:
    """The contract with its options. The secret is always null, headers show their names alone, the URL is masked."""
    address = contract.address
    return {
        "id": contract.id,
        "target": {
            "handler": address.name if address.kind == "handler" else None,
            "url": without_tokens(address.text) if address.kind == "https" else None,
            "session": address.name if address.kind == "session" else None,
            "secret": None,
            "has_secret": has_secret,
        },
        "source_criterion": contract.source_criterion and contract.source_criterion.as_dict(),
        "type_criterion": contract.type_criterion and contract.type_criterion.as_dict(),
        "properties": {name: criterion.as_dict() for name, criterion in contract.properties.items()},
        "active": contract.active,
        "source": contract.source,
        "created_at": when(contract.created_at_ms),
        "expires_at": when(contract.expires_at_ms),
        "policy": contract.policy_name,
        "attempts": contract.attempts,
        "ordered": contract.is_ordered,
        "timeout": contract.timeout_s,
        "concurrency": contract.concurrency,
        "rate": contract.rate,
        "headers": dict.fromkeys(contract.headers, MASKED),
        "format": contract.format or ("raw" if address.kind == "https" else None),
        "template": contract.template,
        "retry_on": list(contract.retry_on),
    }


def link_shape(link: Link) -> dict[str, Any]:
    return {
        "chain": link.chain,
        "seq": link.seq,
        "at": when(link.at_ms),
        "h_prev": link.prev.hex(),
        "h_self": link.hash.hex(),
        "root": link.root.hex(),
        "transitions": link.count,
    }


def token_shape(row: TokenRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "scope": row.scope,
        "created_at": when(row.created_at_ms),
        "revoked_at": when(row.revoked_at_ms),
    }
