"""The `holdfast` command: a table of subcommands, each imported only when it is used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

import click

from holdfast.domain.errors import BadConfig, BadInput, HoldfastError, NotFound, TargetRefused
from holdfast.surfaces.cli.options import Group
from holdfast.version import __version__

FAILED, USAGE, NOT_FOUND, UNREACHABLE = 1, 2, 3, 4


class Entry(NamedTuple):
    """A command: its section in the help, a one-line description, and the module that defines it."""

    section: str
    help: str
    module: str


RUN, AGENTS, EVENTS = "Run", "Agent integration", "Events and contracts"
INSPECT, REPAIR, ADMIN = "Inspect", "Repair", "Administration"
CLI = "holdfast.surfaces.cli"
COMMANDS = {
    "up": Entry(RUN, "Run the daemon in the foreground.", "holdfast.daemon.command"),
    "demo": Entry(RUN, "Run a one-minute demonstration in a temporary home.", "holdfast.demo.command"),
    "prove": Entry(RUN, "Crash Holdfast on this machine and account for every event.", "holdfast.proof.command"),
    "hooks": Entry(AGENTS, "Install, remove and check the hooks of agent CLIs.", f"{CLI}.hooks"),
    "service": Entry(AGENTS, "Run the daemon as a user service.", f"{CLI}.service"),
    "mcp": Entry(AGENTS, "Serve agents over MCP, on standard input and output.", f"{CLI}.mcp"),
    "hook": Entry(AGENTS, "Receive a hook event of an agent CLI and spool it.", f"{CLI}.hook"),
    "send": Entry(AGENTS, "Send a message to an agent session.", f"{CLI}.send"),
    "emit": Entry(EVENTS, "Append an event.", f"{CLI}.emit"),
    "contracts": Entry(EVENTS, "Manage contracts: which events are delivered where.", f"{CLI}.contracts"),
    "open": Entry(INSPECT, "Open the web page in a browser.", f"{CLI}.open"),
    "status": Entry(INSPECT, "Show daemon health and queue counts.", f"{CLI}.maintenance"),
    "events": Entry(INSPECT, "List events, and route unmatched events again.", f"{CLI}.events"),
    "explain": Entry(INSPECT, "Explain which contracts matched an event, and why.", f"{CLI}.explain"),
    "sessions": Entry(INSPECT, "List, show, name and close agent sessions.", f"{CLI}.sessions"),
    "streams": Entry(INSPECT, "List streams and their events.", f"{CLI}.streams"),
    "listen": Entry(INSPECT, "Receive webhooks on this machine and print them.", f"{CLI}.listen"),
    "tail": Entry(INSPECT, "Follow a stream, or all events, until Ctrl-C.", f"{CLI}.tail"),
    "fleet": Entry(INSPECT, "Show the dead letters and queues of every configured component.", f"{CLI}.fleet"),
    "receipts": Entry(INSPECT, "List, verify and append receipts.", f"{CLI}.receipts"),
    "deliveries": Entry(REPAIR, "List, retry and cancel deliveries.", f"{CLI}.deliveries"),
    "dlq": Entry(REPAIR, "Inspect, requeue and discard dead letters.", f"{CLI}.dlq"),
    "pause": Entry(REPAIR, "Pause deliveries of a contract, address or lane.", f"{CLI}.maintenance"),
    "resume": Entry(REPAIR, "Resume deliveries of a contract, address or lane.", f"{CLI}.maintenance"),
    "replay": Entry(REPAIR, "Send events of a stream to a sink or a contract again.", f"{CLI}.archive"),
    "archive": Entry(ADMIN, "List and verify archives of events.", f"{CLI}.archive"),
    "prune": Entry(ADMIN, "Delete data that is past its retention time.", f"{CLI}.maintenance"),
    "config": Entry(ADMIN, "Show where the settings are, what is in force, and check them.", f"{CLI}.config"),
    "completion": Entry(ADMIN, "Print a completion script for a shell.", f"{CLI}.completion"),
    "doctor": Entry(ADMIN, "Check the installation and suggest fixes.", f"{CLI}.doctor"),
    "token": Entry(ADMIN, "Create, list and revoke API tokens.", f"{CLI}.token"),
    "db": Entry(ADMIN, "Migrate, back up, restore and copy the store; move its queue.", f"{CLI}.db"),
}


class Commands(Group):
    """The root group. Its help imports no subcommand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl([(name, e.help) for name, e in COMMANDS.items() if e.section == section])


@click.command(cls=Commands)
@click.version_option(__version__, message="holdfast %(version)s")
def holdfast() -> None:
    """A durable outbox and delivery engine for agents and services.

    Exit codes: 0 success, 1 failure, 2 usage error, 3 not found, 4 no daemon answers.
    """


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        code = holdfast.main(arguments, prog_name="holdfast", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return _fail("interrupted", FAILED)
    except HoldfastError as error:
        return _fail(error.message, _code_of(error))
    except OSError as error:
        return _fail(f"{error.filename or 'the system'}: {error.strerror or error}", FAILED)
    return code if isinstance(code, int) else 0


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def _code_of(error: HoldfastError) -> int:
    from holdfast.surfaces.cli.client import Unreachable

    if isinstance(error, Unreachable):
        return UNREACHABLE
    if isinstance(error, NotFound):
        return NOT_FOUND
    return USAGE if isinstance(error, BadInput) and not isinstance(error, BadConfig | TargetRefused) else FAILED


def _fail(message: str, code: int) -> int:
    from holdfast.surfaces.cli.output import warn

    warn(message)
    return code


if __name__ == "__main__":
    main()
