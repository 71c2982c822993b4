"""The plain-SQL door: only granted roles can publish, and unusual texts are stored unchanged."""

from __future__ import annotations

import asyncpg
import pytest

from holdfast.domain.errors import BadInput
from holdfast.domain.event import NewEvent, new_event
from holdfast.store.postgres.migrate import scripts
from holdfast.store.postgres.place import in_schema
from holdfast.store.roles.events import EventFilter
from postgres import Server, opened

pytest_plugins = ("postgres",)

ROLES = ("keeper", "caller", "lender", "stranger")


async def test_only_roles_that_were_granted_the_door_can_publish(server: Server, schema: str) -> None:
    connection, door = await server.connect(), f"{schema}.publish"
    await connection.execute("".join(f"CREATE ROLE {schema}_{role} LOGIN;" for role in ROLES))
    try:
        await connection.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {schema}_keeper; SET ROLE {schema}_keeper")
        for _, script in scripts():
            await connection.execute(in_schema(script, schema))
        await connection.execute(
            f"RESET ROLE; GRANT EXECUTE ON FUNCTION {door} TO {schema}_caller;"
            f"GRANT EXECUTE ON FUNCTION {door} TO {schema}_lender WITH GRANT OPTION;"
            f"GRANT USAGE ON SCHEMA {schema} TO {schema}_caller, {schema}_lender, {schema}_stranger"
        )
        for role in ("caller", "lender"):
            assert server.psql(f"SELECT seq FROM {door}('t', stream => 's');", f"{schema}_{role}").returncode == 0
        assert "permission denied" in server.psql(f"SELECT {door}('t');", f"{schema}_stranger").stderr
        assert "permission denied" in server.psql(f"SELECT 1 FROM {schema}.events;", f"{schema}_caller").stderr
        lent = server.psql(f"GRANT EXECUTE ON FUNCTION {door} TO {schema}_stranger;", f"{schema}_lender")
        assert lent.returncode == 0, lent.stderr
        assert server.psql(f"SELECT {door}('t');", f"{schema}_stranger").returncode == 0
    finally:
        await connection.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {schema} CASCADE")
        await connection.execute("".join(f"DROP ROLE {schema}_{role};" for role in ROLES))
        await connection.close()


async def test_texts_of_several_lines_stay_what_they_are(server: Server, schema: str) -> None:
    odd = NewEvent("t", b'{"a":\n1}', source="a\nb", properties=b'{"p":\n"q"}')
    async with opened(server, schema) as store:
        await store.events.append([new_event("t", {"b": 2}), odd, new_event("t", properties={"x": "y"})])
        found = (await store.events.find(EventFilter(), None, 10)).items
        assert [event.payload_json for event in reversed(found)] == ['{"b":2}', '{"a":\n1}', "null"]
        assert [event.properties for event in reversed(found)] == [{}, {"p": "q"}, {"x": "y"}]
        assert [event.source for event in reversed(found)] == ["app", "a\nb", "app"]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("same", [True, False])
async def test_each_event_keeps_its_own_values_in_a_batch_with_equal_ones(
    server: Server, schema: str, same: bool, count: int
) -> None:
    def said(place: int) -> NewEvent:
        i, moment = 0 if same else place, f"2026-01-0{1 if same else place + 1}T00:00:00Z"
        return new_event(f"t{i}", place, source=f"s{i}", timestamp=moment, properties={"p": f"{i}"})

    given = [said(place) for place in range(count)]
    async with opened(server, schema) as store:
        await store.events.append(given)
        found = list(reversed((await store.events.find(EventFilter(), None, 10)).items))
        kept = [
            NewEvent(e.type, e.payload_json.encode(), e.source, None, e.timestamp, e.properties_json.encode())
            for e in found
        ]
        assert kept == given


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("bad", [NewEvent("t", b"{bad"), NewEvent("t", b"1", properties=b"{bad")])
async def test_invalid_json_is_refused_alone_and_in_a_batch(
    server: Server, schema: str, bad: NewEvent, count: int
) -> None:
    async with opened(server, schema) as store:
        with pytest.raises(BadInput, match="not JSON"):
            await store.events.append([bad] * count)
        assert await store.routing.backlog() == 0


@pytest.mark.parametrize("text", ["[" * 1500 + "]" * 1499, "[" * 200_000, '{"a":01}', ""])
async def test_the_door_refuses_invalid_json_at_any_depth(server: Server, schema: str, text: str) -> None:
    async with opened(server, schema) as store:
        await store._pool.opened()
        connection = await server.connect()
        for wanted in ({}, {"stream": "s"}):
            given = ", ".join(f"{name} => '{value}'" for name, value in wanted.items())
            with pytest.raises(asyncpg.PostgresError, match="payload is not JSON") as caught:
                await connection.fetch(f"SELECT * FROM {schema}.publish('t', $1{', ' * bool(given)}{given})", text)
            assert caught.value.sqlstate == "HF001"
        await connection.close()
        assert await store.routing.backlog() == 0
