"""An agent repairs deliveries over MCP alone: count, inspect, explain, fix, requeue, count."""

from __future__ import annotations

import asyncio

import pytest

from daemon import Daemon
from mcp_clients import call, over_http, over_stdio
from sink import Sink

CONFIG = "egress: {allow: [127.0.0.0/8]}\n"


def fail_three(daemon: Daemon, url: str) -> str:
    """Three dead letters of one contract. Returns a token for the agent."""
    contract = {"id": "orders", "target": {"url": url}, "type_criterion": "order.placed"}
    assert daemon.request("POST", "/hooks/contracts", contract)[0] == 201
    for number in range(3):
        daemon.request("POST", "/api/events", {"type": "order.placed", "payload": {"order": number}})
    daemon.wait_for("/api/dlq/count", lambda answer: answer["count"] == 3)
    return daemon.cli("token", "create", "agent", "--scope", "operate", "--json").json["token"]


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_an_agent_finds_explains_and_requeues_what_failed(transport: str) -> None:
    async with Sink([422] * 3) as sink:
        with Daemon(config=CONFIG) as daemon:
            token = await asyncio.to_thread(fail_three, daemon, sink.url)
            connected = (
                over_http(daemon, token) if transport == "http" else over_stdio(daemon, env={"HOLDFAST_TOKEN": token})
            )
            async with connected as agent:
                counted = await call(agent, "dlq_count")
                (group,) = counted["groups"]
                assert (group["contract_id"], group["reason"], group["count"]) == ("orders", "rejected", 3)
                assert (counted["count"], counted["by_queue"]) == (3, {"orders": 3})
                page = await call(agent, "dlq_inspect", limit=10, contract="orders")
                assert {item["reason"] for item in page["items"]} == {"rejected"}
                assert sorted(item["payload"]["order"] for item in page["items"]) == [0, 1, 2]
                explained = await call(agent, "explain_event", id=page["items"][0]["event_id"])
                (delivery,) = explained["deliveries"]
                assert delivery["history"][-1]["detail"]["status"] == 422
                sink.answers = []  # the receiver is fixed
                answer = await call(agent, "dlq_reprocess", msg_ids=[item["id"] for item in page["items"]])
                assert answer["reprocessed"] == 3
                await sink.wait_for(6)
                assert (await call(agent, "dlq_count"))["count"] == 0
                assert (await call(agent, "verify_receipts"))["ok"] is True
