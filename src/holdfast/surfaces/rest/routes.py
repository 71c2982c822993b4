"""The routes: each one calls one verb and returns what it answers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from holdfast.domain.errors import BadInput
from holdfast.domain.text import short_repr
from holdfast.ingress.accept import reject_unknown_keys
from holdfast.operations.answers.encode import encode
from holdfast.operations.verbs import Operations
from holdfast.surfaces.rest.body import read_json
from holdfast.surfaces.rest.gate import require
from holdfast.surfaces.rest.schemas import CHOICE, CONTRACT, EVENT_IDS, HOLD, ROTATION, TRIAL, body, problems

router = APIRouter(responses=problems())

Text = Annotated[str | None, Query(max_length=2048)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Id = Annotated[int, Path(ge=0, le=2**62)]
Reads = [Depends(require("read"))]
Operator = Annotated[str, Depends(require("operate"))]
Admin = Annotated[str, Depends(require("admin"))]


def verbs(request: Request) -> Operations:
    operations = request.app.state.operations
    assert isinstance(operations, Operations)
    return operations


Verbs = Annotated[Operations, Depends(verbs)]


@router.get("/api/events", dependencies=Reads, tags=["events"])
async def list_events(
    ops: Verbs, source: Text = None, type: Text = None, stream: Text = None, unmatched: bool = False,
    after: Text = None, limit: Limit = 50,
) -> Any:  # fmt: skip
    """Events, newest first."""
    return encode(
        await ops.events.find(source=source, type=type, stream=stream, unmatched=unmatched, after=after, limit=limit)
    )


@router.get("/api/events/{id}", dependencies=Reads, tags=["events"])
async def show_event(ops: Verbs, id: str) -> Any:
    """One event and what became of it at every address."""
    return encode(await ops.events.show(id))


@router.get("/api/events/{id}/explain", dependencies=Reads, tags=["events"])
async def explain_event(ops: Verbs, id: str, limit: Limit = 20) -> Any:
    """Why an event went where it went, and what every contract that missed it wanted instead."""
    return encode(await ops.events.explain(id, limit))


@router.post("/api/events/route", tags=["events"], openapi_extra=body(EVENT_IDS))
async def route_events(ops: Verbs, actor: Operator, request: Request) -> Any:
    """Offer events that matched nothing to the contracts there are now."""
    given = _object(await read_json(request), ("ids",))
    return encode(await ops.events.route(_list(given.get("ids"), str)))


@router.get("/api/streams", dependencies=Reads, tags=["streams"])
async def list_streams(ops: Verbs, after: Text = None, limit: Limit = 50) -> Any:
    """Streams by name."""
    return encode(await ops.streams.find(after=after, limit=limit))


@router.get("/api/streams/{id:path}/events", dependencies=Reads, tags=["streams"])
async def stream_events(
    ops: Verbs, id: str, after: Annotated[int, Query(ge=0, le=2**62)] = 0, limit: Limit = 50
) -> Any:
    """A stream's events in `seq` order."""
    return encode(await ops.streams.events(id, after=after, limit=limit))


@router.get("/api/streams/{id:path}", dependencies=Reads, tags=["streams"])
async def show_stream(ops: Verbs, id: str) -> Any:
    """One stream. Its name may hold slashes."""
    return encode(await ops.streams.show(id))


@router.get("/api/deliveries", dependencies=Reads, tags=["deliveries"])
async def list_deliveries(
    ops: Verbs, state: Text = None, reason: Text = None, contract: Text = None, address: Text = None,
    stream: Text = None, event: Text = None, after: Text = None, limit: Limit = 50,
) -> Any:  # fmt: skip
    """Deliveries, newest first."""
    return encode(await ops.deliveries.find(
        state=state, reason=reason, contract=contract, address=address, stream=stream, event=event,
        after=after, limit=limit,
    ))  # fmt: skip


@router.get("/api/deliveries/{id}", dependencies=Reads, tags=["deliveries"])
async def show_delivery(ops: Verbs, id: Id) -> Any:
    """One delivery with the history of its attempts."""
    return encode(await ops.deliveries.show(id))


@router.post("/api/deliveries/{id}/retry", tags=["deliveries"])
async def retry_delivery(ops: Verbs, actor: Operator, id: Id) -> Any:
    """Make a waiting delivery due now, or begin a new life of an ended one."""
    return encode(await ops.deliveries.retry(id, actor))


@router.post("/api/deliveries/{id}/cancel", tags=["deliveries"])
async def cancel_delivery(ops: Verbs, actor: Operator, id: Id) -> Any:
    """End a pending delivery as dropped(cancelled)."""
    return encode(await ops.deliveries.cancel(id, actor))


@router.get("/api/dlq/count", dependencies=Reads, tags=["dead letters"])
async def count_dead(
    ops: Verbs, reason: Text = None, contract: Text = None, address: Text = None, stream: Text = None,
    event: Text = None,
) -> Any:  # fmt: skip
    """How many dead letters there are, in all and by queue."""
    return encode(
        await ops.dead_letters.count(reason=reason, contract=contract, address=address, stream=stream, event=event)
    )


@router.get("/api/dlq", dependencies=Reads, tags=["dead letters"])
async def inspect_dead(
    ops: Verbs, reason: Text = None, contract: Text = None, address: Text = None, stream: Text = None,
    event: Text = None, after: Text = None, limit: Limit = 50,
) -> Any:  # fmt: skip
    """Dead letters with payload and history, newest first."""
    return encode(
        await ops.dead_letters.inspect(
            reason=reason, contract=contract, address=address, stream=stream, event=event, after=after, limit=limit
        )
    )


@router.post("/api/dlq/reprocess", tags=["dead letters"], openapi_extra=body(CHOICE))
async def reprocess_dead(ops: Verbs, actor: Operator, request: Request) -> Any:
    """Requeue dead letters, by ids, by filter, or all.

    One call takes at most 1,000; `remaining` says how many more there are. An empty filter needs `all: true`.
    """
    return encode(await ops.dead_letters.reprocess(**_choice(await read_json(request)), actor=actor))


@router.post("/api/dlq/discard", tags=["dead letters"], openapi_extra=body(CHOICE))
async def discard_dead(ops: Verbs, actor: Operator, request: Request) -> Any:
    """Discard dead letters, by ids, by filter, or all.

    One call takes at most 1,000; `remaining` says how many more there are. An empty filter needs `all: true`.
    """
    return encode(await ops.dead_letters.discard(**_choice(await read_json(request)), actor=actor))


@router.get("/hooks/contracts", dependencies=Reads, tags=["contracts"])
async def list_contracts(
    ops: Verbs, request: Request, response: Response, property: Text = None, value: Text = None, source: Text = None,
    inactive: bool = False, after: Text = None, limit: Limit = 1000,
) -> Any:  # fmt: skip
    """Active contracts by id, and with `inactive` those that are disabled or expired too.

    A plain list; where there are more, the header `Link` with `rel="next"` says where they are.
    """
    found = await ops.contracts.find(
        property=property, value=value, source=source, inactive=inactive, after=after, limit=limit
    )
    _link(request, response, found.next)
    return encode(found)


@router.post("/hooks/contracts", status_code=201, tags=["contracts"], openapi_extra=body(CONTRACT))
async def add_contract(ops: Verbs, actor: Admin, request: Request) -> Any:
    """Create a contract, or replace the one of that id."""
    return encode(await ops.contracts.add(await read_json(request)))


@router.post("/hooks/contracts/test", tags=["contracts"], openapi_extra=body(TRIAL))
async def try_contract(ops: Verbs, actor: Operator, request: Request, limit: Limit = 100) -> Any:
    """Which past events a contract would have matched; nothing is created. It needs no id and no target."""
    return encode(await ops.contracts.test(await read_json(request), limit))


@router.get("/hooks/contracts/{id}", dependencies=Reads, tags=["contracts"])
async def show_contract(ops: Verbs, id: str) -> Any:
    """One contract."""
    return encode(await ops.contracts.show(id))


@router.post("/hooks/contracts/{id}/enable", tags=["contracts"])
async def enable_contract(ops: Verbs, actor: Operator, id: str) -> Any:
    """Enable a contract; what was parked goes on."""
    return encode(await ops.contracts.enable(id, True))


@router.post("/hooks/contracts/{id}/disable", tags=["contracts"])
async def disable_contract(ops: Verbs, actor: Operator, id: str) -> Any:
    """Disable a contract; what waits for it is parked until it is enabled or removed."""
    return encode(await ops.contracts.enable(id, False))


@router.post("/hooks/contracts/{id}/rotate", tags=["contracts"], openapi_extra=body(ROTATION))
async def rotate_secret(ops: Verbs, actor: Admin, id: str, request: Request) -> Any:
    """Sign with a new secret; the old one signs beside it for a while."""
    return encode(await ops.contracts.rotate(id, await read_json(request)))


@router.delete("/hooks/contracts/{id}", tags=["contracts"])
async def remove_contract(ops: Verbs, actor: Admin, id: str) -> Any:
    """Remove a contract; what it still had waiting is dropped(contract_removed)."""
    return encode(await ops.contracts.remove(id))


@router.get("/hooks/properties", dependencies=Reads, tags=["contracts"])
async def contract_properties(
    ops: Verbs, request: Request, response: Response, after: Text = None, limit: Limit = 1000
) -> Any:
    """Property names and values that active contracts ask for; where there are more, `Link` says so."""
    found = await ops.contracts.properties(after=after, limit=limit)
    _link(request, response, found.next)
    return encode(found)


@router.get("/api/sessions", dependencies=Reads, tags=["sessions"])
async def list_sessions(
    ops: Verbs, agent: Text = None, state: Text = None, native_id: Text = None, cwd: Text = None,
    after: Text = None, limit: Limit = 50,
) -> Any:  # fmt: skip
    """Sessions of agents, the one that changed last first."""
    return encode(
        await ops.sessions.find(agent=agent, state=state, native_id=native_id, cwd=cwd, after=after, limit=limit)
    )


@router.get("/api/sessions/{id}", dependencies=Reads, tags=["sessions"])
async def show_session(ops: Verbs, id: str) -> Any:
    """One session, by our id or by the agent's own."""
    return encode(await ops.sessions.show(id))


@router.post("/api/sessions/{id}/close", tags=["sessions"])
async def close_session(ops: Verbs, actor: Operator, id: str) -> Any:
    """Close a session: it is over, whatever its agent does."""
    return encode(await ops.sessions.close(id))


@router.get("/api/receipts", dependencies=Reads, tags=["receipts"])
async def list_receipts(ops: Verbs, chain: Text = None, after: Text = None, limit: Limit = 50) -> Any:
    """Receipts in order, chain by chain."""
    return encode(await ops.receipts.find(chain=chain, after=after, limit=limit))


@router.get("/api/receipts/verify", dependencies=Reads, tags=["receipts"])
async def verify_receipts(ops: Verbs) -> Any:
    """Whether every chain is whole; every fault is listed."""
    return encode(await ops.receipts.verify())


@router.get("/api/status", dependencies=Reads, tags=["care"])
async def status(ops: Verbs) -> Any:
    """What is true right now."""
    return encode(await ops.status.show())


@router.post("/api/pause", tags=["care"], openapi_extra=body(HOLD))
async def pause(ops: Verbs, actor: Operator, request: Request) -> Any:
    """Hold a contract, an address or a lane."""
    return encode(await ops.maintenance.pause(*_hold(await read_json(request))))


@router.post("/api/resume", tags=["care"], openapi_extra=body(HOLD))
async def resume(ops: Verbs, actor: Operator, request: Request) -> Any:
    """Let a contract, an address or a lane go on."""
    return encode(await ops.maintenance.resume(*_hold(await read_json(request))))


@router.post("/api/prune", tags=["care"])
async def prune(ops: Verbs, actor: Admin) -> Any:
    """Remove now what is past its retention."""
    return encode(await ops.maintenance.prune())


def _link(request: Request, response: Response, next: str | None) -> None:
    """Where the next page is, for answers whose shape has no room to say so (RFC 8288)."""
    if next is not None:
        url = request.url.include_query_params(after=next)
        response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'


def _object(value: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"the body must be a JSON object, not {short_repr(value)}")
    reject_unknown_keys(value, known, "the body")
    return value


def _list(value: Any, kind: type) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(item, kind) and not isinstance(item, bool) for item in value):
        raise BadInput(f"ids must be a list of {'numbers' if kind is int else 'texts'}, not {short_repr(value)}")
    return value


def _choice(value: Any) -> dict[str, Any]:
    given = _object(value, ("ids", "filter", "all", "dry_run"))
    chosen = given.get("filter")
    flags = {name: given.get(name) or False for name in ("all", "dry_run")}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise BadInput(f"{name} must be true or false, not {short_repr(flag)}")
    if chosen is not None and not isinstance(chosen, dict):
        raise BadInput(f"filter must be an object, not {short_repr(chosen)}")
    ids = None if given.get("ids") is None else [_id(item) for item in _list(given["ids"], object)]
    return {"ids": ids, "filter": chosen, **flags}


def _id(value: Any) -> int:
    """Ids are numbers; a client that only has text may send the digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise BadInput(f"ids must list delivery ids, not {short_repr(value)}")
    return value


def _hold(value: Any) -> tuple[str, str]:
    given = _object(value, ("scope", "name"))
    return given.get("scope") or "", given.get("name") or ""
