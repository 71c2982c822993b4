"""`holdfast db`: create, back up and restore the store, without a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.surfaces.cli.options import Group, app_option, json_option, store_option
from holdfast.surfaces.cli.output import echo, show, show_fields, visible

if TYPE_CHECKING:
    from holdfast.operations.answers.store_files import MigratedStore


@click.group(cls=Group)
def db() -> None:
    """Migrate, print, back up and restore the store."""


@db.command()
@store_option
@app_option
@json_option
def migrate(store: str | None, app: str | None, as_json: bool) -> None:
    """Create or update the tables. With --app, also register the application's contracts.

    Run it before the first deployment, so that the contracts exist before the first event. Safe to repeat.
    """
    from holdfast.config.application import load_app
    from holdfast.operations import local

    answer = local.migrate(store, None if app is None else load_app(app))
    show(answer, as_json, _print_migrated)


@db.command("print")
@click.option("--application", is_flag=True, help="Only what an application's own database needs.")
@store_option
def print_sql(application: bool, store: str | None) -> None:
    """Print the SQL that migrate would run on an empty database."""
    from holdfast.operations import local

    echo(local.schema(store, application=application))


@db.command()
@click.argument("path", type=click.Path(path_type=Path))
@store_option
@json_option
def backup(path: Path, store: str | None, as_json: bool) -> None:
    """Write a complete copy of the store to PATH. The store stays in use meanwhile."""
    from holdfast.operations import local

    path = path.expanduser().absolute()
    answer = local.backup(store, path)
    show(answer, as_json, lambda _: echo(f"Backup written: {path} ({answer.bytes:,} bytes)."))


@db.command()
@click.argument("path", type=click.Path(path_type=Path))
@store_option
@json_option
def restore(path: Path, store: str | None, as_json: bool) -> None:
    """Replace the store by the backup at PATH. The old file is kept beside it.

    First stop the daemon and every application that uses the store.
    """
    from holdfast.operations import local
    from holdfast.operations.answers.encode import encode

    show(encode(local.restore(store, path.expanduser().absolute())), as_json, show_fields)


def _print_migrated(answer: MigratedStore) -> None:
    if answer.before == answer.after:
        echo(visible(f"{answer.store}: schema {answer.after}, already up to date"))
    else:
        echo(visible(f"{answer.store}: schema {answer.after}, migrated from {answer.before}"))
    for id in answer.contracts:
        echo(f"Contract {visible(id)} registered.")
