"""The compatibility views on PostgreSQL: what they must not show."""

from __future__ import annotations

import json

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.event import new_event
from holdfast.testing.suite.harness import Harness
from postgres import Server, opened

pytest_plugins = ("postgres",)


async def test_the_views_show_only_the_host_of_a_url(server: Server, schema: str) -> None:
    urls = {
        "a": "https://hooks.example/services/T0/B0/canary-path?key=canary-query",
        "b": "http://hooks.example:8080?key=canary-query",
        "c": "https://hooks.example",
    }
    async with opened(server, schema) as store:
        for id, url in urls.items():
            await store.contracts.put(Contract(id, parse_address(url)), None)
        await store.events.append([new_event("t")])
        harness = Harness.__new__(Harness)
        harness.store, harness.owner = store, await store.owners.register()
        await harness.route()
        connection = await server.connect()
        shown = dict(await connection.fetch(f"SELECT contract_id, target_url FROM {schema}.webhook_outbox"))
        stored = await connection.fetch(f"SELECT id, contract_json FROM {schema}.webhook_contracts")
        await connection.close()
    assert shown == {"a": "https://hooks.example/…", "b": "http://hooks.example:8080/…", "c": "https://hooks.example"}
    assert {id: json.loads(text)["target"]["url"] for id, text in stored} == shown
