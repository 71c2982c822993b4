"""The benchmarks write the same rows as Holdfast: a filled backlog, and an executed order."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path

import asyncpg
import pytest

from holdfast.domain.event import new_event
from holdfast.domain.retry import POLICIES
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.open import open_store

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import fill as filling  # noqa: E402
from benchmarks import orders  # noqa: E402
from benchmarks.orders import Failed, ask  # noqa: E402

pytest_plugins = ("postgres",)

COLUMNS = {
    "holdfast_events": "stream, seq, source, type, properties, dedup_key, address, not_before, length(id), payload",
    "holdfast_deliveries": "event, queue, lane, pos, state, reason, attempts, generation, handed_until, settled_at",
    "holdfast_ready": "delivery, queue, starts, owner, token, lease_until",
    "holdfast_unrouted": "event",
}


async def _publish_and_route(url: str, count: int) -> None:
    store = open_store(url, keep=True)
    await store.contracts.put(filling.contract(), None)
    payload = {"text": "x" * 88}
    await store.events.append([new_event("bench.event", payload) for _ in range(count)])
    router = Router(store.routing, Registry(store.contracts, POLICIES))
    while await router.tick() is not None:
        pass
    await store.close()


def _rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    connection = sqlite3.connect(path)
    try:
        return {
            table: connection.execute(f"SELECT {columns} FROM {table} ORDER BY rowid").fetchall()
            for table, columns in COLUMNS.items()
        }
    finally:
        connection.close()


async def test_a_fill_writes_the_rows_that_publishing_and_routing_write(tmp_path):
    await _publish_and_route(f"sqlite:///{tmp_path}/true.db", 5)
    await _fill(f"sqlite:///{tmp_path}/filled.db", 5)
    true, filled = _rows(tmp_path / "true.db"), _rows(tmp_path / "filled.db")
    assert len(true["holdfast_ready"]) == 5
    assert filled == true


@pytest.mark.slow
async def test_a_fill_on_postgres_writes_the_same_rows(server):
    found = []
    for name, write in (("bench_true", _publish_and_route), ("bench_filled", _fill)):
        assert server.psql(f"DROP DATABASE IF EXISTS {name}; ").returncode == 0
        assert server.psql(f"CREATE DATABASE {name}").returncode == 0
        url = f"postgresql://postgres@/{name}?host={server.folder}"
        await write(url, 5)
        connection = await asyncpg.connect(url)
        found.append(
            {
                table: await connection.fetch(
                    f"SELECT {columns} FROM {table.replace('holdfast_', 'holdfast.')} "
                    f"ORDER BY {'n' if 'events' in table else 'id' if 'deliveries' in table else '1'}"
                )
                for table, columns in COLUMNS.items()
            }
        )
        await connection.close()
        assert server.psql(f"DROP DATABASE {name}").returncode == 0
    true, filled = found
    assert len(true["holdfast_ready"]) == 5
    assert filled == true


async def _fill(url: str, count: int) -> None:
    await asyncio.to_thread(filling.fill, url, count)


def test_a_fill_adds_only_what_is_missing(tmp_path):
    for total in (3, 7, 7, 5):
        filling.fill(f"sqlite:///{tmp_path}/b.db", total)
    assert len(_rows(tmp_path / "b.db")["holdfast_ready"]) == 7


@pytest.mark.slow
@pytest.mark.parametrize("work", ["single", "batch", "drain", "latency", "whole", "path"])
def test_an_order_is_carried_out_to_the_last_job(tmp_path, monkeypatch, work):
    monkeypatch.setattr(orders, "CACHE", tmp_path)
    result = ask(sys.executable, "holdfast", url=f"sqlite:///{tmp_path}/o.db", work=work, count=20, size=10)
    assert result["done"] == 20
    assert result["cpu_s"] > 0
    assert result["rss_mb"] > 1


@pytest.mark.slow
def test_a_backlog_that_was_filled_is_delivered(tmp_path, monkeypatch):
    monkeypatch.setattr(orders, "CACHE", tmp_path)
    url = f"sqlite:///{tmp_path}/o.db"
    filling.fill(url, 800)
    assert len(ask(sys.executable, "holdfast", url=url, work="claims", count=1)["claim_ms"]) == 1
    assert ask(sys.executable, "holdfast", url=url, work="some", count=200)["done"] == 200


def test_a_failed_order_gives_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(orders, "CACHE", tmp_path)
    with pytest.raises(Failed, match=r"drain ended with 1: .*is not a store"):
        ask(sys.executable, "holdfast", url="mysql://nowhere", work="drain", count=1, size=1)


def test_a_peer_whose_python_is_missing_is_refused_with_the_version_it_needs(monkeypatch):
    monkeypatch.setitem(orders.NEEDS, "oban", (3, 99))
    with pytest.raises(Failed, match=r"it needs Python 3\.99 or later"):
        orders.python_for("oban")
