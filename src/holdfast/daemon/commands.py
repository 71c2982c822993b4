"""The commands that run a process of their own: they work on the store itself, not through a daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.home import find_home, shown_url, store_url
from holdfast.surfaces.cli.options import NearGroup, json_option, long_page_options
from holdfast.surfaces.cli.output import say, show, show_fields, show_page, visible, warn

if TYPE_CHECKING:
    from holdfast.operations.tokens import TokenVerbs
    from holdfast.ports import Application
    from holdfast.store.roles.store import Store

T = TypeVar("T")

store_option = click.option("--store", metavar="URL", help="The store, such as sqlite:///app.db; else the configured.")
app_option = click.option("--app", metavar="MODULE:NAME", help="The application's outbox, such as shop:outbox.")


@click.command()
@click.option("--host", help="The address to listen on; else the configured one, loopback.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes a free one.")
@app_option
def up(host: str | None, port: int | None, app: str | None) -> int:
    """Run the daemon in the foreground.

    With --app it delivers to the application's handlers too, from the application's own database.
    """
    from holdfast.config.application import load_app
    from holdfast.daemon.run import main

    return main(host, port, None if app is None else load_app(app), find_home())


@click.group(cls=NearGroup)
def db() -> None:
    """Prepare, print, back up and restore the store."""


@db.command()
@store_option
@app_option
@json_option
def migrate(store: str | None, app: str | None, as_json: bool) -> None:
    """Make or update the tables; with --app also register the application's contracts.

    Run it before a first deployment, so that no event is missed while nobody listens yet. Harmless to repeat.
    """
    from holdfast.store.open import migrate_store

    outbox = None if app is None else _load_app(app)
    url = store or (_configured_store() if outbox is None else outbox.url)
    # A file somebody names is theirs, unless it is the daemon's own: only there are the source systems' views made.
    own = outbox is None and (store is None or store == _configured_store())
    before, after = migrate_store(url, own=own, driver="apsw" if outbox is None else "sqlite3")
    registered = [] if outbox is None else asyncio.run(_register(url, outbox))
    answer = {"store": shown_url(url), "before": before, "after": after, "contracts": registered}
    show(answer, as_json, _say_migrated)


@db.command("print")
@click.option("--application", is_flag=True, help="Only what goes into an application's own database.")
@store_option
def print_sql(application: bool, store: str | None) -> None:
    """Print the SQL that migrate would run on an empty database."""
    from holdfast.store.open import print_schema

    say(print_schema(not application, store or _configured_store()))


@db.command()
@click.argument("path", type=click.Path(path_type=Path))
@store_option
@json_option
def backup(path: Path, store: str | None, as_json: bool) -> None:
    """Write a complete copy of the store to PATH; everybody may go on working."""
    from holdfast.daemon.restore import sync_file
    from holdfast.domain.errors import NotFound
    from holdfast.ingress.spool import sync_folder

    path = path.expanduser().absolute()
    if not path.parent.is_dir():
        raise NotFound(f"the folder {path.parent} does not exist; create it, or choose another path")
    url = store or _configured_store()
    os.umask(0o077)  # the copy holds everything the store holds
    _with_store(url, lambda opened: opened.maintenance.backup(path))
    sync_file(path)
    sync_folder(path.parent)
    answer = {"store": shown_url(url), "backup": str(path), "bytes": path.stat().st_size}
    show(answer, as_json, lambda _: say(f"{path} ({answer['bytes']:,} bytes)"))


@db.command()
@click.argument("path", type=click.Path(path_type=Path))
@store_option
@json_option
def restore(path: Path, store: str | None, as_json: bool) -> None:
    """Put the copy at PATH in the store's place; what was there is kept beside it.

    Stop the daemon and every application that uses the store first.
    """
    from holdfast.daemon.restore import restore_file

    url = store or _configured_store()
    os.umask(0o077)
    kept = restore_file(url, path.expanduser().absolute())
    answer = {"store": shown_url(url), "restored": str(path), "kept": None if kept is None else str(kept)}
    show(answer, as_json, show_fields)


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Examine this machine's Holdfast, and say what to do.

    It needs no daemon and changes nothing. Ends with 1 if something that was promised does not hold.
    """
    from holdfast.config.config import load_config
    from holdfast.domain.errors import BadConfig
    from holdfast.surfaces.cli.doctor import Settings, run_doctor

    home = find_home()
    try:
        config = load_config(home.config)
        url = os.environ.get("HOLDFAST_STORE") or config.store or store_url(home)
        settings = Settings(url, config.low_water_bytes, config.ballast_bytes, policies=config.policies)
    except BadConfig as error:
        settings = Settings(None, fault=error.message)
    return run_doctor(home, settings, as_json)


@click.group(cls=NearGroup)
def token() -> None:
    """Create, list and revoke tokens of the REST surface."""


@token.command("create")
@click.argument("name")
@click.option(
    "--scope", type=click.Choice(("read", "operate", "admin")), default="read", show_default=True,
    help="What it may do: look, repair, or everything.",
)  # fmt: skip
@store_option
@json_option
def create_token(name: str, scope: str, store: str | None, as_json: bool) -> None:
    """Create a token; its text is printed this once and kept nowhere."""
    answer = _with_tokens(store, lambda verbs: verbs.create(name, scope))
    show(answer, as_json, lambda made: say(made["token"]))
    if not as_json:
        warn(f"{answer['id']} may {answer['scope']}; keep its text now, it cannot be shown again")


@token.command("list")
@store_option
@long_page_options
@json_option
def list_tokens(store: str | None, as_json: bool, after: str | None, limit: int) -> None:
    """List tokens, without their texts."""
    answer = _with_tokens(store, lambda verbs: verbs.find(after=after, limit=limit))
    columns = ("id", "name", "scope", "created_at", "revoked_at")
    show(answer, as_json, lambda page: show_page(page, columns))


@token.command("revoke")
@click.argument("id")
@store_option
@json_option
def revoke_token(id: str, store: str | None, as_json: bool) -> None:
    """Revoke a token; a running daemon refuses it within a second."""
    answer = _with_tokens(store, lambda verbs: verbs.revoke(id))
    show(answer, as_json, lambda _: say(f"revoked {visible(id)}"))


def _load_app(spec: str) -> Application:
    from holdfast.config.application import load_app

    return load_app(spec)


def _configured_store() -> str:
    """The store a daemon of this home would use; the home is made where it is to lie in it."""
    from holdfast.config.config import load_store

    home = find_home()
    url = os.environ.get("HOLDFAST_STORE") or load_store(home.config)
    if not url:
        home.make()
    return url or store_url(home)


def _with_store(url: str, work: Callable[[Store], Awaitable[T]]) -> T:
    """Work on a store that is there already, beside whoever keeps it."""
    from holdfast.store.open import open_store

    async def run() -> T:
        opened = open_store(url, create=False)
        try:
            return await work(opened)
        finally:
            await opened.close()

    return asyncio.run(run())


def _with_tokens(url: str | None, work: Callable[[TokenVerbs], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    from holdfast.operations.tokens import TokenVerbs
    from holdfast.ports import SystemChance, SystemClock

    return _with_store(
        url or _configured_store(), lambda opened: work(TokenVerbs(opened.tokens, SystemClock(), SystemChance()))
    )


async def _register(url: str, outbox: Application) -> list[str]:
    """Put the contracts of the application's code into its store."""
    from holdfast.operations.registration import register
    from holdfast.store.open import open_store

    opened = open_store(url, driver="sqlite3", own=False)
    try:
        await register(opened.contracts, outbox.modules(), outbox.contracts.all())
    finally:
        await opened.close()
    return [contract.id for contract in outbox.contracts.all()]


def _say_migrated(answer: dict[str, Any]) -> None:
    changed = "was up to date" if answer["before"] == answer["after"] else f"came from schema {answer['before']}"
    say(visible(f"{answer['store']} has schema {answer['after']}; it {changed}"))
    for id in answer["contracts"]:
        say(f"registered {visible(id)}")
