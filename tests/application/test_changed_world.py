"""Stored state read under another configuration, other code or another version: one thing changed at a time.

Whatever is missing now, the process starts, names what is missing, keeps what waits for it, and does everything else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import BadInput, Outbox
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain import ed25519
from holdfast.domain.event import new_event
from holdfast.ingress.accept import parse_event
from holdfast.ingress.publish import event_from_call
from holdfast.operations.answers.encode import encode
from holdfast.store.open import open_store
from postgres import end_schema, fresh_schema, newest, start

HANGS_S = 60.0
SLOW = "policies: {slow: {schedule: [60], attempts: 5}}\n"


class World:
    """One store that outlives configurations and applications."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url

    @asynccontextmanager
    async def working(self, config: str = "", app: Outbox | None = None, **handlers: Any) -> AsyncIterator[Runtime]:
        path = self.folder / "holdfast.yml"
        path.write_text(config)
        store = open_store(self.url, driver="sqlite3", keep=True, own=False)
        parts: dict[str, Any] = {"handlers": handlers}
        if app is not None:
            parts = {"handlers": app.handlers, "contracts": app.contracts.all(), "modules": app.modules}
        runtime = Runtime(store, load_config(path), None, **parts)
        await runtime.start()
        try:
            yield runtime
        finally:
            await runtime.stop(1.0)

    async def change(self, old: str, new: str) -> None:
        """Another version wrote the contracts: change their stored text."""
        store = open_store(self.url, driver="sqlite3", own=False)
        if self.url.startswith("sqlite"):
            statement = "UPDATE holdfast_contracts SET contract_json = replace(contract_json, ?, ?)"
            await store._writer.run(lambda connection: connection.run(statement, (old, new)))  # type: ignore[attr-defined]
        else:
            statement = "UPDATE {schema}.contracts SET contract_json = replace(contract_json, $1, $2)"
            await store._pool.run(lambda session: session.run(statement, old, new))  # type: ignore[attr-defined]
        await store.close()


@asynccontextmanager
async def postgres_world(folder: Path) -> AsyncIterator[World]:
    server, schema = start(newest()), fresh_schema()
    yield World(folder, server.url(schema))
    await end_schema(server, schema)


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    if request.param == "sqlite":
        yield World(tmp_path, f"sqlite:///{tmp_path}/world.db")
        return
    async with postgres_world(tmp_path) as world:
        yield world


class Seen(list[str]):
    """A handler that remembers the types it was given."""

    async def take(self, event: Any) -> None:
        self.append(event.type)


async def until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(HANGS_S):
        while not (await found if asyncio.iscoroutine(found := done()) else found):
            await asyncio.sleep(0.01)


async def add(runtime: Runtime, id: str, type: str, handler: str = "seen", **options: Any) -> None:
    await runtime.operations.contracts.add(
        {"id": id, "target": {"handler": handler}, "type_criterion": type, **options}
    )


async def emit(runtime: Runtime, *types: str) -> None:
    await runtime.store.events.append([new_event(type) for type in types])


async def pending(runtime: Runtime, address: str | None = None) -> list[dict[str, Any]]:
    found = encode(await runtime.operations.deliveries.find(state="pending", address=address))
    return list(found["items"])


async def misconfigured(runtime: Runtime) -> dict[str, str]:
    """As the contracts show it, and as the status shows it: the same."""
    status = encode(await runtime.operations.status.show())
    shown = {one["id"]: one["misconfigured"] for one in encode(await runtime.operations.contracts.find(inactive=True))}
    for entry in status["misconfigured"]:
        assert shown.get(entry["contract_id"], entry["why"]) == entry["why"]
    return {id: why for id, why in shown.items() if why is not None}


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
        await until(lambda: _has_pending(runtime, 1))
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
        assert "holdfast[ed25519]" in runtime._registry.faults()["signed"]
        assert encode(await runtime.operations.status.show())["misconfigured"] == [
            {"contract_id": "signed", "why": runtime._registry.faults()["signed"]}
        ]
    assert ed25519.is_available()


def app(world: World, *names: str, **options: Any) -> tuple[Outbox, Seen]:
    """An application whose code has these handlers, each for the type of its own name."""
    outbox, seen = Outbox(world.url, application="shop"), Seen()
    for name in names:
        outbox.on(name, name=name, **options)(seen.take)
    return outbox, seen


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
        await until(lambda: _has_pending(runtime, 1))  # what waited before is parked, and nothing is added to it
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
        await runtime.store._pool.run(lambda session: session.run(statement))  # type: ignore[attr-defined]


async def test_a_contract_that_an_older_process_still_serves_is_not_retired(world: World) -> None:
    before, _ = app(world, "order.placed")
    async with world.working(app=before) as runtime:
        retired = await runtime.store.contracts.register(before.modules(), [], alone=False)
        assert retired == []
        await _forget_who_serves(runtime)
        assert await runtime.store.contracts.register(before.modules(), [], alone=False) == ["order.placed"]


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
        await until(lambda: _has_pending(runtime, 1))
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
        await until(lambda: _has_pending(runtime, 3))
    async with world.working("", seen=seen.take) as runtime:
        await add(runtime, "c", "a", ordered=False)
        await runtime.operations.maintenance.resume("contract", "c")
        await until(lambda: len(seen) == 3)


async def _has_pending(runtime: Runtime, count: int) -> bool:
    return len(await pending(runtime)) == count


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


@pytest.mark.parametrize("to", ["session:abc", "session:claude-1"])
def test_a_direct_address_into_a_session_is_refused_while_nothing_delivers_there(to: str) -> None:
    for refused in (lambda: parse_event({"type": "a", "to": to}), lambda: event_from_call("a", None, {"to": to})):
        with pytest.raises(BadInput, match="is not delivered by this version"):
            refused()


async def test_a_stored_event_for_a_session_is_unmatched_and_stops_nothing(world: World) -> None:
    seen = Seen()
    async with world.working("", seen=seen.take) as runtime:
        await add(runtime, "c", "b")
        await runtime.store.events.append([new_event("a", to="session:abc"), new_event("b")])
        await until(lambda: seen == ["b"])
        await until(lambda: _is_empty(runtime))
        found = encode(await runtime.operations.events.find(unmatched=True))
        assert [event["type"] for event in found["items"]] == ["a"]
    assert json.dumps(found)


async def test_a_delivery_to_a_handler_that_no_process_serves_says_what_it_waits_for(world: World) -> None:
    seen = Seen()
    async with world.working("", seen=seen.take) as runtime:
        await add(runtime, "c", "a", handler="nope")
        await add(runtime, "held", "b")
        await runtime.operations.maintenance.pause("contract", "held")
        await runtime.store.events.append([new_event("a"), new_event("b"), new_event("d", to="handler:nobody")])
        await until(lambda: _has_pending(runtime, 3))
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


async def _has_pending(runtime: Runtime, count: int) -> bool:
    return len(await pending(runtime)) == count
