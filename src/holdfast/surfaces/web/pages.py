"""The screens: each one function of the operator verbs. Paths are in `PAGES`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from holdfast.domain.errors import Conflict, NotFound
from holdfast.operations.events import PREFIX_MIN
from holdfast.surfaces.web.charts import bars_of, lanes_of
from holdfast.surfaces.web.contract_form import NAMES, filled
from holdfast.surfaces.web.overview import overview
from holdfast.surfaces.web.page import Go, Page, PageFunction, Visit

LIST = 50
DELIVERIES = 20
ENTRIES_OF_SESSION = 200
LANES = 10
STATES = ("dead", "pending", "dropped", "delivered")


async def events(visit: Visit) -> Page | Go:
    """The newest events, filtered. A search for an id, or the beginning of one, leads to the event."""
    search = visit.query("q")
    if search is not None and search.startswith("evt_") and len(search) >= PREFIX_MIN:
        try:
            return Go(f"/events/{(await visit.operations.events.show(search)).id}")
        except (NotFound, Conflict):
            pass
    filters = {name: visit.query(name) for name in ("source", "type", "stream")}
    unmatched = visit.query("unmatched")
    page = await visit.operations.events.find(
        **filters, unmatched=unmatched is not None, search=search, after=visit.query("after"), limit=LIST
    )
    values: dict[str, object] = {
        "events": page.items,
        "states": await visit.operations.events.states([event.id for event in page.items]),
        "next": page.next,
        "query": {"q": search, **filters, "unmatched": unmatched},
        "live": visit.query("after") is None and unmatched is None,
    }
    return Page("events.html", "Events", values)


async def event(visit: Visit) -> Page:
    """One event: payload, deliveries with attempts and receipts, and why other contracts did not match."""
    explained = await visit.operations.events.explain(visit.path["id"])
    deliveries = sorted(explained.deliveries, key=lambda found: (STATES.index(found.state), found.id))
    return Page("event.html", explained.event.type, {"explained": explained, "deliveries": deliveries})


async def delivery(visit: Visit) -> Go:
    """A delivery is shown with its event."""
    id = visit.path["id"]
    if not id.isascii() or not id.isdigit() or len(id) > 18:
        raise NotFound(f"There is no delivery {id[:40]}.")
    return Go(f"/events/{(await visit.operations.deliveries.show(int(id))).event_id}")


async def sessions(visit: Visit) -> Page:
    """Agent sessions, last changed first; the first of them with what happened in the last hour."""
    page = await visit.operations.sessions.find(
        agent=visit.query("agent"), state=visit.query("state"), after=visit.query("after"), limit=LIST
    )
    recent = [session for session in page.items if session.state not in ("closed", "ended")][:LANES]
    shown = await asyncio.gather(*[visit.operations.sessions.show(session.id, limit=LIST) for session in recent])
    values: dict[str, object] = {
        "sessions": page.items,
        "next": page.next,
        "agent": visit.query("agent"),
        "state": visit.query("state"),
        "lanes": lanes_of(shown, datetime.now(UTC)),
    }
    return Page("sessions.html", "Sessions", values)


async def session(visit: Visit) -> Page:
    """One session: its facts, and its conversation, newest first."""
    shown = await visit.operations.sessions.show(visit.path["id"], limit=ENTRIES_OF_SESSION)
    return Page("session.html", shown.title or shown.id, {"session": shown})


async def contracts(visit: Visit) -> Page:
    page = await visit.operations.contracts.find(inactive=True, after=visit.query("after"), limit=LIST)
    ids = [contract.id for contract in page.items]
    figures = {found.contract_id: found for found in await visit.operations.contracts.statistics_of(ids)}
    return Page("contracts.html", "Contracts", {"contracts": page.items, "figures": figures, "next": page.next})


async def contract(visit: Visit) -> Page:
    """One contract: what became of its deliveries, the last of them, its options, and buttons."""
    shown = await visit.operations.contracts.show(visit.path["id"])
    figures, deliveries = await asyncio.gather(
        visit.operations.contracts.statistics(shown.id),
        visit.operations.deliveries.find(contract=shown.id, limit=DELIVERIES),
    )
    values: dict[str, object] = {
        "contract": shown,
        "figures": figures,
        "bars": bars_of(figures.hours),
        "deliveries": deliveries.items,
    }
    return Page("contract.html", shown.id, values)


async def contract_form(visit: Visit) -> Page:
    """Create a contract: from nothing, or for events like a past one."""
    like = visit.query("event")
    seen = await visit.operations.events.show(like) if like else None
    form = dict.fromkeys(NAMES, "")
    if seen is not None:
        form |= {"type": seen.type, "source": seen.source}
    return Page("contract_form.html", "New contract", {"edited": None, "trial": None, "form": form, "problem": None})


async def contract_edit(visit: Visit) -> Page:
    """Change a contract that was created here or over the API: the form, filled in."""
    shown = await visit.operations.contracts.show(visit.path["id"])
    values: dict[str, object] = {"edited": shown.id, "trial": None, "form": filled(shown), "problem": None}
    return Page("contract_form.html", f"Edit {shown.id}", values)


async def dead_letters(visit: Visit) -> Page:
    """Dead letters, all of them grouped by reason and contract or address, and the newest of those that match."""
    filters = {name: visit.query(name) for name in ("reason", "contract", "address", "stream")}
    narrowed = any(filters.values())
    letters = visit.operations.dead_letters
    page, every = await asyncio.gather(
        visit.operations.deliveries.find(state="dead", **filters, after=visit.query("after"), limit=LIST),
        letters.count(),
    )
    values: dict[str, object] = {
        "letters": page.items,
        "next": page.next,
        "every": every,
        "count": (await letters.count(**filters)).count if narrowed else every.count,
        "filters": filters,
        "narrowed": narrowed,
    }
    return Page("dead_letters.html", "Dead letters", values)


async def streams(visit: Visit) -> Page:
    page, readers = await asyncio.gather(
        visit.operations.streams.find(after=visit.query("after"), limit=LIST), visit.operations.readers.find()
    )
    values: dict[str, object] = {"streams": page.items, "next": page.next, "readers": readers.items}
    return Page("streams.html", "Streams", values)


async def stream(visit: Visit) -> Page:
    """One stream, its newest events first, and a form to send some of them again."""
    shown = await visit.operations.streams.show(visit.path["id"])
    found, readers, contracts = await asyncio.gather(
        visit.operations.streams.events(shown.id, after=max(0, shown.head - LIST), limit=LIST),
        visit.operations.readers.find(),
        visit.operations.contracts.find(limit=LIST),
    )
    sinks = [reader.name for reader in readers.items if reader.name.startswith("sink:") and reader.active]
    values: dict[str, object] = {
        "stream": shown,
        "events": list(reversed(found.items)),
        "states": await visit.operations.events.states([event.id for event in found.items]),
        "targets": sinks + [f"contract:{contract.id}" for contract in contracts.items],
        "readers": readers.items,
    }
    return Page("stream.html", shown.id, values)


PAGES: tuple[tuple[str, PageFunction], ...] = (
    ("/", overview),
    ("/events", events),
    ("/events/{id}", event),
    ("/deliveries/{id}", delivery),
    ("/sessions", sessions),
    ("/sessions/{id}", session),
    ("/contracts", contracts),
    ("/contracts/new", contract_form),
    ("/contracts/{id}/edit", contract_edit),
    ("/contracts/{id}", contract),
    ("/dead-letters", dead_letters),
    ("/streams", streams),
    ("/streams/{id:path}", stream),
)
