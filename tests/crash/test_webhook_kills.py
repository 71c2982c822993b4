"""SIGKILL at each step of a webhook: after the commit, after the send, after the response, after the settlement.

The receiver triggers the kill: it knows what it received and answered. Every accepted event arrives or is visibly
pending, and nothing is delivered that the receiver did not answer with 2xx.
"""

from __future__ import annotations

import asyncio
import http.client
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from daemon import Daemon
from holdfast.store.open import open_store
from holdfast.store.roles.operator import DeliveryFilter
from postgres import end_schema, fresh_schema, newest, start
from sink import Sink

pytest_plugins = ("postgres",)
pytestmark = pytest.mark.slow

ROUNDS, EVENTS = 4, 6
CONFIG = """
egress: {allow: [127.0.0.0/8]}
policies: {webhook: {schedule: [0.05], attempts: 1000}}
"""


class Receiver:
    """Answers 503 to every third request and 200 to the others, and records the answers it sent completely.

    `before` runs when a request has arrived; `after` when its answer has been sent.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.accepted: set[str] = set()
        self.before: Callable[[], Awaitable[bool]] | None = None
        self.after: Callable[[], Awaitable[bool]] | None = None
        self._turn = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        id = json.loads(await request.read())["id"]
        self.requests[id] += 1
        self._turn += 1
        status = 503 if self._turn % 3 == 0 else 200
        if self.before is not None and await self.before():
            return web.Response(status=500)  # the sender is dead
        if status == 200:
            self.accepted.add(id)  # from here on the sender may have the answer
        response = web.Response(status=status)
        await response.prepare(request)
        await response.write_eof()
        if self.after is not None:
            await self.after()
        return response


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/home/holdfast.db"
        return
    server, schema = start(newest()), fresh_schema()
    yield server.url(schema)
    asyncio.run(end_schema(server, schema))


async def states(url: str) -> dict[str, str]:
    """The state of every accepted event in the store of the killed daemon.

    Unrouted events are counted first: PostgreSQL may still be running the last statement of the dead daemon, a routing.
    """
    store = open_store(url)
    try:
        waiting = await store.routing.backlog()
        page = await store.operator.deliveries(DeliveryFilter(), None, 1000)
        found = {row.event_id: str(row.state) for row in page.items}
    finally:
        await store.close()
    return found if not waiting else {**found, "": f"{waiting} not routed yet"}


async def publish(daemon: Daemon, count: int) -> set[str]:
    """Publish events. Returns the accepted ones; an event whose response was cut off by a kill is not promised."""

    def send() -> set[str]:
        accepted: set[str] = set()
        for _ in range(count):
            try:
                status, answer = daemon.request("POST", "/api/events", {"type": "a.b"})
            except (OSError, http.client.HTTPException):
                break
            assert status == 201, answer
            accepted.add(answer["id"])
        return accepted

    return await asyncio.to_thread(send)


def check(found: dict[str, str], accepted: set[str], receiver: Receiver) -> None:
    """Compare the store after a kill with the records of the receiver."""
    unrouted = found.pop("", None)
    assert unrouted is not None or found.keys() >= accepted, "an accepted event left no trace"
    assert set(found.values()) <= {"pending", "delivered"}
    delivered = {id for id, state in found.items() if state == "delivered"}
    assert delivered <= receiver.accepted, "it counts as delivered, and the receiver never said so"


@pytest.mark.parametrize("step", ["after the commit", "after the send", "after the answer", "after the settle"])
async def test_a_kill_at_any_step_loses_nothing_and_reports_no_false_delivery(
    tmp_path: Path, url: str, step: str
) -> None:
    receiver = Receiver()
    accepted: set[str] = set()
    settled = 0
    async with Sink(receiver.answer) as sink:
        with Daemon(tmp_path / "home", config=CONFIG, env={"HOLDFAST_STORE": url}) as daemon:
            request = {"id": "c", "target": {"url": sink.url}, "type_criterion": {"match": "a.b"}, "concurrency": 3}
            assert (await asyncio.to_thread(daemon.request, "POST", "/hooks/contracts", request))[0] == 201
            for number in range(ROUNDS):
                life = Life(daemon, first=number)
                if step == "after the send":
                    receiver.before = life.strike
                elif step == "after the answer":
                    receiver.after = life.strike
                accepted |= await publish(daemon, EVENTS)
                if step == "after the settle":
                    await asyncio.to_thread(wait_for_one_more, daemon, settled)
                if step in ("after the commit", "after the settle"):
                    await life.end()
                await asyncio.wait_for(life.ended.wait(), 30)
                receiver.before = receiver.after = None
                found = await states(url)
                settled = Counter(found.values())["delivered"]
                check(found, accepted, receiver)
                await asyncio.to_thread(daemon.start)
            page = await asyncio.to_thread(
                daemon.wait_for,
                "/api/deliveries?limit=1000",
                lambda page: {item["state"] for item in page["items"]} == {"delivered"},
                60.0,
            )
    arrived = {item["event_id"] for item in page["items"]}
    assert accepted <= arrived == receiver.accepted
    assert len(accepted) >= ROUNDS
    assert sum(receiver.requests.values()) > len(arrived), "some came again: at least once is what is promised"


class Life:
    """One run of the daemon, killed at the request after the `first` ones, or by a call."""

    def __init__(self, daemon: Daemon, first: int) -> None:
        self._daemon, self._left, self._ending = daemon, first, False
        self.ended = asyncio.Event()

    async def strike(self) -> bool:
        """Whether the daemon is dead now."""
        self._left -= 1
        if self._left < 0:
            await self.end()
        return self.ended.is_set()

    async def end(self) -> None:
        if not self._ending:
            self._ending = True
            await asyncio.to_thread(self._daemon.kill9)
            self.ended.set()
        await self.ended.wait()


def wait_for_one_more(daemon: Daemon, before: int) -> None:
    """Wait until more deliveries are settled than before."""
    daemon.wait_for("/api/deliveries?state=delivered&limit=1000", lambda page: len(page["items"]) > before)
