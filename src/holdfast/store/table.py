"""The events as a SQLAlchemy table, for applications that select from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.domain.errors import StoreMissing

if TYPE_CHECKING:
    from sqlalchemy import MetaData, Table

OURS = {"owner": "holdfast"}


def events_table(metadata: MetaData, url: str, schema: str) -> Table:
    """Describe, never create: the table belongs to Holdfast's own migrations."""
    import sqlalchemy as sa

    is_sqlite = url.startswith("sqlite:")
    name = "holdfast_events" if is_sqlite else "events"
    if (found := metadata.tables.get(name if is_sqlite else f"{schema}.{name}")) is not None:
        return found
    table = sa.Table(
        name,
        metadata,
        sa.Column("n", sa.BigInteger, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("stream", sa.Text),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("timestamp", sa.Text, nullable=False),
        sa.Column("accepted_at", sa.BigInteger, nullable=False),
        sa.Column("properties", _json(sa), nullable=False),
        sa.Column("payload", _json(sa), nullable=False),
        sa.Column("dedup_key", sa.Text),
        sa.Column("address", sa.Text),
        sa.Column("not_before", sa.BigInteger),
        schema=None if is_sqlite else schema,
        info=dict(OURS),
    )
    sa.event.listen(table, "before_create", _refuse)
    return table


def _refuse(table: Table, *_: object, **__: object) -> None:
    raise StoreMissing(f"{table} is made by Holdfast's own migrations: run outbox.migrate() before create_all()")


def _json(sa: Any) -> Any:
    """JSON kept as text in both databases, so that its bytes never change; parsed when read here."""
    import json

    class Json(sa.TypeDecorator):  # type: ignore[misc]
        impl = sa.Text
        cache_ok = True

        def process_result_value(self, value: Any, dialect: Any) -> Any:
            return None if value is None else json.loads(value)

    return Json()
