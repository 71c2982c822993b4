"""`holdfast db`: create, back up, restore and copy the store, and move its queue, without a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.progress import Progress
from holdfast.surfaces.cli.client_options import store_of
from holdfast.surfaces.cli.options import Group, app_option, json_option, store_option
from holdfast.surfaces.cli.output import echo, show, visible

if TYPE_CHECKING:
    from holdfast.operations.answers.store_files import CopiedStore, MigratedStore, PromotedQueue, RestoredStore


@click.group(cls=Group)
def db() -> None:
    """Migrate, back up, restore and copy the store; move its queue."""


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
@app_option
@json_option
def backup(path: Path, store: str | None, app: str | None, as_json: bool) -> None:
    """Write a complete copy of the store to PATH. The store stays in use meanwhile."""
    from holdfast.operations import local

    path = path.expanduser().absolute()
    with Progress("backup", quiet=as_json) as progress:
        answer = local.backup(store_of(store, app), path, progress)
    show(answer, as_json, lambda _: echo(f"Backup written: {path} ({answer.bytes:,} bytes)."))


@db.command()
@click.argument("path", type=click.Path(path_type=Path))
@store_option
@app_option
@json_option
def restore(path: Path, store: str | None, app: str | None, as_json: bool) -> None:
    """Replace the store by the backup at PATH. The old file is kept beside it.

    First stop the daemon and every application that uses the store.
    """
    from holdfast.operations import local

    with Progress("restore", quiet=as_json) as progress:
        answer = local.restore(store_of(store, app), path.expanduser().absolute(), progress)
    show(answer, as_json, _print_restored)


@db.command("copy")
@click.argument("source")
@click.argument("target")
@click.option("--cancel", is_flag=True, help="Do not copy: let SOURCE be used again after an unfinished copy.")
@json_option
def copy_command(source: str, target: str, cancel: bool, as_json: bool) -> None:
    """Copy the SQLite store SOURCE to the empty PostgreSQL store TARGET, and mark SOURCE as moved.

    First stop the daemon of SOURCE. Publishing to SOURCE is refused from the beginning. An interrupted copy continues
    when the same command is run again.
    """
    from holdfast.operations import local

    if cancel:
        local.cancel_copy(source, target)
        show({"source": source, "cancelled": True}, as_json, lambda _: echo(f"{visible(source)} can be used again."))
        return
    with Progress("copy", quiet=as_json) as progress:
        answer = local.copy(source, target, lambda what, done, total: progress(done, total, what))
    show(answer, as_json, _print_copied)


@db.command()
@click.option("--to", "kind", type=click.Choice(["pgmq", "native"]), required=True, help="Where the queue goes.")
@store_option
@app_option
@json_option
def promote(kind: str, store: str | None, app: str | None, as_json: bool) -> None:
    """Move the queue of a PostgreSQL store into pgmq, or back into the store's own table.

    Daemons and applications may run meanwhile: they wait until all rows are moved, about a second for 100,000.
    """
    from holdfast.operations import local

    with Progress("moving the queue", quiet=as_json):
        answer = local.promote(store_of(store, app), kind)
    show(answer, as_json, _print_promoted)


def _print_promoted(answer: PromotedQueue) -> None:
    if answer.before == answer.after:
        echo(f"The queue is {answer.after} already.")
        return
    echo(f"The queue is {answer.after} now (it was {answer.before}): {answer.rows:,} deliveries were moved.")
    if answer.after == "native":
        echo("A store URL that begins with pgmq+ is refused from now on: write postgresql://…")


def _print_restored(answer: RestoredStore) -> None:
    echo(visible(f"Restored {answer.store} from {answer.restored}."))
    if answer.kept is not None:
        echo(visible(f"The store that was there before is kept: {answer.kept}"))


def _print_copied(answer: CopiedStore) -> None:
    done = "Copy continued and completed" if answer.resumed else "Copied"
    echo(f"{done}: {sum(answer.rows.values()):,} rows in {len(answer.rows)} tables, {answer.rows['events']:,} events.")
    echo("Every row was compared with the original. The old store refuses new events.")
    echo(visible(f"Next: set HOLDFAST_STORE, or store: in holdfast.yml, to {answer.target}; then: holdfast up"))


def _print_migrated(answer: MigratedStore) -> None:
    if answer.before == answer.after:
        echo(visible(f"{answer.store}: schema {answer.after}, already up to date"))
    else:
        echo(visible(f"{answer.store}: schema {answer.after}, migrated from {answer.before}"))
    for id in answer.contracts:
        echo(f"Contract {visible(id)} registered.")
