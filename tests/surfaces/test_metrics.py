"""`/metrics`: true figures, bounded labels, and a format that Prometheus accepts."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from daemon import Daemon
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.errors import Reject
from holdfast.domain.event import new_event
from holdfast.domain.lane import SESSIONS
from holdfast.operations import metrics
from holdfast.operations.process_counts import QUEUES_KEPT, QUEUES_MAX, ProcessCounts, QueueCounts
from holdfast.store.open import open_store
from holdfast.store.roles.routing import Plan, RouteTarget
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.request_filter import BearerTokens
from promtool import promtool

MONITORING = Path(__file__).parents[2] / "monitoring"


class Scraper:
    def __init__(self, runtime: Runtime, session: aiohttp.ClientSession, url: str) -> None:
        self.runtime, self._session, self._url = runtime, session, url

    async def get(self, token: str | None = "admin", **headers: str) -> tuple[int, str]:
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        async with self._session.get(self._url + "/metrics", headers=headers) as response:
            return response.status, await response.text()

    async def samples(self) -> dict[str, dict[tuple[str, ...], float]]:
        """The values by name and label values, in the order of the labels' names."""
        status, text = await self.get()
        assert status == 200
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = tuple(value for _, value in sorted(sample.labels.items()))
                found.setdefault(sample.name, {})[labels] = sample.value
        return found

    async def append(self, **event: Any) -> None:
        headers = {"Authorization": "Bearer admin"}
        async with self._session.post(self._url + "/api/events", json=event, headers=headers) as response:
            assert response.status == 201


async def refuse(event: object) -> None:
    raise Reject("no")


async def accept(event: object) -> None: ...


@asynccontextmanager
async def serve(folder: Path, *, open_metrics: bool = False) -> AsyncIterator[Scraper]:
    store = open_store(f"sqlite:///{folder}/metrics.db", keep=True)
    config = folder / "holdfast.yml"
    config.write_text(f'streams: {{sinks: [{{name: log, url: "file://{folder}/sink", streams: "run:*"}}]}}')
    runtime = Runtime(store, load_config(config), None, handlers={"accept": accept, "refuse": refuse})
    await runtime.start()
    listener = bind("127.0.0.1", 0)
    tokens = BearerTokens("admin", runtime.operations.tokens.scope_of)
    app = build_app(runtime.operations, tokens, {"127.0.0.1"}, 100_000, open_metrics=open_metrics)
    server = Server(app, listener)
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Scraper(runtime, session, f"http://127.0.0.1:{listener.getsockname()[1]}")
    await server.stop()
    await runtime.stop()


@pytest.fixture
async def scraper(tmp_path: Path) -> AsyncIterator[Scraper]:
    async with serve(tmp_path) as scraper:
        yield scraper


async def settle(scraper: Scraper, ended: int) -> None:
    while sum(scraper.runtime.operations.metrics._context.counts.deliveries_ended.values()) < ended:
        await asyncio.sleep(0.01)


async def test_events_are_counted_from_accept_to_their_end(scraper: Scraper) -> None:
    for number in range(3):
        await scraper.append(type="a", to="handler:accept", payload=number)
    await scraper.append(type="b", to="handler:refuse")
    await scraper.append(type="c")
    await settle(scraper, 4)
    found = await scraper.samples()
    assert found["holdfast_events_accepted_total"][("api",)] == 5
    assert found["holdfast_events_routed_total"][()] >= 5  # and the event about the dead letter
    assert found["holdfast_deliveries_created_total"][()] == 4
    assert found["holdfast_deliveries_ended_total"] == {
        ("handler", "", "delivered"): 3,
        ("handler", "rejected", "dead"): 1,
    }
    assert found["holdfast_attempts_total"][("handler", "delivered")] == 3
    assert found["holdfast_attempt_duration_seconds_count"][("handler",)] == 4
    assert found["holdfast_delivery_latency_seconds_count"][("handler",)] == 3
    assert found["holdfast_queue_ended_total"][("handler:accept", "delivered")] == 3
    assert found["holdfast_queue_dead_letters"] == {("handler:refuse",): 1}
    assert found["holdfast_dead_letters"][()] == 1
    assert found["holdfast_deliveries_pending"][()] == 0
    assert found["holdfast_accepting"][()] == 1
    assert found["holdfast_wal_size_bytes"][()] > 0
    assert found["holdfast_disk_free_bytes"][()] > 0
    assert set(found["holdfast_duty_healthy"].values()) == {1}


async def test_deliveries_that_a_newer_one_replaces_are_counted(scraper: Scraper) -> None:
    await scraper.runtime.operations.metrics._store.operator.pause("address", SESSIONS)
    for _ in range(3):
        await scraper.append(type="hook.tool_use", source="hook", stream="session:s1", to=SESSIONS)
    await settle(scraper, 2)
    assert (await scraper.samples())["holdfast_deliveries_ended_total"] == {("", "coalesced", "dropped"): 2}


async def test_what_is_unknown_is_absent_and_not_zero(scraper: Scraper) -> None:
    assert "holdfast_oldest_pending_seconds" not in await scraper.samples()
    await scraper.append(type="a", to="handler:nobody")
    while "holdfast_oldest_pending_seconds" not in await scraper.samples():
        await asyncio.sleep(0.01)


async def test_promtool_accepts_the_metrics(scraper: Scraper) -> None:
    await scraper.append(type="a", to="handler:accept")
    await scraper.append(type="b", to="handler:refuse")
    await settle(scraper, 2)
    _, text = await scraper.get()
    assert promtool("check", "metrics", input=text.encode()) == (0, "")
    _, open_metrics = await scraper.get(Accept="application/openmetrics-text; version=1.0.0")
    assert open_metrics.endswith("# EOF\n")


async def test_a_scrape_needs_the_scope_read(scraper: Scraper) -> None:
    tokens = scraper.runtime.operations.tokens
    assert (await scraper.get(None))[0] == 401
    assert (await scraper.get("wrong"))[0] == 401
    assert (await scraper.get((await tokens.create("p", "append")).token))[0] == 403
    assert (await scraper.get((await tokens.create("p", "read")).token))[0] == 200


async def test_a_setting_opens_the_metrics_to_this_machine_and_nothing_else(tmp_path: Path) -> None:
    async with serve(tmp_path, open_metrics=True) as scraper:
        assert (await scraper.get(None))[0] == 200
        assert (await scraper.get(None, Host="evil.example"))[0] == 421
        async with scraper._session.get(scraper._url + "/api/status") as response:
            assert response.status == 401


def test_the_setting_is_read_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "on.yml").write_text("server: {open_metrics: true}")
    assert load_config(tmp_path / "on.yml").open_metrics is True
    with Daemon(config="server: {open_metrics: true}") as daemon:
        status, text = daemon.request("GET", "/metrics", headers={"Authorization": ""})
        assert (status, "holdfast_build_info" in text) == (200, True)


async def test_pending_deliveries_have_the_name_of_their_queue(scraper: Scraper) -> None:
    for type in ("a", "b"):
        await scraper.append(type=type, to="handler:nobody")
    await scraper.append(type="c", to="https://shop.example/hook?token=hf_secret", stream="s")
    while len((await scraper.samples()).get("holdfast_queue_pending", ())) < 2:
        await asyncio.sleep(0.01)
    found = (await scraper.samples())["holdfast_queue_pending"]
    assert found[("handler:nobody",)] == 2
    assert "hf_secret" not in str(found)


async def test_so_many_pending_deliveries_that_they_are_not_counted_by_queue(
    scraper: Scraper, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scraper.append(type="a", to="handler:nobody")
    while "holdfast_queue_pending" not in await scraper.samples():
        await asyncio.sleep(0.01)
    monkeypatch.setattr(metrics, "PENDING_COUNTED_MAX", 0)
    assert "holdfast_queue_pending" not in await scraper.samples()


async def test_a_scrape_stays_short_with_ten_thousand_contracts(scraper: Scraper) -> None:
    """Each of them has a pending delivery."""
    count, store = 10_000, scraper.runtime.operations.metrics._store
    address = parse_address("handler:nobody")
    contracts = [Contract(f"contract-{number}", address) for number in range(count)]
    await store.contracts.register(["tests"], contracts, alone=True)
    queues = {queue.contract_id: queue.id for queue in await store.contracts.queues()}
    (event,) = await store.events.append([new_event("a")])
    while (await store.operator.figures()).unrouted:
        await asyncio.sleep(0.01)
    stored = await store.events.get(event.id)
    assert stored is not None
    targets = [RouteTarget(queues[one.id], address.text, address.kind, None, None, one.id) for one in contracts]
    await store.routing.deliver([Plan(stored.n, tuple(targets), 0)])
    status, text = await scraper.get()
    assert status == 200
    assert f"holdfast_deliveries_pending {count}.0" in text
    assert text.count("holdfast_queue_pending{") == 100
    assert len(text) < 50_000


async def test_the_size_does_not_grow_with_the_number_of_queues(scraper: Scraper) -> None:
    counts = scraper.runtime.operations.metrics._context.counts
    for number in range(QUEUES_MAX):
        counts._queues[number] = QueueCounts(f"contract-{number}", "https", attempts=number)
    found = await scraper.samples()
    assert len(found["holdfast_queue_attempts_total"]) == 100
    assert ("contract-9999",) in found["holdfast_queue_attempts_total"]


def test_the_counters_of_idle_queues_are_forgotten() -> None:
    counts = ProcessCounts()
    for number in range(QUEUES_MAX + 1):
        counts._queues[number] = QueueCounts(f"c{number}", "https", attempts=number)
    counts.settled([], set(), 0)
    assert len(counts._queues) == QUEUES_KEPT
    assert counts.busiest(1)[0].name == f"c{QUEUES_MAX}"


def test_the_alert_rules_are_valid_and_fire() -> None:
    code, text = promtool("check", "rules", MONITORING / "alerts.yml")
    assert code == 0, text
    code, text = promtool("test", "rules", MONITORING / "alerts_test.yml")
    assert code == 0, text


async def test_dashboard_and_alerts_name_only_metrics_that_exist(scraper: Scraper, tmp_path: Path) -> None:
    await scraper.append(type="a", to="handler:accept")
    await scraper.append(type="b", to="handler:refuse")
    await scraper.append(type="c", to="handler:nobody")
    await scraper.append(type="d", stream="run:1")
    await settle(scraper, 2)
    while not (await scraper.samples()).get("holdfast_reader_published_total", {}).get(("sink:log",)):
        await asyncio.sleep(0.01)
    known = set(await scraper.samples())
    page = (MONITORING.parent / "docs" / "operate" / "metrics.md").read_text()
    described = set(re.findall(r"^\| `(holdfast_\w+)`", page, re.MULTILINE))
    assert described == set(re.findall(r"^# TYPE (\w+)", (await scraper.get())[1], re.MULTILINE))
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for text in (*queries, (MONITORING / "alerts.yml").read_text()):
        assert set(re.findall(r"\bholdfast_\w+", text)) <= known
    plain = [query.replace("$__rate_interval", "5m").replace("$instance", ".*") for query in queries]
    rules = [{"record": f"query:number_{number}", "expr": query} for number, query in enumerate(plain)]
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    code, text = promtool("check", "rules", tmp_path / "queries.yml")
    assert code == 0, text
