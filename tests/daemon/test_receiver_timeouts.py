"""The time limits of a receiver: as its contract says, and one for silence."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import web

from daemon import Daemon
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.store.open import open_store
from sink import Sink

CONFIG = "egress: {allow: [127.0.0.0/8]}\n"


async def test_a_receiver_has_the_time_that_its_contract_allows(tmp_path: Path) -> None:
    async def slowly(request: web.Request) -> web.Response:
        await asyncio.sleep(0.6 if request.path.endswith("in-time") else 3)
        return web.Response()

    async with Sink(slowly) as sink:
        with Daemon(tmp_path / "home", config=CONFIG) as daemon:

            def ends(name: str) -> tuple[str, str | None]:
                target = {"url": f"{sink.url}/{name}"}
                wish = {"id": name, "target": target, "type_criterion": name, "timeout": 1.2, "attempts": 1}
                assert daemon.request("POST", "/hooks/contracts", wish)[0] == 201
                event = daemon.request("POST", "/api/events", {"type": name})[1]["id"]
                found = daemon.wait_for(f"/api/events/{event}", lambda answer: _ended(answer["deliveries"]))
                return found["deliveries"][0]["state"], found["deliveries"][0]["last_error"]

            assert await asyncio.to_thread(ends, "in-time") == ("delivered", None)
            assert await asyncio.to_thread(ends, "too-late") == ("dead", "no complete answer within 1.2 s")


async def test_waiting_for_a_free_connection_is_not_a_failed_attempt(tmp_path: Path) -> None:
    async def slowly(request: web.Request) -> web.Response:
        await asyncio.sleep(0.7)
        return web.Response()

    async with Sink(slowly) as sink:
        with Daemon(tmp_path / "home", config="egress: {allow: [127.0.0.0/8], concurrency: 1}\n") as daemon:

            def attempts() -> list[tuple[str, int]]:
                wish = {"id": "c", "target": {"url": sink.url}, "type_criterion": "t.x", "timeout": 1.5}
                assert daemon.request("POST", "/hooks/contracts", wish)[0] == 201
                for _ in range(8):
                    assert daemon.request("POST", "/api/events", {"type": "t.x"})[0] == 201
                path = "/api/deliveries?contract=c"
                found = daemon.wait_for(path, lambda page: all(one["state"] != "pending" for one in page["items"]))
                return [(one["state"], one["attempts"]) for one in found["items"]]

            assert await asyncio.to_thread(attempts) == [("delivered", 1)] * 8


async def test_a_silent_receiver_ends_an_attempt_before_the_total_limit(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/runtime.db", keep=True)
    runtime = Runtime(store, load_config(None), None)
    webhooks = runtime.deliverers.webhooks
    assert webhooks._timeout(None) <= webhooks._total_s, "else the limit of silence would never be in force"
    assert webhooks._first_byte_s < webhooks._timeout(None)
    await store.close()


def _ended(deliveries: list[dict[str, str]]) -> bool:
    return bool(deliveries) and deliveries[0]["state"] != "pending"
