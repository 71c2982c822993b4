"""Stored state read under another configuration, other code or another version: one thing changed at a time.

The process starts, names what is missing, keeps the deliveries that wait for it, and does everything else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from changed_world import SLOW, Seen, World, add, emit, has_pending, misconfigured, pending, postgres_world, until
from holdfast.daemon.runtime import Runtime
from holdfast.domain import ed25519
from holdfast.domain.event import new_event
from holdfast.domain.extras import install_command
from holdfast.operations.answers.encode import encode


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    if request.param == "sqlite":
        yield World(tmp_path, f"sqlite:///{tmp_path}/world.db")
        return
    async with postgres_world(tmp_path) as world:
        yield world


async def test_a_policy_that_is_gone_keeps_its_deliveries_and_nothing_else_waits(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    async with world.working(SLOW, seen=seen.take) as runtime:
        await add(runtime, "slow", "a", policy="slow")
        await add(runtime, "plain", "b")
        await add(runtime, "off", "c", policy="slow", active=False)
        await runtime.operations.maintenance.pause("contract", "slow")
        await emit(runtime, "a")
        await until(lambda: pending(runtime))
        await runtime.operations.maintenance.resume("contract", "slow")
        await until(lambda: seen == ["a"])
    seen.clear()
    async with world.working("", seen=seen.take) as runtime:
        assert "contract slow is misconfigured: policy 'slow' is not defined here" in caplog.text
        await emit(runtime, "a", "b")
        await until(lambda: seen == ["b"])
        assert await misconfigured(runtime) == {
            "slow": "policy 'slow' is not defined here", "off": "policy 'slow' is not defined here"
        }  # fmt: skip
        await until(lambda: has_pending(runtime, 1))
        (waiting,) = await pending(runtime)
        assert waiting["waits_for"] == "its contract is misconfigured: policy 'slow' is not defined here"
        assert waiting["attempts"] == 0
        shown = encode(await runtime.operations.events.show(waiting["event_id"]))
        assert "policy 'slow'" in shown["deliveries"][0]["waits_for"]
    async with world.working(SLOW, seen=seen.take) as runtime:
        await until(lambda: seen == ["b", "a"])
        assert await misconfigured(runtime) == {}


async def test_a_misconfigured_contract_is_repaired_by_replacing_it(world: World) -> None:
    seen = Seen()
    async with world.working(SLOW, seen=seen.take) as runtime:
        await add(runtime, "slow", "a", policy="slow")
    async with world.working("", seen=seen.take) as runtime:
        await emit(runtime, "a")
        await until(lambda: pending(runtime))
        await add(runtime, "slow", "a", policy="webhook")
        await until(lambda: seen == ["a"])
        assert await misconfigured(runtime) == {}


async def test_a_misconfigured_contract_can_be_removed(world: World) -> None:
    async with world.working(SLOW, seen=Seen().take) as runtime:
        await add(runtime, "slow", "a", policy="slow")
    async with world.working("", seen=Seen().take) as runtime:
        await emit(runtime, "a")
        await until(lambda: pending(runtime))
        await runtime.operations.contracts.remove("slow")
        await until(lambda: _is_empty(runtime))
        (row,) = encode(await runtime.operations.deliveries.find())["items"]
        assert (row["state"], row["reason"]) == ("dropped", "contract_removed")


async def _is_empty(runtime: Runtime) -> bool:
    return not await pending(runtime)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"format": "raw"', '"format": "teams"', "format 'teams' is unknown to this version"),
        ('"rate": "10/s"', '"rate": "10/week"', "rate must be a number of requests per s, m or h"),
        ('{"url": "https://93.184.215.14/x"', '{"sms": "+1555"', "its stored form cannot be read by this version"),
        ('"required": true', '"needed": true', "its stored form cannot be read by this version"),
    ],
)
async def test_what_another_version_stored_is_named_and_stops_nothing(
    world: World, old: str, new: str, why: str
) -> None:
    seen = Seen()
    async with world.working("", seen=seen.take) as runtime:
        await runtime.operations.contracts.add(
            {
                "id": "newer", "target": {"url": "https://93.184.215.14/x"}, "type_criterion": "a",
                "format": "raw", "rate": "10/s",
            }
        )  # fmt: skip
        await runtime.operations.maintenance.pause("contract", "newer")
    if "required" in old:
        async with world.working("", seen=seen.take) as runtime:
            await runtime.operations.contracts.remove("newer")
            await runtime.operations.contracts.add(
                {"id": "newer", "target": {"handler": "gone"}, "type_criterion": "a"}
            )
    await world.change(old, new)
    async with world.working("", seen=seen.take) as runtime:
        await add(runtime, "plain", "b")
        await emit(runtime, "a", "b")
        await until(lambda: seen == ["b"])
        faults = await misconfigured(runtime)
        assert list(faults) == ["newer"]
        assert faults["newer"].startswith(why)
        await runtime.operations.contracts.remove("newer")
        assert await misconfigured(runtime) == {}


async def test_a_private_key_without_the_library_that_signs_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "whsk_" + "A" * 43 + "="
    async with world.working("") as runtime:
        await runtime.operations.contracts.add(
            {"id": "signed", "target": {"url": "https://93.184.215.14/x", "secret": key}, "type_criterion": "a"}
        )
        await runtime.operations.maintenance.pause("contract", "signed")
    monkeypatch.setattr("holdfast.routing.registry.can_sign_by_key", lambda: False)
    async with world.working("") as runtime:
        assert install_command("ed25519") in runtime._context.registry.faults()["signed"]
        assert encode(await runtime.operations.status.show())["misconfigured"] == [
            {"contract_id": "signed", "why": runtime._context.registry.faults()["signed"]}
        ]
    assert ed25519.is_available()


async def test_fewer_attempts_than_were_made_already_end_with_the_next_failure(world: World) -> None:
    calls: list[int] = []

    async def fail(event: Any) -> None:
        calls.append(1)
        raise ValueError("no")

    quick = "policies: {p: {schedule: [0.01, 0.01, 60], attempts: 9, jitter: 0}}\n"
    async with world.working(quick, seen=fail) as runtime:
        await add(runtime, "c", "a", policy="p")
        await emit(runtime, "a")
        await until(lambda: len(calls) == 3)
        await until(lambda: _has_attempts(runtime, 3))
    async with world.working("policies: {p: {schedule: [60], attempts: 2}}\n", seen=fail) as runtime:
        (row,) = await pending(runtime)
        await runtime.operations.deliveries.retry(row["id"], "test")
        await until(lambda: _is_empty(runtime))
        dead = encode(await runtime.operations.deliveries.show(row["id"]))
        assert (dead["state"], dead["reason"], dead["attempts"]) == ("dead", "exhausted", 4)


async def _has_attempts(runtime: Runtime, count: int) -> bool:
    return [row["attempts"] for row in await pending(runtime)] == [count]


async def test_a_contract_that_stops_being_ordered_delivers_what_waits(world: World) -> None:
    seen = Seen()
    async with world.working("", seen=seen.take) as runtime:
        await add(runtime, "c", "a", ordered=True)
        await runtime.operations.maintenance.pause("contract", "c")
        await runtime.store.events.append([new_event("a", stream="s") for _ in range(3)])
        await until(lambda: has_pending(runtime, 3))
    async with world.working("", seen=seen.take) as runtime:
        await add(runtime, "c", "a", ordered=False)
        await runtime.operations.maintenance.resume("contract", "c")
        await until(lambda: len(seen) == 3)


async def test_two_daemons_of_which_only_one_knows_a_policy(tmp_path: Path) -> None:
    knows, lacks = Seen(), Seen()
    async with postgres_world(tmp_path) as world, world.working(SLOW, seen=knows.take) as first:
        await add(first, "slow", "a", policy="slow")
        await add(first, "plain", "b")
        async with world.working("", seen=lacks.take) as second:
            await emit(second, *["a", "b"] * 20)
            await until(lambda: knows.count("a") == 20 and (knows + lacks).count("b") == 20)
            assert "a" not in lacks
            assert set(encode(await second.operations.status.show())["duties"].values()) == {"ok"}


async def test_an_event_for_a_session_that_does_not_exist_stops_nothing(world: World) -> None:
    seen = Seen()
    async with world.working("", seen=seen.take) as runtime:
        await add(runtime, "c", "b")
        await runtime.store.events.append([new_event("a", to="session:abc"), new_event("b")])
        await until(lambda: seen == ["b"])
        await until(lambda: has_pending(runtime, 1))  # it is retried for an hour
        (waiting,) = await pending(runtime)
        assert waiting["address"] == "handler:messages"


async def test_a_delivery_to_a_handler_that_no_process_serves_says_what_it_waits_for(world: World) -> None:
    seen = Seen()
    async with world.working("", seen=seen.take) as runtime:
        await add(runtime, "c", "a", handler="nope")
        await add(runtime, "held", "b")
        await runtime.operations.maintenance.pause("contract", "held")
        await runtime.store.events.append([new_event("a"), new_event("b"), new_event("d", to="handler:nobody")])
        await until(lambda: has_pending(runtime, 3))
        waits = {item["address"]: item["waits_for"] for item in await pending(runtime)}
        assert waits == {
            "handler:nope": "a process that serves handler 'nope'",
            "handler:seen": "paused",
            "handler:nobody": "a process that serves handler 'nobody'",
        }
        for item in await pending(runtime):
            assert (await runtime.operations.deliveries.show(item["id"])).waits_for == item["waits_for"]
            event = encode(await runtime.operations.events.show(item["event_id"]))
            assert [delivery["waits_for"] for delivery in event["deliveries"]] == [item["waits_for"]]
        await runtime.operations.maintenance.resume("contract", "held")
        await until(lambda: seen == ["b"])
