"""The door: one INSERT from any language, in any transaction. Here from the command-line shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.domain.errors import BadInput, DedupConflict, StreamClosed
from holdfast.domain.event import new_event
from holdfast.store.sqlite.store import DRIVERS, SqliteStore, inline_executor, prepare_file
from store_shell import Shell


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app.db"
    prepare_file(path, "apsw", own=False, create=True)
    return path


def publish(**values: str | int) -> str:
    names = ", ".join(f'"{name}"' for name in values)
    return f"INSERT INTO holdfast_publish ({names}) VALUES ({', '.join(repr(value) for value in values.values())});"


def test_only_the_type_must_be_given(file: Path, shell: Shell) -> None:
    shell.rows(file, publish(type="order.placed"))
    (row,) = shell.rows(file, "SELECT *, unixepoch() * 1000 AS now FROM holdfast_events;")
    assert (row["type"], row["source"], row["stream"], row["seq"]) == ("order.placed", "app", None, 1)
    assert (row["properties"], row["payload"], row["dedup_key"]) == ("{}", "null", None)
    assert row["id"].startswith("evt_")
    assert len(row["id"]) == len("evt_") + 32
    assert abs(row["accepted_at"] - row["now"]) < 60_000
    assert row["timestamp"].endswith("Z")
    assert "T" in row["timestamp"]
    assert shell.rows(file, "SELECT count(*) AS n FROM holdfast_unrouted;") == [{"n": 1}]


def test_an_id_made_in_sql_sorts_with_those_made_in_python(file: Path, shell: Shell) -> None:
    shell.rows(file, publish(type="t"))
    (row,) = shell.rows(file, "SELECT id, accepted_at FROM holdfast_events;")
    assert abs(int(row["id"][4:16], 16) - row["accepted_at"]) < 2


def test_streams_count_through_the_door(file: Path, shell: Shell) -> None:
    shell.rows(file, "\n".join(publish(type="t", stream=stream) for stream in ("a", "a", "b", "a")))
    found = shell.rows(file, "SELECT stream, seq FROM holdfast_events ORDER BY n;")
    assert [(row["stream"], row["seq"]) for row in found] == [("a", 1), ("a", 2), ("b", 1), ("a", 3)]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (publish(payload="{}"), "holdfast: type is missing"),
        (publish(type=""), "holdfast: type is missing"),
        (publish(type="x" * 256), "holdfast: type is missing or longer than 255 characters"),
        (publish(type="t", stream="s", payload="{bad"), "holdfast: payload is not JSON"),
        (publish(type="t", stream="s", properties="[1]"), "holdfast: properties is not a JSON object"),
        (publish(type="t", stream="s", properties="nope"), "holdfast: properties is not a JSON object"),
        (publish(type="t", stream="s", not_before=5), "holdfast: not_before cannot be combined with stream"),
        (
            publish(type="t", to="mailto:x"),
            "holdfast: to is not an address: use https://…, handler:NAME or session:NAME",
        ),
        (publish(type="t", to="HTTPS://example.com"), "the scheme in lower case"),
        (publish(type="t", to="session:"), "holdfast: to is not an address"),
        (publish(type="t", stream="closed"), "holdfast: stream is closed"),
        (publish(type="t", stream="s", dedup_key="k", payload="2"), "holdfast: dedup_key was used with another body"),
        (publish(type="u", dedup_key="k", payload="1"), "holdfast: dedup_key was used with another body"),
    ],
)
def test_what_cannot_be_accepted_is_refused_with_a_clear_error_and_writes_nothing(
    file: Path, shell: Shell, statement: str, message: str
) -> None:
    shell.rows(file, publish(type="t", dedup_key="k", payload="1") + publish(type="t", stream="closed"))
    shell.rows(file, "UPDATE holdfast_streams SET closed_at = 1 WHERE id = 'closed';")
    done = shell.run(file, statement)
    assert done.returncode != 0
    assert message in done.stderr
    counts = (
        "SELECT (SELECT count(*) FROM holdfast_events) AS events, (SELECT count(*) FROM holdfast_streams) AS streams;"
    )
    assert shell.rows(file, counts) == [{"events": 2, "streams": 1}]


def test_the_same_key_and_body_again_is_accepted_and_writes_nothing(file: Path, shell: Shell) -> None:
    again = publish(type="t", stream="s", dedup_key="k", payload="1")
    shell.rows(file, again + again + publish(type="t", stream="s") + again)
    assert shell.rows(file, "SELECT count(*) AS n, max(seq) AS head FROM holdfast_events;") == [{"n": 2, "head": 2}]
    assert shell.rows(file, "SELECT head FROM holdfast_streams;") == [{"head": 2}]


def test_an_event_accepted_before_a_stream_closed_may_be_sent_again(file: Path, shell: Shell) -> None:
    keyed = publish(type="t", stream="s", dedup_key="k")
    named = publish(type="t", stream="s", id="evt_1")
    shell.rows(file, keyed + named + "UPDATE holdfast_streams SET closed_at = 1;" + keyed + named)
    assert shell.rows(file, "SELECT count(*) AS n FROM holdfast_events;") == [{"n": 2}]


def test_a_rollback_leaves_nothing(file: Path, shell: Shell) -> None:
    shell.rows(file, "BEGIN;" + publish(type="t", stream="s", dedup_key="k") + "ROLLBACK;")
    for table in ("events", "streams", "dedup", "unrouted"):
        assert shell.rows(file, f"SELECT count(*) AS n FROM holdfast_{table};") == [{"n": 0}]
    shell.rows(file, publish(type="t", stream="s", dedup_key="k"))
    assert shell.rows(file, "SELECT seq FROM holdfast_events;") == [{"seq": 1}]


def test_a_savepoint_takes_back_only_what_came_after_it(file: Path, shell: Shell) -> None:
    shell.rows(
        file,
        "BEGIN;" + publish(type="first", stream="s") + "SAVEPOINT x;" + publish(type="lost", stream="s")
        + "ROLLBACK TO x; RELEASE x;" + publish(type="second", stream="s") + "COMMIT;",
    )  # fmt: skip
    found = shell.rows(file, "SELECT type, seq FROM holdfast_events ORDER BY n;")
    assert found == [{"type": "first", "seq": 1}, {"type": "second", "seq": 2}]


def test_a_refused_event_does_not_end_the_callers_transaction(file: Path, driver: str) -> None:
    connection = DRIVERS[driver](file)
    connection.run("CREATE TABLE orders (id INTEGER)")
    connection.run("BEGIN")
    connection.run("INSERT INTO orders VALUES (42)")
    with pytest.raises(BadInput, match="payload is not JSON"):
        connection.run("INSERT INTO holdfast_publish (type, payload) VALUES ('t', '{')")
    connection.run("INSERT INTO holdfast_publish (type, payload) VALUES ('t', '{}')")
    connection.run("COMMIT")
    assert connection.rows("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM holdfast_events)") == [(1, 1)]
    connection.close()


async def test_a_key_used_in_plain_sql_is_known_in_python_and_the_other_way_round(
    file: Path, driver: str, shell: Shell
) -> None:
    shell.rows(file, publish(type="t", stream="s", dedup_key="sql", payload='{"a":1}'))
    store = SqliteStore.open(file, driver=driver, executor=inline_executor)
    (same,) = await store.events.append([new_event("t", {"a": 1}, stream="s", dedup_key="sql")])
    assert same.duplicate
    with pytest.raises(DedupConflict):
        await store.events.append([new_event("t", {"a": 2}, stream="s", dedup_key="sql")])
    await store.events.append([new_event("t", {"b": 1}, stream="s", dedup_key="py")])
    shell.rows(file, publish(type="t", stream="s", dedup_key="py", payload='{"b":1}'))
    assert "another body" in shell.run(file, publish(type="t", stream="s", dedup_key="py", payload="0")).stderr
    assert [event.seq for event in await store.events.read("s", 0, 9)] == [1, 2]
    await store.close()


async def test_a_closed_stream_takes_no_more_events_from_python_either(file: Path, driver: str, shell: Shell) -> None:
    store = SqliteStore.open(file, driver=driver, executor=inline_executor)
    await store.events.append([new_event("t", stream="s", dedup_key="k")])
    shell.rows(file, "UPDATE holdfast_streams SET closed_at = 5;")
    with pytest.raises(StreamClosed):
        await store.events.append([new_event("t", stream="s")])
    assert (await store.events.append([new_event("t", stream="s", dedup_key="k")]))[0].duplicate
    row = await store.events.stream("s")
    assert row is not None
    assert (row.head, row.closed_at_ms) == (1, 5)
    await store.close()


async def test_a_plain_event_is_written_as_the_door_would_write_it(tmp_path: Path, driver: str) -> None:
    """Alone it goes straight into the table, in company of one with a stream through the door."""
    store = SqliteStore.open(tmp_path / "h.db", driver=driver, executor=inline_executor)
    plain = new_event("order.placed", {"id": 42}, source="shop", properties={"tier": "gold"})
    await store.events.append([plain])
    await store.events.append([plain, new_event("t", stream="s")])
    columns = "source, type, stream, seq, properties, payload, dedup_key, address, not_before"
    look = (
        f"SELECT {columns}, accepted_at - unixepoch() * 1000 < 60000 AS fresh FROM holdfast_events ORDER BY n LIMIT 2"
    )
    straight, through_the_door = await store._reader.run(lambda c: c.rows(look))
    assert straight == through_the_door
    assert await store.routing.backlog() == 3
    await store.close()


async def test_a_plain_event_sent_again_with_its_id_is_stored_once(tmp_path: Path, driver: str) -> None:
    store = SqliteStore.open(tmp_path / "h.db", driver=driver, executor=inline_executor)
    for payload in (1, 2):
        (answer,) = await store.events.append([new_event("t", payload, id="evt_again")])
        assert (answer.id, answer.stream, answer.seq) == ("evt_again", "evt_again", 1)
    event = await store.events.get("evt_again")
    assert event is not None
    assert event.payload == 1
    assert await store.routing.backlog() == 1
    await store.close()
