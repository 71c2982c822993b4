"""From a list of what waits to the router's place: what waited waits, with gaps and through a crash in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.domain.contract import Contract, parse_address
from holdfast.domain.retry import POLICIES
from holdfast.proof.power_cuts.contents import stray_rows
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.base import DeliveryFilter
from holdfast.store.sqlite import migrate as migrations
from holdfast.store.sqlite.connection import Connection, tune
from holdfast.store.sqlite.migrate import migrate, scripts, split, version_of
from holdfast.store.sqlite.store import DRIVERS, SqliteStore, inline_executor

PLACE = 5
EVENTS = 12
WAITING = [3, 4, 8, 11, 12]  # 3 and 4 were offered to the contracts anew, 8 stands alone, 11 and 12 came last


@pytest.fixture(params=["apsw", "sqlite3"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def connect(path: Path, driver: str) -> Connection:
    connection = DRIVERS[driver](path)
    tune(connection)
    return connection


def old_store(path: Path, driver: str, monkeypatch: pytest.MonkeyPatch, waiting: list[int] = WAITING) -> None:
    """A store as it was before: every event was routed to one queue but those that wait."""
    everything = scripts()
    monkeypatch.setattr(migrations, "scripts", lambda: [item for item in everything if item[0] < PLACE])
    connection = connect(path, driver)
    migrate(connection, "1", own=True)
    for number in range(1, EVENTS + 1):
        connection.run("INSERT INTO holdfast_publish (id, type) VALUES (?, 't')", (f"evt_{number:032x}",))
    assert connection.rows("SELECT count(*) FROM holdfast_unrouted") == [(EVENTS,)]
    connection.run("INSERT INTO holdfast_queues (id, address, kind) VALUES (1, 'handler:old', 'handler')")
    for number in set(range(1, EVENTS + 1)) - set(waiting):
        connection.run("DELETE FROM holdfast_unrouted WHERE event = ?", (number,))
        connection.run("INSERT INTO holdfast_deliveries (event, queue, created_at) VALUES (?, 1, 1)", (number,))
        connection.run("INSERT INTO holdfast_ready (delivery, queue, due_at) VALUES (last_insert_rowid(), 1, 1)")
    connection.close()
    monkeypatch.setattr(migrations, "scripts", lambda: everything)


def waiting_in(connection: Connection) -> list[int]:
    return [row[0] for row in connection.rows("SELECT event FROM holdfast_unrouted ORDER BY event")]


@pytest.mark.parametrize("waiting", [WAITING, [], [EVENTS], list(range(1, EVENTS + 1))])
async def test_what_waited_is_routed_once_and_nothing_else_is(
    tmp_path: Path, driver: str, monkeypatch: pytest.MonkeyPatch, waiting: list[int]
) -> None:
    path = tmp_path / "h.db"
    old_store(path, driver, monkeypatch, waiting)
    store = SqliteStore.open(path, driver=driver, keep=True, executor=inline_executor)
    assert await store.routing.backlog() == len(waiting)
    await store.contracts.put(Contract("new", parse_address("handler:new")), None)
    router = Router(store.routing, Registry(store.contracts, POLICIES))
    while await router.tick() is not None:
        pass
    page = await store.operator.deliveries(DeliveryFilter(contract="new"), None, 100)
    assert sorted(int(row.event_id[4:], 16) for row in page.items) == waiting
    assert await store.routing.backlog() == 0
    await store.close()
    connection = connect(path, driver)
    connection.run("INSERT INTO holdfast_publish (type) VALUES ('t')")
    assert waiting_in(connection) == [EVENTS + 1]
    assert stray_rows(connection) == {}
    connection.close()


def test_a_crash_between_any_two_statements_loses_no_place(
    tmp_path: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "h.db"
    old_store(path, driver, monkeypatch)
    everything = scripts()
    statements = split(dict(everything)[PLACE])
    for done in range(len(statements) + 1):
        broken = "\n".join([*statements[:done], "SELECT nonsense;\n"])
        monkeypatch.setattr(migrations, "scripts", lambda broken=broken: [*everything[: PLACE - 1], (PLACE, broken)])
        connection = connect(path, driver)
        with pytest.raises(Exception, match="nonsense"):
            migrate(connection, "2", own=True)
        connection.close()
        connection = connect(path, driver)
        assert (version_of(connection), waiting_in(connection)) == (PLACE - 1, WAITING)
        connection.run("SAVEPOINT look")
        connection.run("INSERT INTO holdfast_publish (type) VALUES ('t')")
        assert waiting_in(connection) == [*WAITING, EVENTS + 1]
        connection.run("ROLLBACK TO look")
        connection.run("RELEASE look")
        connection.close()
    monkeypatch.setattr(migrations, "scripts", lambda: everything)
    connection = connect(path, driver)
    migrate(connection, "2", own=True)
    assert waiting_in(connection) == WAITING
    assert connection.rows("SELECT place FROM holdfast_router") == [(EVENTS,)]
    assert stray_rows(connection) == {}
    connection.close()
