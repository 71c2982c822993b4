"""Dead letters of every kind of queue: the same three verbs, whatever the component."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from daemon import shop
from holdfast import NativeSqlOutbox, Outbox
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.errors import Reject
from holdfast.domain.event import new_event
from holdfast.domain.states import Reason
from holdfast.operations.redaction import DEPTH_MAX, excerpt, redact
from holdfast.store.open import open_store
from sink import Sink

CONFIG = """
egress: {allow: [127.0.0.0/8]}
hooks:
  inbound:
    partner: {path: /hooks/partner, insecure: true}
"""


async def refuse(event: object) -> None:
    raise Reject("no")


def broken(raw: object) -> Any:
    raise ValueError("cannot read this")


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    (tmp_path / "holdfast.yml").write_text(CONFIG)
    store = open_store(f"sqlite:///{tmp_path}/app.db", keep=True, driver="sqlite3")
    config = load_config(tmp_path / "holdfast.yml")
    running = Runtime(store, config, None, handlers={"refuse": refuse}, normalizers={"partner": broken})
    await running.start()
    yield running
    await running.stop()


async def count_of(runtime: Runtime, queue: str, least: int = 1) -> int:
    """Wait until a queue has dead letters, and count them."""
    while True:
        by_queue = (await runtime.operations.dead_letters.count()).by_queue
        if by_queue.get(queue, 0) >= least:
            return by_queue[queue]
        await asyncio.sleep(0.01)


async def test_every_kind_of_queue_has_the_three_verbs(runtime: Runtime, tmp_path: Path) -> None:
    verbs = runtime.operations
    async with Sink([422, 422]) as sink:
        await verbs.contracts.add({"id": "hook", "target": {"url": sink.url}, "type_criterion": "order.placed"})
        await verbs.events.append(new_event("order.placed", {"id": 1}))
        await verbs.events.append(new_event("direct", 1, to="handler:refuse"))
        await verbs.events.append(
            new_event("inbound.partner.raw", {"body": "x"}, source="inbound", to="handler:inbound.partner")
        )
        with NativeSqlOutbox(f"sqlite:///{tmp_path}/app.db") as queue:
            await asyncio.to_thread(kill_one, queue, tmp_path / "app.db")
        for name in ("hook", "handler:refuse", "handler:inbound.partner", "handler:queue.receipts"):
            assert await count_of(runtime, name) == 1, name
        page = await verbs.dead_letters.inspect(limit=10)
        assert {letter.address.partition("?")[0] for letter in page.items} >= {"handler:refuse", sink.url}
        assert all(letter.last_error and letter.history for letter in page.items)
        answer = await verbs.dead_letters.reprocess(ids=[letter.id for letter in page.items], actor="test")
        assert answer.reprocessed == len(page.items)
        for name in ("hook", "handler:refuse", "handler:inbound.partner"):
            assert await count_of(runtime, name) == 1, name  # nothing was fixed, so each died again


def kill_one(queue: NativeSqlOutbox, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        queue.enqueue(connection, {"n": 1}, queue="receipts")
        connection.commit()
    row = None
    while row is None:
        row = queue.claim("receipts")
    queue.dlq(row.id, "422: refused")


async def test_the_outbox_of_an_application_has_the_three_verbs(runtime: Runtime, tmp_path: Path) -> None:
    outbox = Outbox(f"sqlite:///{tmp_path}/app.db")
    for number in range(3):
        await runtime.operations.events.append(new_event("direct", {"n": number, "token": "t"}, to="handler:refuse"))
    await count_of(runtime, "handler:refuse", 3)
    assert (await in_thread(lambda: outbox.dlq_count())).count == 3
    assert (await in_thread(lambda: outbox.dlq_count(reason=Reason.EXHAUSTED.value))).count == 0
    page = outbox.dlq_inspect(2)  # also where an event loop runs
    assert [letter.payload for letter in page.items] == [{"n": n, "token": "***"} for n in (2, 1)]
    answer = await in_thread(lambda: outbox.dlq_reprocess([letter.id for letter in page.items]))
    assert (answer.reprocessed, answer.remaining) == (2, 0)
    await count_of(runtime, "handler:refuse", 3)


async def in_thread(call: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(call)


@pytest.mark.parametrize(
    "key", ["password", "Authorization", "api_key", "X-API-Key", "clientSecret", "Set-Cookie", "access_token"]
)
def test_texts_under_the_name_of_a_secret_are_masked(key: str) -> None:
    assert redact({"a": [{key: "s", "n": 1}]}) == {"a": [{key: "***", "n": 1}]}
    assert redact({key: {"value": "s", "count": 3}}) == {key: {"value": "***", "count": 3}}


def test_a_deep_value_is_masked_rather_than_followed() -> None:
    value: Any = "deep"
    for _ in range(DEPTH_MAX * 2):
        value = [value]
    assert "***" in str(redact(value))


def test_an_excerpt_is_no_longer_than_its_limit() -> None:
    assert excerpt({"a": 1}, 100) == ({"a": 1}, False)
    assert excerpt("é" * 1000, 100) == ('"' + "é" * 99, True)


def test_the_commands_work_on_a_store_without_a_daemon(tmp_path: Path) -> None:
    home, url = tmp_path / "home", f"sqlite:///{tmp_path}/home/holdfast.db"
    with shop(tmp_path, home=home) as daemon:
        event = daemon.request("POST", "/api/events", {"type": "bad.order", "payload": {"token": "t"}})[1]["id"]
        (dead,) = daemon.wait_for(f"/api/dlq?event={event}", lambda page: page["items"] != [])["items"]
        asked = {name: daemon.cli("dlq", name, "--json").json for name in ("count", "inspect", "list")}
        daemon.stop()
        for name, answer in asked.items():
            assert daemon.cli("dlq", name, "--store", url, "--json").json == answer
            assert daemon.cli("dlq", name, "--app", "shop:outbox", "--json").json == answer
        refused = daemon.cli("dlq", "count", "--store", url, "--app", "shop:outbox")
        assert (refused.code, "cannot be combined" in refused.err) == (2, True)
        id = str(dead["id"])
        for words in (("explain", event), ("events", "show", event), ("deliveries", "show", id)):
            assert event in daemon.cli(*words, "--store", url, "--json").out
        done = daemon.cli("dlq", "reprocess", str(dead["id"]), "--store", url, "--json").json
        assert (done["reprocessed"], done["remaining"]) == (1, 0)
        assert daemon.cli("dlq", "reprocess", "999", "--store", url).code == 3
        assert daemon.cli("dlq", "count", "--reason", "king", "--store", url).code == 2
    with closing(sqlite3.connect(home / "holdfast.db")) as connection:
        receipts = connection.execute("SELECT leaves FROM holdfast_receipts").fetchall()
    assert any(b'"actor":"local:' in leaves for (leaves,) in receipts)
