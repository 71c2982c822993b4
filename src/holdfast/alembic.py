"""Holdfast's tables in your Alembic migrations.

    import holdfast.alembic

    def upgrade():
        holdfast.alembic.upgrade(op)

    def downgrade():
        holdfast.alembic.downgrade(op)

Write such a revision again after installing a Holdfast with a newer schema; what is there already is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.store.door import PUBLISH, run_on, schema_of
from holdfast.store.drivers import dialect_named
from holdfast.store.schema import downgrade_texts, upgrade_texts, version_found
from holdfast.store.table import OURS


def upgrade(op: Any, *, url: str = "", since: int = 0) -> None:
    """Make or update the tables through `op.execute`, in Alembic's own transaction.

    `url` is the outbox's, where it names a PostgreSQL schema. `since` is for offline mode (`--sql`), which cannot look
    at the database: the version of the schema that the script starts from.
    """
    context, schema = op.get_context(), schema_of(url)
    found = since if context.as_sql else run_on(op.get_bind(), schema, PUBLISH, version_found)
    for text in upgrade_texts(dialect_named(context.dialect.name), schema, found):
        op.execute(_text(text))


def downgrade(op: Any, *, url: str = "") -> None:
    """Remove the tables, and with them every event, delivery and receipt."""
    for text in downgrade_texts(dialect_named(op.get_context().dialect.name), schema_of(url)):
        op.execute(_text(text))


def include_object(url: str = "") -> Callable[..., bool]:
    """For `context.configure(include_object=…)`: a revision that Alembic writes by itself leaves our tables alone.

        context.configure(…, include_object=holdfast.alembic.include_object())

    Without it, `alembic revision --autogenerate` finds tables that no model of yours describes, and drops them.
    `url` is the outbox's, where it names a PostgreSQL schema.
    """
    schema = schema_of(url)

    def include(item: Any, name: str | None, kind: str, reflected: bool, compare_to: Any) -> bool:
        table = item if kind == "table" else getattr(item, "table", None)
        if table is None:
            return True
        if table.info == OURS:
            return False
        if table.schema is None:
            return not table.name.startswith("holdfast_")
        return not (reflected and table.schema == schema)

    return include


def _text(sql: str) -> Any:
    """SQL as it stands: to SQLAlchemy a colon would begin a parameter."""
    import sqlalchemy

    return sqlalchemy.text(sql.replace(":", "\\:"))
