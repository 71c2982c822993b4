"""`holdfast token`: manage API tokens, without a daemon."""

from __future__ import annotations

import click

from holdfast.domain.scopes import parse_scopes
from holdfast.surfaces.cli.client_options import store_of
from holdfast.surfaces.cli.options import Group, app_option, json_option, long_page_options, store_option
from holdfast.surfaces.cli.output import echo, show, visible, warn
from holdfast.surfaces.cli.table import show_page

COLUMNS = ("id", "name", "scope", "created_at", "revoked_at")


@click.group(cls=Group)
def token() -> None:
    """Create, list and revoke API tokens."""


@token.command()
@click.argument("name")
@click.option(
    "--scope", metavar="SCOPES", default="read", show_default=True,
    help="read, append, operate, message or admin; several with commas.",
)  # fmt: skip
@store_option
@app_option
@json_option
def create(name: str, scope: str, store: str | None, app: str | None, as_json: bool) -> None:
    """Create a token. It is printed once and cannot be shown again."""
    from holdfast.operations import local

    parse_scopes(scope)  # before a home folder is created
    answer = local.create_token(store_of(store, app), name, scope)
    show(answer, as_json, lambda created: echo(created.token))
    if not as_json:
        warn(f"created {answer.id} with scope {answer.scope}; save the token now, it cannot be shown again")


@token.command("list")
@store_option
@app_option
@long_page_options
@json_option
def list_tokens(store: str | None, app: str | None, as_json: bool, after: str | None, limit: int) -> None:
    """List tokens, without their secret texts."""
    from holdfast.operations import local
    from holdfast.operations.answers.encode import encode

    show(encode(local.list_tokens(store_of(store, app), after, limit)), as_json, lambda page: show_page(page, COLUMNS))


@token.command()
@click.argument("id")
@store_option
@app_option
@json_option
def revoke(id: str, store: str | None, app: str | None, as_json: bool) -> None:
    """Revoke a token. A running daemon refuses it within one second."""
    from holdfast.operations import local

    show(local.revoke_token(store_of(store, app), id), as_json, lambda _: echo(f"Token {visible(id)} revoked."))
