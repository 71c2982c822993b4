"""A store that is opened under one configuration after another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast import Outbox
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.event import new_event
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


def app(world: World, *names: str, **options: Any) -> tuple[Outbox, Seen]:
    """An application whose code has these handlers, each for the type of its own name."""
    outbox, seen = Outbox(world.url, application="shop"), Seen()
    for name in names:
        outbox.on(name, name=name, **options)(seen.take)
    return outbox, seen


async def has_pending(runtime: Runtime, count: int) -> bool:
    return len(await pending(runtime)) == count
