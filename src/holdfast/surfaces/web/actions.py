"""What buttons do: each a POST that calls one operator verb and leads back to a page."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict
from urllib.parse import quote

from holdfast.domain.errors import BadInput
from holdfast.operations.answers.dead_letters import DiscardedDeadLetters, ReprocessedDeadLetters
from holdfast.operations.answers.ping import PingedContract
from holdfast.surfaces.web.page import Go, Visit

Fields = Mapping[str, list[str]]
REPEAT_S = 10.0
VERIFY_S = 3.0


@dataclass(frozen=True, slots=True)
class Action:
    """`needs`: the scope. `run` returns the page to go to."""

    path: str
    needs: str
    run: Callable[[Visit, Fields], Awaitable[Go]]


async def retry(visit: Visit, fields: Fields) -> Go:
    shown = await visit.operations.deliveries.retry(_number(visit.path["id"]), actor=visit.actor)
    return Go(f"/events/{shown.event_id}", "retried")


async def cancel(visit: Visit, fields: Fields) -> Go:
    shown = await visit.operations.deliveries.cancel(_number(visit.path["id"]), actor=visit.actor)
    return Go(f"/events/{shown.event_id}", "cancelled")


async def reprocess(visit: Visit, fields: Fields) -> Go:
    letters = visit.operations.dead_letters

    async def some() -> tuple[int, int]:
        done: ReprocessedDeadLetters = await letters.reprocess(**_selection(fields), actor=visit.actor)
        return done.reprocessed, done.remaining

    return Go("/dead-letters", "requeued", *await _repeat(some))


async def discard(visit: Visit, fields: Fields) -> Go:
    letters = visit.operations.dead_letters

    async def some() -> tuple[int, int]:
        done: DiscardedDeadLetters = await letters.discard(**_selection(fields), actor=visit.actor)
        return done.discarded, done.remaining

    return Go("/dead-letters", "discarded", *await _repeat(some))


async def route(visit: Visit, fields: Fields) -> Go:
    await visit.operations.events.route([visit.path["id"]], actor=visit.actor)
    return Go(f"/events/{visit.path['id']}", "routed")


async def enable(visit: Visit, fields: Fields) -> Go:
    await visit.operations.contracts.enable(visit.path["id"], True, actor=visit.actor)
    return Go(_contract(visit), "enabled")


async def disable(visit: Visit, fields: Fields) -> Go:
    await visit.operations.contracts.enable(visit.path["id"], False, actor=visit.actor)
    return Go(_contract(visit), "disabled")


async def pause(visit: Visit, fields: Fields) -> Go:
    await call(visit, visit.operations.maintenance.pause, scope="contract", name=visit.path["id"])
    return Go(_contract(visit), "paused")


async def resume(visit: Visit, fields: Fields) -> Go:
    await call(visit, visit.operations.maintenance.resume, scope="contract", name=visit.path["id"])
    return Go(_contract(visit), "resumed")


async def resume_any(visit: Visit, fields: Fields) -> Go:
    scope, name = visit.path["scope"], visit.path["name"]
    await call(visit, visit.operations.maintenance.resume, scope=scope, name=name)
    return Go("/", "resumed")


async def ping(visit: Visit, fields: Fields) -> Go:
    pinged: PingedContract = await visit.operations.contracts.ping(visit.path["id"], actor=visit.actor)
    return Go(f"/events/{pinged.event_id}", "pinged" if pinged.delivered else "ping-failed")


async def remove(visit: Visit, fields: Fields) -> Go:
    await visit.operations.contracts.remove(visit.path["id"], actor=visit.actor)
    return Go("/contracts", "removed")


async def rotate(visit: Visit, fields: Fields) -> Go:
    body = {"secret": one(fields, "secret")}
    await visit.operations.contracts.rotate(visit.path["id"], body, actor=visit.actor)
    return Go(_contract(visit), "rotated")


async def replay(visit: Visit, fields: Fields) -> Go:
    """Send a range of a stream again. It is sent in parts; what time does not allow is left for the next press."""
    kind, _, name = one(fields, "to").partition(":")
    if kind not in ("sink", "contract") or not name:
        raise BadInput("choose a sink or a contract to which the events are sent")
    id, first = visit.path["id"], _place(fields, "first") or 1
    last, sent, ends = _place(fields, "last"), 0, time.monotonic() + REPEAT_S
    start: int | None = first
    while start is not None and time.monotonic() < ends:
        done = await visit.operations.replays.run(
            id, first=start, last=last, sink=name if kind == "sink" else None,
            contract=name if kind == "contract" else None, actor=visit.actor,
        )  # fmt: skip
        sent, start = sent + done.replayed, done.next
    return Go(f"/streams/{quote(id, safe='')}", "replayed", sent, start or 0)


async def verify(visit: Visit, fields: Fields) -> Go:
    """Check all receipts. A check that takes longer goes on, and the page shows its result when it has ended."""
    task = visit.running.get("verify")
    if task is None or task.done():
        task = asyncio.create_task(visit.operations.receipts.verify())
        visit.running["verify"] = task
    done, _ = await asyncio.wait([task], timeout=VERIFY_S)
    if not done:
        return Go("/", "verifying")
    found = task.result()
    return Go("/", "verified" if found.ok else "faulty", found.links)  # type: ignore[attr-defined]


async def send(visit: Visit, fields: Fields) -> Go:
    body = {"session": visit.path["id"], "content": one(fields, "text"), "origin": "page"}
    await call(visit, visit.operations.messages.send, body=body)
    return Go(f"/sessions/{quote(visit.path['id'], safe='')}", "sent")


async def close(visit: Visit, fields: Fields) -> Go:
    await call(visit, visit.operations.sessions.close, id=visit.path["id"])
    return Go(f"/sessions/{quote(visit.path['id'], safe='')}", "closed")


ACTIONS: tuple[Action, ...] = (
    Action("/deliveries/{id}/retry", "operate", retry),
    Action("/deliveries/{id}/cancel", "operate", cancel),
    Action("/dead-letters/reprocess", "operate", reprocess),
    Action("/dead-letters/discard", "operate", discard),
    Action("/events/{id}/route", "operate", route),
    Action("/contracts/{id}/enable", "operate", enable),
    Action("/contracts/{id}/disable", "operate", disable),
    Action("/contracts/{id}/pause", "operate", pause),
    Action("/contracts/{id}/resume", "operate", resume),
    Action("/contracts/{id}/ping", "operate", ping),
    Action("/contracts/{id}/rotate", "admin", rotate),
    Action("/contracts/{id}/remove", "admin", remove),
    Action("/resume/{scope}/{name:path}", "operate", resume_any),
    Action("/receipts/verify", "operate", verify),
    Action("/sessions/{id}/send", "message", send),
    Action("/sessions/{id}/close", "operate", close),
    Action("/streams/{id:path}/replay", "operate", replay),
)


async def call(visit: Visit, verb: Callable[..., Awaitable[object]], **arguments: object) -> object:
    """Call a verb, with the actor if it records one."""
    if "actor" in inspect.signature(verb).parameters:
        arguments["actor"] = visit.actor
    return await verb(**arguments)


def one(fields: Fields, name: str) -> str:
    """The value of a form's field, empty if it is missing."""
    return (fields.get(name) or [""])[0].strip()


async def _repeat(some: Callable[[], Awaitable[tuple[int, int]]]) -> tuple[int, int]:
    """Call a verb that takes a limited number at a time until nothing is left, or the time is over."""
    total, left, ends = 0, 1, time.monotonic() + REPEAT_S
    while left and time.monotonic() < ends:
        number, left = await some()
        total += number
    return total, left


def _contract(visit: Visit) -> str:
    return f"/contracts/{quote(visit.path['id'], safe='')}"


class _Selection(TypedDict, total=False):
    ids: list[int]
    filter: dict[str, str]
    all: bool


def _selection(fields: Fields) -> _Selection:
    """The dead letters that a form names: all that match its filter, or those that are ticked."""
    chosen = {name: one(fields, name) for name in ("reason", "contract", "address", "stream") if one(fields, name)}
    if one(fields, "every") and chosen:
        return {"filter": chosen}
    if one(fields, "every"):
        return {"all": True}
    ids = [_number(id) for id in fields.get("id", [])]
    if not ids:
        raise BadInput("tick at least one dead letter first")
    return {"ids": ids}


def _place(fields: Fields, name: str) -> int | None:
    text = one(fields, name)
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadInput(f"{text[:40]!r} is not a position in a stream")
    return int(text)


def _number(id: str) -> int:
    if not id.isascii() or not id.isdigit() or len(id) > 18:
        raise BadInput(f"{id[:40]!r} is not the number of a delivery")
    return int(id)
