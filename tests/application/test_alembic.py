"""Holdfast's tables by Alembic itself: up, down and as a script, on both databases."""

from __future__ import annotations

import contextlib
import io
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from holdfast import Outbox
from holdfast.store.open import open_store
from postgres import Server, fresh_schema, oldest_and_newest, sqlite_and_postgres, start

ENV = """
from alembic import context
from sqlalchemy import create_engine

url = context.config.get_main_option("sqlalchemy.url")
if context.is_offline_mode():
    context.configure(url=url, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
else:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            context.configure(connection=connection)
            with context.begin_transaction():
                context.run_migrations()
    finally:
        engine.dispose()
"""
SHOP = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "0001", None

def upgrade():
    op.create_table("{shop}", sa.Column("id", sa.Integer, primary_key=True))

def downgrade():
    op.drop_table("{shop}")
"""
HOLDFAST = """
from alembic import op
import holdfast.alembic

revision, down_revision = "0002", "0001"
URL = {url!r}

def upgrade():
    holdfast.alembic.upgrade(op, url=URL)

def downgrade():
    holdfast.alembic.downgrade(op, url=URL)
"""
AGAIN = HOLDFAST.replace('"0002", "0001"', '"0003", "0002"').replace("holdfast.alembic.downgrade(op, url=URL)", "pass")


class Project(NamedTuple):
    """An application with a folder of revisions."""

    outbox_url: str
    url: str
    config: Config
    server: Server | None

    def run(self, verb: str, *arguments: Any, **options: Any) -> None:
        getattr(command, verb)(self.config, *arguments, **options)

    def script(self, verb: str, revisions: str) -> str:
        """What `alembic … --sql` prints."""
        said = io.StringIO()
        self.config.output_buffer = said
        self.run(verb, revisions, sql=True)
        return said.getvalue()

    def tables(self) -> set[str]:
        engine = sa.create_engine(self.url)
        schema = None if self.server is None else self.outbox_url.rpartition("=")[2]
        found = set(sa.inspect(engine).get_table_names(schema=schema))
        engine.dispose()
        return {name.removeprefix("holdfast_") for name in found}


@pytest.fixture(params=sqlite_and_postgres())
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    server, schema = (None, "shop") if request.param == "sqlite" else (start(str(request.param)), fresh_schema())
    outbox_url = f"sqlite:///{tmp_path}/app.db" if server is None else server.url(schema)
    url = outbox_url if server is None else f"postgresql+psycopg://postgres@/postgres?host={server.folder}"
    (tmp_path / "revisions" / "versions").mkdir(parents=True)
    (tmp_path / "revisions" / "env.py").write_text(ENV)
    for name, text in (("0001", SHOP), ("0002", HOLDFAST), ("0003", AGAIN)):
        text = text.replace("{shop}", f"shop_{schema}").replace("{url!r}", repr(outbox_url))
        (tmp_path / "revisions" / "versions" / f"{name}.py").write_text(text)
    config = Config()
    config.set_main_option("script_location", str(tmp_path / "revisions"))
    config.set_main_option("sqlalchemy.url", url)
    yield Project(outbox_url, url, config, server)
    if server is not None:
        server.psql(
            f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {schema} CASCADE; "
            f"DROP TABLE IF EXISTS shop_{schema}, alembic_version;"
        )


async def works(project: Project) -> bool:
    store = open_store(project.outbox_url, driver="sqlite3", create=False)
    try:
        return await store.contracts.all() == []
    finally:
        await store.close()


async def test_up_and_down_and_up_again(project: Project) -> None:
    """The third revision finds everything there and leaves it alone."""
    project.run("upgrade", "head")
    assert await works(project)
    engine = sa.create_engine(project.url)
    with engine.begin() as connection:
        Outbox(project.outbox_url).publish(connection, "order.placed", {"id": 42}, stream="order:42")
    engine.dispose()
    project.run("downgrade", "0001")
    assert "events" not in project.tables()
    project.run("upgrade", "head")
    assert await works(project)


@pytest.mark.parametrize("project", oldest_and_newest(), indirect=True)  # SQLite's own driver commits before each table
async def test_a_revision_that_fails_leaves_nothing(project: Project, tmp_path: Path) -> None:
    last = tmp_path / "revisions" / "versions" / "0003.py"
    whole = last.read_text()
    last.write_text(whole.replace("    holdfast.alembic.upgrade", "    1 / 0\n    holdfast.alembic.upgrade"))
    with pytest.raises(ZeroDivisionError):
        project.run("upgrade", "head")
    assert project.tables() == set()
    last.write_text(whole)
    project.run("upgrade", "head")
    assert await works(project)


async def test_the_script_of_offline_mode_does_the_same(project: Project, tmp_path: Path) -> None:
    whole = project.script("upgrade", "head")
    run_script(project, tmp_path, whole.rpartition("-- Running upgrade 0002 -> 0003")[0])
    assert await works(project)
    run_script(project, tmp_path, project.script("downgrade", "0002:0001"))
    assert "events" not in project.tables()


def run_script(project: Project, tmp_path: Path, text: str) -> None:
    if project.server is not None:
        done = project.server.psql("SET client_min_messages = warning;" + text + "\nCOMMIT;")
        assert done.returncode == 0, done.stderr
        return
    with contextlib.closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        connection.executescript(text)
        connection.commit()
