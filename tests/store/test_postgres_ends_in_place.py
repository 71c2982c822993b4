"""Ending a delivery updates its row in place: no index names a column that every end changes."""

from __future__ import annotations

import re

import pytest

from holdfast.domain.event import new_event
from holdfast.domain.states import REASONS_OF, State
from holdfast.store.postgres.migrate import scripts
from holdfast.store.postgres.operator import _where
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.operator import DeliveryFilter
from holdfast.store.roles.routing import Plan, RouteTarget
from postgres import Server, opened

pytest_plugins = ("postgres",)

CHANGED_BY_AN_END = ("state", "attempts", "settled_at", "survivor", "last_error")


async def test_no_index_of_deliveries_names_a_column_that_an_end_changes(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        rows = await store._pool.rows(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'deliveries' AND schemaname = $1", schema
        )
        assert len(rows) == 6
        for name, text in rows:
            columns = set(re.findall(r"\w+", text.partition(" USING ")[2]))
            assert columns.isdisjoint(CHANGED_BY_AN_END), name


async def test_an_end_stays_on_its_page_and_outside_the_indexes(server: Server, schema: str) -> None:
    places = f"SELECT id, (ctid::text::point)[0] AS page FROM {schema}.deliveries ORDER BY id"
    sizes = f"SELECT pg_relation_size('{schema}.deliveries_pkey'), pg_relation_size('{schema}.deliveries')"
    async with opened(server, schema) as store, store._pool.connection() as pooled:
        transaction = pooled.raw.transaction()
        await transaction.start()
        await pooled.raw.execute(
            f"INSERT INTO {schema}.deliveries (event, queue, created_at) SELECT n, 1, 1 FROM generate_series(1, 1000) n"
        )
        before = await pooled.raw.fetch(places), await pooled.raw.fetch(sizes)
        await pooled.raw.execute(f"UPDATE {schema}.deliveries SET state = 'delivered', attempts = 1, settled_at = 1")
        assert (await pooled.raw.fetch(places), await pooled.raw.fetch(sizes)) == before
        await transaction.rollback()


def test_the_reasons_of_dead_deliveries_are_the_same_everywhere() -> None:
    text = "\n".join([*(text for _, text in scripts()), *(getattr(sql, n) for n in sql.names())])
    lists = [set(re.findall(r"'(\w+)'", found)) for found in re.findall(r"reason IN \((.*?)\)", text)]
    assert len(lists) == 5
    assert all(found == set(REASONS_OF[State.DEAD]) for found in lists)


async def test_dead_letters_and_heads_of_lanes_are_found_by_their_index(server: Server, schema: str) -> None:
    dead, _ = _where(DeliveryFilter(state="dead"))
    texts = {
        "deliveries_dead": [sql.figures_dead, f"{sql.delivery_columns} WHERE true {dead} ORDER BY d.id DESC LIMIT 5"],
        "deliveries_by_lane": [
            sql.lane_next,
            sql.burst_behind,
            sql.burst_oldest,
            sql.ready_remove_lane,
            sql.ready_remove_paused,
        ],
    }
    async with opened(server, schema) as store, store._pool.connection() as pooled:
        await pooled.raw.execute("SET enable_seqscan = off")
        for index, several in texts.items():
            for text in map(pooled._named, several):
                kinds = (await pooled.raw.prepare(text)).get_parameters()
                values = [[1] if "[]" in kind.name else 1 for kind in kinds]
                plan = "\n".join(row[0] for row in await pooled.raw.fetch(f"EXPLAIN {text}", *values))
                assert index in plan, text


@pytest.mark.parametrize("state", ["delivered", "dead", "dropped"])
async def test_a_requeued_delivery_goes_to_the_end_of_its_lane(server: Server, schema: str, state: str) -> None:
    reason = {"delivered": None, "dead": "rejected", "dropped": "cancelled"}[state]
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        connection = await server.connect()
        await connection.execute(
            f"INSERT INTO {schema}.queues (contract, address, kind) VALUES ('c', 'handler:h', 'handler');"
            f"INSERT INTO {schema}.lanes (key, tail, open) VALUES ('c s', 3, 2);"
            f"INSERT INTO {schema}.streams (id, head, created_at) VALUES ('s', 3, 1);"
            f"INSERT INTO {schema}.events (id, stream, seq, source, type, timestamp, accepted_at)"
            f" SELECT 'e' || n, 's', n, 'app', 't', '2026-01-01T00:00:00Z', 1 FROM generate_series(1, 3) n;"
            f"INSERT INTO {schema}.deliveries (event, queue, lane, pos, created_at) SELECT n, 1, 1, n, 1"
            f" FROM generate_series(1, 3) n;"
            f"INSERT INTO {schema}.ready (delivery, queue, due_at) VALUES (2, 1, 1);"
            f"UPDATE {schema}.counts SET events = 3, streams = 1;"
        )
        await connection.execute(
            f"UPDATE {schema}.deliveries SET state = $1, reason = $2, settled_at = 2, pos = -pos WHERE id = 1",
            state,
            reason,
        )
        await connection.close()
        states = frozenset({"delivered", "dead", "dropped"})
        assert await store.operator.reprocess(owner, [1], states, "me") == [1]
        await store.events.append([new_event("t", stream="s")])
        async with store.routing.batch(10) as batch:
            target = RouteTarget(1, "handler:h", "handler", "c s")
            assert await batch.commit([Plan(event.n, (target,), 0) for event in batch.events])
        rows = await store._pool.rows("SELECT id, pos FROM {schema}.deliveries ORDER BY pos")
        assert [tuple(row) for row in rows] == [(2, 2), (3, 3), (1, 4), (4, 5)]
