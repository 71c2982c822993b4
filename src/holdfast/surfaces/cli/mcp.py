"""`holdfast mcp`: serve agents over MCP on standard input and output."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from holdfast.domain.errors import BadConfig
from holdfast.domain.extras import install_command
from holdfast.domain.text import short_repr
from holdfast.home import Home, find_home, read_secret
from holdfast.surfaces.cli.client import Unreachable, find_address, find_token
from holdfast.surfaces.cli.options import Group, app_option

if TYPE_CHECKING:
    from holdfast.surfaces.mcp.relay import Daemon


class LazyGroup(Group):
    """A group whose subcommands are imported when they are used: an agent waits for the start of the relay."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["install", "uninstall"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(import_module("holdfast.surfaces.cli.mcp_install"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.option("--store", metavar="URL", help="Serve this store without a daemon. Only reading tools without --write.")
@app_option
@click.option("--write", is_flag=True, help="With --store or --app: also offer the tools that change something.")
@click.option("--agent", metavar="NAME", help="Use the token that mcp install created for this agent CLI.")
@click.pass_context
def mcp(context: click.Context, store: str | None, app: str | None, write: bool, agent: str | None) -> None:
    """Serve agents over MCP, on standard input and output.

    Relays to the daemon's /mcp, with the token in HOLDFAST_TOKEN or the home folder.
    """
    if context.invoked_subcommand is not None:
        if store or app or write or agent:
            raise click.UsageError(f"these options do not apply to mcp {context.invoked_subcommand}; give its own")
        return
    if sum(given is not None for given in (store, app, agent)) > 1:
        raise click.UsageError("--store, --app and --agent cannot be combined")
    if store is None and app is None:
        if write:
            raise click.UsageError("--write needs --store or --app; through the daemon the token's scopes decide")
        _relay(agent)
    else:
        _serve(store, app, write)


def _relay(agent: str | None) -> None:
    from holdfast.surfaces.mcp.relay import Relay

    try:
        Relay(lambda: _find_daemon(agent), sys.stdout.buffer).run(sys.stdin.buffer)
    except (KeyboardInterrupt, BrokenPipeError):
        from holdfast.surfaces.cli.output import silence

        silence(1)


def _find_daemon(agent: str | None) -> Daemon:
    from holdfast.surfaces.mcp.relay import Daemon

    home = find_home()
    address = find_address(home)
    if address is None:
        raise Unreachable(f"no daemon runs in {home.root}; start one with: holdfast up")
    return Daemon(address, find_token(home) if agent is None else _agent_token(home, agent))


def _agent_token(home: Home, agent: str) -> str:
    token = read_secret(home.agent_token(agent)) if agent.isidentifier() else None
    if token is None:
        raise BadConfig(f"there is no token for {short_repr(agent)}; run: holdfast mcp install")
    return token.split()[0]


def _serve(store: str | None, app: str | None, write: bool) -> None:
    import asyncio
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise BadConfig(f"mcp --store needs a part that is not installed: {install_command('mcp')}")
    from holdfast.config.application import load_app

    url = load_app(app).url if app is not None else store
    assert url is not None
    asyncio.run(_serve_store(url, write, driver="apsw" if app is None else "sqlite3"))


async def _serve_store(url: str, write: bool, driver: str) -> None:
    from holdfast.operations.local_operations import local_actor, open_operations
    from holdfast.surfaces.mcp.stdio import serve_store

    async with open_operations(url, write=write, driver=driver) as operations:
        await serve_store(operations, write=write, actor=local_actor())
