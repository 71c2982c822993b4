"""A stream as a log, on every connection an application may have: gapless, ordered, closed for good."""

from __future__ import annotations

import asyncio

import pytest

from clients import POSTGRES, SQLITE, Django, PsycopgServerCursor
from holdfast import BadInput, Conflict, DedupConflict, Outbox, StreamClosed
from holdfast.domain.errors import NotFound
from holdfast.store.open import migrate_store
from postgres import end_schema, fresh_schema, newest, start

pytest_plugins = ("postgres",)

CLIENTS = [
    pytest.param(kind, id=kind.__name__)
    for kind in (*SQLITE, *POSTGRES)
    if not issubclass(kind, PsycopgServerCursor | Django)  # these need a process of their own
]


@pytest.fixture
def place(request, tmp_path):
    """The URL of a store, and the folder that a client opens."""
    if request.getfixturevalue("kind") in SQLITE:
        yield f"sqlite:///{tmp_path}/app.db", tmp_path
        return
    server, schema = start(newest()), fresh_schema()
    yield server.url(schema), server.folder
    asyncio.run(end_schema(server, schema))


@pytest.fixture
def outbox(place):
    migrate_store(place[0], own=False, driver="sqlite3")
    return Outbox(place[0])


@pytest.fixture
async def client(kind, place, outbox):
    client = kind()
    await client.open(place[1])
    yield client
    await client.close()


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_stream_on_every_kind_of_connection(client, outbox):
    log = outbox.stream("run:1")
    await client.begin()
    first = await client.call(log.append, client.handle, "step", {"n": 1})
    second = await client.call(log.append, client.handle, "step", {"n": 2}, expected_seq=2, dedup="two")
    assert (first.stream, first.seq, second.seq, second.duplicate) == ("run:1", 1, 2, False)
    again = await client.call(log.append, client.handle, "step", {"n": 2}, expected_seq=9, dedup="two")
    assert (again.id, again.seq, again.duplicate) == (second.id, 2, True)
    cursor = await client.call(outbox.ensure_cursor, "r", "run:1", connection=client.handle)
    assert (cursor.position, cursor.next_seq) == (0, 1)
    moved = await client.call(outbox.advance_cursor, "r", "run:1", 1, expected=0, connection=client.handle)
    assert moved.position == 1
    await client.commit()
    await client.begin()
    with pytest.raises(Conflict):
        await client.call(outbox.advance_cursor, "r", "run:1", 1, expected=0, connection=client.handle)
    await client.rollback()
    await client.begin()
    with pytest.raises(Conflict):
        await client.call(log.append, client.handle, "step", expected_seq=2)
    await client.rollback()
    await client.begin()
    last = await client.call(log.close, client.handle, payload={"ok": True})
    assert last.seq == 3
    await client.commit()
    await client.begin()
    with pytest.raises(StreamClosed):
        await client.call(log.append, client.handle, "step")
    await client.rollback()
    assert (await outbox.get_cursor_async("r", "run:1")).position == 1


@pytest.fixture
def kind():
    return SQLITE[0]


def test_expected_seq_refuses_what_another_writer_appended_first(client, outbox):
    log = outbox.stream("run:1")
    with client.raw:
        assert log.append(client.raw, "t", expected_seq=1).seq == 1
        with pytest.raises(Conflict, match="its last event is 1"):
            log.append(client.raw, "t", expected_seq=1)
        with pytest.raises(Conflict, match="its last event is 1"):
            log.append(client.raw, "t", expected_seq=3)
        assert log.append(client.raw, "t", expected_seq=2).seq == 2
        with pytest.raises(Conflict, match="it has no event yet"):
            outbox.stream("run:2").append(client.raw, "t", expected_seq=2)


def test_a_rolled_back_append_leaves_no_gap(client, outbox):
    log = outbox.stream("run:1")
    with client.raw:
        log.append(client.raw, "t")
        client.raw.rollback()
    with client.raw:
        assert log.append(client.raw, "t").seq == 1


def test_bad_input_is_refused_with_a_sentence(client, outbox):
    log = outbox.stream("run:1")
    for wrong in ({"stream": "run:2"}, {"at": 1}, {"expected_seq": 0}, {"expected_seq": True}, {"colour": 1}):
        with pytest.raises(BadInput):
            log.append(client.raw, "t", **wrong)
    with pytest.raises(BadInput):
        outbox.stream(" ")
    with pytest.raises(BadInput, match="needs connection="):
        outbox.advance_cursor("r", "run:1", 1, expected=0)
    with client.raw:
        log.append(client.raw, "t", {"n": 1}, dedup="k")
        with pytest.raises(DedupConflict):
            log.append(client.raw, "t", {"n": 2}, dedup="k", expected_seq=2)


def test_cursors_without_a_connection_commit_at_once(client, outbox):
    assert outbox.get_cursor("publisher", "run:1") is None
    assert outbox.ensure_cursor("publisher", "run:1").position == 0
    assert outbox.ensure_cursor("other", "run:1", position=7).position == 7
    assert outbox.advance_cursor("publisher", "run:1", 3).position == 3
    with pytest.raises(Conflict):
        outbox.advance_cursor("publisher", "run:1", 2)
    with pytest.raises(NotFound):
        outbox.advance_cursor("unknown", "run:1", 2)
    assert outbox.get_cursor("publisher", "run:1").position == 3


def test_an_event_cannot_be_changed(client, outbox):
    with client.raw:
        outbox.stream("run:1").append(client.raw, "t")
    with pytest.raises(Exception, match="an event cannot be changed"):
        client.raw.execute("UPDATE holdfast_events SET payload = '1'")
