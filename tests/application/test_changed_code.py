"""Contracts in code that changed since they were stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from changed_world import SLOW, Seen, World, add, app, emit, has_pending, misconfigured, pending, postgres_world, until
from holdfast import Outbox
from holdfast.daemon.runtime import Runtime
from holdfast.operations.answers.encode import encode


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    if request.param == "sqlite":
        yield World(tmp_path, f"sqlite:///{tmp_path}/world.db")
        return
    async with postgres_world(tmp_path) as world:
        yield world


async def test_a_renamed_handler_leaves_no_contract_that_nobody_serves(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    before, _ = app(world, "order.placed")
    async with world.working(app=before) as runtime:
        await runtime.operations.maintenance.pause("contract", "order.placed")
        await emit(runtime, "order.placed")
        await until(lambda: pending(runtime))
        await _long_ago(runtime)
    after, seen = app(world, "order.shipped")
    async with world.working(app=after) as runtime:
        await until(lambda: "contract order.placed is retired" in caplog.text)
        old = encode(await runtime.operations.contracts.show("order.placed"))
        assert (old["active"], old["retired"]) == (False, True)
        await emit(runtime, "order.placed", "order.shipped")
        await until(lambda: seen == ["order.shipped"])
        await until(lambda: has_pending(runtime, 1))  # what waited before is parked, and nothing is added to it
        await runtime.operations.maintenance.resume("contract", "order.placed")
        assert len(await pending(runtime)) == 1
    again, seen = app(world, "order.placed", "order.shipped")
    async with world.working(app=again) as runtime:
        await until(lambda: seen == ["order.placed"])
        old = encode(await runtime.operations.contracts.show("order.placed"))
        assert (old["active"], old["retired"]) == (True, False)


async def _long_ago(runtime: Runtime) -> None:
    """On PostgreSQL a contract that was served a moment ago may still be served by another process."""
    if runtime.store.url.startswith("postgres"):
        statement = "UPDATE {schema}.queues SET served_at = 0"
        await runtime.store._pool.run(lambda connection: connection.run(statement))  # type: ignore[attr-defined]


async def test_a_contract_that_an_older_process_still_serves_is_not_retired(world: World) -> None:
    before, _ = app(world, "order.placed")
    async with world.working(app=before) as runtime:
        retired = await runtime.store.contracts.register(before.modules(), [], alone=False)
        assert retired == []
        await until(lambda: _retires_unserved(runtime, before))


async def _retires_unserved(runtime: Runtime, before: Outbox) -> bool:
    """The sweeper records at its first run what is served here, so one try may come too early."""
    await _forget_who_serves(runtime)
    return await runtime.store.contracts.register(before.modules(), [], alone=False) == ["order.placed"]


async def _forget_who_serves(runtime: Runtime) -> None:
    if runtime.store.url.startswith("postgres"):
        await _long_ago(runtime)
    else:
        statement = "UPDATE holdfast_queues SET served_at = 0"
        await runtime.store._writer.run(lambda connection: connection.run(statement))  # type: ignore[attr-defined]


async def test_the_contracts_of_another_application_are_left_alone(world: World) -> None:
    before, _ = app(world, "order.placed")
    async with world.working(app=before):
        pass
    other = Outbox(world.url, application="billing")
    other.on("invoice", name="invoice")(Seen().take)
    async with world.working(app=other) as runtime:
        assert encode(await runtime.operations.contracts.show("order.placed"))["active"]


async def test_contracts_of_a_module_that_is_not_loaded_are_left_alone(world: World) -> None:
    """Two processes share an outbox, and each has handlers of its own: one that is away is not one that is gone."""
    worker, seen = Outbox(world.url), Seen()

    async def ship(event: Any) -> None:
        seen.append(event.type)

    ship.__module__ = "shop.worker"  # of a process that has this module
    worker.on("order.placed", name="ship")(ship)
    async with world.working(app=worker) as runtime:
        await _long_ago(runtime)
    mailer, _ = app(world, "mail")
    async with world.working(app=mailer) as runtime:
        assert encode(await runtime.operations.contracts.show("ship"))["active"]
        await emit(runtime, "order.placed")
        await until(lambda: has_pending(runtime, 1))
    async with world.working(app=worker):
        await until(lambda: seen == ["order.placed"])


async def test_an_operators_choice_outlives_a_restart_of_the_application(world: World) -> None:
    before, _ = app(world, "order.placed")
    async with world.working(app=before) as runtime:
        await runtime.operations.contracts.enable("order.placed", active=False)
    async with world.working(app=before) as runtime:
        shown = encode(await runtime.operations.contracts.show("order.placed"))
        assert (shown["active"], shown["retired"]) == (False, False)


async def test_code_may_name_a_policy_of_the_configuration(world: World) -> None:
    outbox, seen = app(world, "a", policy="slow")
    async with world.working(SLOW, app=outbox) as runtime:
        await emit(runtime, "a")
        await until(lambda: seen == ["a"])
    async with world.working("", app=outbox) as runtime:
        assert await misconfigured(runtime) == {"a": "policy 'slow' is not defined here"}


async def test_a_handler_that_is_gone_is_named(world: World) -> None:
    async with world.working("", seen=Seen().take) as runtime:
        await add(runtime, "c", "a", handler="elsewhere")
        assert encode(await runtime.operations.contracts.show("c"))["misconfigured"] == (
            "handler 'elsewhere' is served by no process"
        )
