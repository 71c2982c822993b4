"""The fleet: components of any store behind one view; what cannot be reached is unknown, never 0."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from daemon import Daemon, run_cli, shop
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.errors import BadConfig
from holdfast.domain.fleet import ComponentFigures, FleetComponent, alerts_of
from holdfast.operations.duties.fleet_watch import FleetWatch
from holdfast.operations.fleet import FleetVerbs
from holdfast.store.open import open_store
from postgres import fresh_schema, newest, start

pytest_plugins = ("postgres",)


class Component:
    """Something else that answers the verbs over REST: a count and a page, and no status."""

    def __init__(self) -> None:
        self.count: Any = 0
        self.tokens: list[str | None] = []
        self.delay_s = 0.0
        self.url = ""

    async def __aenter__(self) -> Component:
        app = web.Application()
        app.router.add_get("/api/dlq/count", self._count)
        app.router.add_get("/api/dlq", self._page)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._runner.cleanup()

    async def _count(self, request: web.Request) -> web.Response:
        await asyncio.sleep(self.delay_s)
        self.tokens.append(request.headers.get("Authorization"))
        return web.json_response({"count": self.count, "by_queue": {}})

    async def _page(self, request: web.Request) -> web.Response:
        return web.json_response({"items": [{"id": 1, "last_error": "503 from the receiver"}], "next": None})


async def running(folder: Path, fleet: str) -> Runtime:
    (folder / "fleet.yml").write_text(f"fleet: {fleet}\n")
    store = open_store(f"sqlite:///{folder}/fleet.db", keep=True)
    runtime = Runtime(store, load_config(folder / "fleet.yml"), None)
    await runtime.start()
    return runtime


@pytest.fixture
async def component() -> AsyncIterator[Component]:
    async with Component() as component:
        yield component


async def test_a_component_needs_only_the_verbs(component: Component, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MIRROR_TOKEN", "s3cret")
    component.count = 4
    fleet = f'[{{name: mirror, url: "{component.url}", token_env: MIRROR_TOKEN, dead_above: 3}}]'
    runtime = await running(tmp_path, fleet)
    try:
        own, mirror = (await runtime.operations.fleet.show()).components
        assert (own.name, own.state, own.dlq_count, own.backend) == ("this", "ok", 0, "sqlite")
        assert (mirror.state, mirror.dlq_count, mirror.pending) == ("alert", 4, None)
        assert mirror.last_error == "503 from the receiver"
        assert mirror.alerts == ["4 dead letters, more than 3"]
        assert set(component.tokens) == {"Bearer s3cret"}
        assert "s3cret" not in str(await runtime.operations.fleet.show())
        assert "s3cret" not in repr(runtime.config)
    finally:
        await runtime.stop()


@pytest.mark.parametrize(
    ("count", "why"),
    [("many", "has no count"), (-1, "has no count"), (None, "has no count"), (True, "has no count")],
)
async def test_a_wrong_answer_is_unknown_and_not_zero(
    component: Component, tmp_path: Path, count: Any, why: str
) -> None:
    component.count = count
    runtime = await running(tmp_path, f'[{{name: odd, url: "{component.url}"}}]')
    try:
        odd = (await runtime.operations.fleet.show()).components[1]
        assert (odd.state, odd.dlq_count, odd.pending) == ("unknown", None, None)
        assert why in (odd.last_error or "")
    finally:
        await runtime.stop()


async def test_alerts_are_events_log_lines_and_notes_of_the_status(
    component: Component, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = await running(tmp_path, "[]")
    try:
        verbs = runtime.operations
        fleet = FleetVerbs(replace(verbs.fleet._context, fleet=(FleetComponent("mirror", component.url),)))
        watch = FleetWatch(fleet.show, runtime._context.system_events)

        async def look() -> list[tuple[str, str]]:
            fleet._last = None
            await watch.tick()
            found = (await verbs.events.find(source="holdfast")).items
            return [(event.type, event.properties["state"]) for event in found[::-1]]

        assert await look() == []
        component.count = 1
        with caplog.at_level(logging.WARNING, "holdfast.fleet"):
            assert await look() == [("holdfast.fleet.alert", "alert")]
        assert "mirror needs attention: 1 dead letters, more than 0" in caplog.text
        assert watch.warnings == ["fleet: mirror: 1 dead letters, more than 0"]
        assert len(await look()) == 1  # the same state is reported once
        component.count = "many"
        assert (await look())[-1] == ("holdfast.fleet.alert", "unknown")
        component.count = 0
        assert (await look())[-1] == ("holdfast.fleet.recovered", "ok")
        assert watch.warnings == []
    finally:
        await runtime.stop()


def test_two_stores_answer_the_same_verbs_and_an_unreachable_one_is_unknown(tmp_path: Path) -> None:
    postgres = start(newest()).url(fresh_schema())
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    with (
        shop(tmp_path / "one") as first,
        Daemon(tmp_path / "two", env={"HOLDFAST_STORE": postgres}) as second,
    ):
        event = first.request("POST", "/api/events", {"type": "bad.order"})[1]["id"]
        first.wait_for(f"/api/dlq?event={event}", lambda page: page["items"] != [])
        config = (
            "fleet:\n"
            f"  - {{name: shop, url: '{first.url}', token_env: SHOP_TOKEN}}\n"
            f"  - {{name: ledger, url: '{second.url}', token_env: LEDGER_TOKEN}}\n"
            "  - {name: gone, url: 'http://127.0.0.1:1'}\n"
            "  - {name: mute, url: 'http://127.0.0.1:2', token_env: NOT_SET}\n"
        )
        env = {"SHOP_TOKEN": first.token, "LEDGER_TOKEN": second.token}
        with Daemon(tmp_path / "three", config=config, env=env) as watcher:
            said = watcher.cli("fleet", "--json")
            assert said.code == 1
            found = {item["name"]: item for item in said.json["components"]}
            assert (found["shop"]["state"], found["shop"]["dlq_count"]) == ("alert", 1)
            assert (found["shop"]["backend"], found["shop"]["last_error"]) == ("sqlite", "no such customer")
            assert (found["ledger"]["state"], found["ledger"]["dlq_count"]) == ("ok", 0)
            assert found["ledger"]["backend"] == "postgresql"
            for name in ("gone", "mute"):
                assert found[name]["state"] == "unknown"
                assert [found[name][key] for key in ("dlq_count", "pending", "in_flight")] == [None] * 3
            assert "NOT_SET is not set" in found["mute"]["last_error"]
            shown = watcher.cli("fleet").out
            assert [line.split()[1:4] for line in shown.splitlines() if line.startswith("gone ")] == [["unknown"] * 3]
            status = watcher.wait_for("/api/status", lambda answer: len(answer["notes"]) >= 3)
            assert any(note.startswith("fleet: gone: it cannot be reached") for note in status["notes"])


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("mirror", "a component is a mapping with name and url"),
        ("{name: 'a b', url: 'https://a.example'}", "name must be"),
        ("{name: a}", "url must be"),
        ("{name: a, url: 'ftp://a.example'}", "entry 1"),
        ("{name: a, url: 'https://a.example', token: x}", "unknown key 'token'"),
        ("{name: a, url: 'https://a.example', dead_above: many}", "dead_above must be a whole number"),
        ("{name: a, url: 'https://a.example'}, {name: a, url: 'https://b.example'}", "used twice"),
    ],
)
def test_a_mistake_in_the_configuration_is_named(tmp_path: Path, entry: str, why: str) -> None:
    (tmp_path / "fleet.yml").write_text(f"fleet: [{entry}]\n")
    with pytest.raises(BadConfig, match=why):
        load_config(tmp_path / "fleet.yml")


def test_without_a_daemon_the_command_says_so(tmp_path: Path) -> None:
    assert run_cli(tmp_path / "home", "fleet").code == 4


def test_a_threshold_of_null_is_disabled() -> None:
    component = FleetComponent("a", "https://a.example", dead_above=None, oldest_above_s=10)
    assert alerts_of(component, ComponentFigures(dlq_count=1000)) == []
    assert alerts_of(component, ComponentFigures(dlq_count=0, oldest_pending_s=11)) == [
        "11 seconds since the oldest pending delivery, more than 10"
    ]
