"""The door: one function from any language, in any transaction. Here from psql and from a bare driver."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import pytest

from holdfast.domain.errors import BadInput, DedupConflict, StreamClosed
from holdfast.domain.event import NewEvent, new_event
from postgres import Server, opened

pytest_plugins = ("postgres",)


@pytest.fixture
def door(server: Server, schema: str) -> str:
    async def make() -> None:
        async with opened(server, schema) as store:
            await store.contracts.version()

    asyncio.run(make())
    return f"{schema}.publish"


def rows(server: Server, sql: str) -> list[dict[str, object]]:
    done = server.psql(f"SELECT coalesce(json_agg(q), '[]') FROM ({sql}) q;")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_only_the_type_must_be_given(server: Server, schema: str, door: str) -> None:
    (answer,) = rows(server, f"SELECT * FROM {door}('order.placed')")
    (event,) = rows(server, f"SELECT *, {schema}.now_ms() AS now FROM {schema}.events")
    assert answer == {"id": event["id"], "stream": event["id"], "seq": 1, "duplicate": False}
    assert (event["type"], event["source"], event["stream"], event["seq"]) == ("order.placed", "app", None, 1)
    assert (event["properties"], event["payload"], event["dedup_key"]) == ("{}", "null", None)
    id, at, now = str(event["id"]), int(str(event["accepted_at"])), int(str(event["now"]))
    assert len(id) == len("evt_") + 32
    assert abs(int(id[4:16], 16) - at) < 1000
    assert abs(now - at) < 60_000
    assert str(event["timestamp"]).endswith("Z")
    assert rows(server, f"SELECT count(*) AS n FROM {schema}.unrouted") == [{"n": 1}]


def test_arguments_have_names_and_streams_count(server: Server, schema: str, door: str) -> None:
    for stream in ("a", "a", "b", "a"):
        done = server.psql(f"SELECT {door}('t', '{{\"x\": 1}}', stream => '{stream}', \"to\" => 'handler:x');")
        assert done.returncode == 0, done.stderr
    found = rows(server, f"SELECT stream, seq, payload, address FROM {schema}.events ORDER BY n")
    assert [(row["stream"], row["seq"]) for row in found] == [("a", 1), ("a", 2), ("b", 1), ("a", 3)]
    assert {(row["payload"], row["address"]) for row in found} == {('{"x": 1}', "handler:x")}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("NULL", "HF001", "holdfast: type is missing"),
        ("''", "HF001", "holdfast: type is missing"),
        ("repeat('x', 256)", "HF001", "holdfast: type is missing or longer than 255 characters"),
        ("'t', '{bad', stream => 's'", "HF001", "holdfast: payload is not JSON"),
        ("'t', '', stream => 's'", "HF001", "holdfast: payload is not JSON"),
        ("'t', properties => '[1]'", "HF001", "holdfast: properties is not a JSON object"),
        ("'t', properties => 'nope'", "HF001", "holdfast: properties is not a JSON object"),
        ("'t', \"to\" => 'mailto:x'", "HF001", "holdfast: to is not an address"),
        ("'t', \"to\" => 'HTTPS://example.com'", "HF001", "the scheme in lower case"),
        ("'t', \"to\" => 'session:'", "HF001", "holdfast: to is not an address"),
        ("'t', stream => 's', not_before => 5", "HF001", "holdfast: not_before cannot be combined with stream"),
        ("'t', stream => 'closed'", "HF003", "holdfast: stream is closed"),
        ("'t', '2', stream => 's', dedup_key => 'k'", "HF002", "holdfast: dedup_key was used with another body"),
        ("'u', '1', dedup_key => 'k'", "HF002", "holdfast: dedup_key was used with another body"),
    ],
)
def test_what_cannot_be_accepted_is_refused_with_a_clear_error_and_writes_nothing(
    server: Server,
    schema: str,
    door: str,
    arguments: str,
    code: str,
    message: str,
) -> None:
    server.psql(f"SELECT {door}('t', '1', dedup_key => 'k'); SELECT {door}('t', stream => 'closed');")
    server.psql(f"UPDATE {schema}.streams SET closed_at = 1 WHERE id = 'closed';")
    done = server.psql(f"\\set VERBOSITY verbose\nSELECT {door}({arguments});")
    assert done.returncode != 0
    assert message in done.stderr
    assert code in done.stderr
    counts = f"SELECT (SELECT count(*) FROM {schema}.events) AS e, (SELECT count(*) FROM {schema}.streams) AS s"
    assert rows(server, counts) == [{"e": 2, "s": 1}]


def test_the_same_key_and_body_is_the_first_event_even_on_a_closed_stream(
    server: Server,
    schema: str,
    door: str,
) -> None:
    said = f"SELECT * FROM {door}('t', '1', stream => 's', dedup_key => 'k')"
    (first,) = rows(server, said)
    server.psql(f"UPDATE {schema}.streams SET closed_at = 1;")
    (again,) = rows(server, said)
    assert again == {**first, "duplicate": True}


async def test_it_never_commits(server: Server, schema: str, door: str) -> None:
    connection = await server.connect()
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.fetch(f"SELECT * FROM {door}('t', stream => 's', dedup_key => 'k')")
        await transaction.rollback()
        assert await connection.fetchval(f"SELECT count(*) FROM {schema}.events") == 0
        row = await connection.fetchrow(f"SELECT * FROM {door}('t', stream => 's', dedup_key => 'k')")
        assert (row["seq"], row["duplicate"]) == (1, False)
    finally:
        await connection.close()


async def test_a_second_use_of_a_key_waits_for_the_first_transaction(
    server: Server,
    schema: str,
    door: str,
) -> None:
    one, two = await server.connect(), await server.connect()
    try:
        for commits in (False, True):
            begun = one.transaction()
            await begun.start()
            first = await one.fetchrow(f"SELECT * FROM {door}('t', '1', dedup_key => 'k')")
            waiting = asyncio.create_task(two.fetchrow(f"SELECT * FROM {door}('t', '1', dedup_key => 'k')"))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await (begun.commit() if commits else begun.rollback())
            second = await waiting
            assert (second["id"] == first["id"], second["duplicate"]) == (commits, commits)
            await two.execute(f"DELETE FROM {schema}.dedup")
    finally:
        await one.close()
        await two.close()


async def test_a_role_may_publish_and_nothing_else(server: Server, schema: str, door: str) -> None:
    role = f"{schema}_writer"
    connection = await server.connect()
    try:
        await connection.execute(
            f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};"
            f"GRANT EXECUTE ON FUNCTION {door} TO {role}"
        )
        done = server.psql(f"SELECT seq FROM {door}('t', stream => 's', dedup_key => 'k');", role)
        assert done.stdout.strip() == "1", done.stderr
        for forbidden in (f"SELECT 1 FROM {schema}.events;", f"DELETE FROM {schema}.unrouted;"):
            assert "permission denied" in server.psql(forbidden, role).stderr
        accept = (
            f"SELECT {schema}.accept(NULL, 't', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false);"
        )
        assert "permission denied" in server.psql(accept, role).stderr
    finally:
        await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
        await connection.close()


HOSTILE = """
CREATE SCHEMA {0}; GRANT USAGE ON SCHEMA {0} TO PUBLIC;
CREATE FUNCTION {0}.length(text) RETURNS integer LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''ours''; END';
CREATE FUNCTION {0}.replace(text, text, text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''ours''; END';
CREATE FUNCTION {0}.refuse() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''ours''; END';
CREATE DOMAIN {0}.json AS text CHECK ({0}.refuse());
"""


@pytest.mark.parametrize("more", ["", ", stream => 's'", ", dedup_key => 'k'", ", properties => '{\"a\": 1}'"])
@pytest.mark.parametrize("size", [10, 3000])
async def test_no_name_of_the_callers_own_runs_with_the_owners_rights(
    server: Server, schema: str, door: str, more: str, size: int
) -> None:
    theirs = f"{schema}_theirs"
    connection = await server.connect()
    try:
        await connection.execute(HOSTILE.format(theirs))
        await connection.execute(f"SET search_path = {theirs}, pg_catalog")
        with pytest.raises(asyncpg.RaiseError, match="ours"):
            await connection.fetch("SELECT length('a'::text)")
        sql = f"SELECT duplicate FROM {door}('t', '\"' || repeat('x', {size}) || '\"'{more})"
        assert await connection.fetchval(sql) is False
    finally:
        await connection.execute(f"SET client_min_messages = warning; DROP SCHEMA {theirs} CASCADE")
        await connection.close()


async def test_a_publish_notifies_only_when_there_is_no_backlog(server: Server, schema: str, door: str) -> None:
    connection, rung = await server.connect(), []
    try:
        own = connection.get_server_pid()
        await connection.add_listener("holdfast_events", lambda _, pid, *__: rung.append(pid))
        for waits, expected in ((False, 1), (True, 0)):
            if not waits:
                await connection.execute(f"DELETE FROM {schema}.unrouted")
            rung.clear()
            await connection.fetch(f"SELECT * FROM {door}('t', '1')")
            await connection.fetch("SELECT 1")
            assert rung.count(own) == expected
    finally:
        await connection.close()


async def test_python_and_sql_share_keys_and_errors(server: Server, schema: str, door: str) -> None:
    async with opened(server, schema) as store:
        (first,) = await store.events.append([new_event("t", {"a": 1}, stream="s", dedup_key="k")])
        connection = await server.connect()
        row = await connection.fetchrow(f"""SELECT * FROM {door}('t', '{{"a":1}}', stream => 's', dedup_key => 'k')""")
        assert (row["id"], row["duplicate"]) == (first.id, True)
        with pytest.raises(asyncpg.PostgresError, match="holdfast: dedup_key") as caught:
            await connection.fetchrow(f"SELECT * FROM {door}('t', '2', stream => 's', dedup_key => 'k')")
        assert caught.value.sqlstate == "HF002"
        await connection.execute(f"UPDATE {schema}.streams SET closed_at = 1")
        await connection.close()
        for events, error in (
            ([new_event("t", 2, dedup_key="k")], DedupConflict),
            ([new_event("t"), new_event("t", 2, dedup_key="k")], DedupConflict),
            ([new_event("t", stream="s")], StreamClosed),
            ([new_event("t"), new_event("t", stream="s")], StreamClosed),
            ([NewEvent("t", b"{bad")], BadInput),
            ([new_event("t"), NewEvent("t", b"{bad")], BadInput),
        ):
            with pytest.raises(error):
                await store.events.append(events)
        assert (await store.operator.figures()).unrouted == 1
