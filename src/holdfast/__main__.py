"""The `holdfast` command: a table of commands, each loaded only when it is used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

import click

from holdfast.domain.errors import BadConfig, BadInput, HoldfastError, NotFound, TargetRefused
from holdfast.surfaces.cli.options import NearGroup
from holdfast.version import __version__

FAILED, USAGE, NOT_FOUND, UNREACHABLE = 1, 2, 3, 4


class Entry(NamedTuple):
    """A command: where it stands in the help, what it does in one line, and where it lives."""

    group: str
    help: str
    home: str


CLI, OWN = "holdfast.surfaces.cli", "holdfast.daemon.commands"
COMMANDS = {
    "up": Entry("Run", "Run the daemon in the foreground.", OWN),
    "demo": Entry("Run", "Tell the whole story in one minute, in a temporary home.", "holdfast.demo.command"),
    "prove": Entry("Run", "Kill Holdfast on this machine, and account for every event.", "holdfast.proof.command"),
    "hooks": Entry("Agents", "Wire the agent CLIs, unwire them, and see how it stands.", f"{CLI}.hooks"),
    "service": Entry("Agents", "Run the daemon as a service of the user.", f"{CLI}.service"),
    "emit": Entry("Work", "Append an event.", f"{CLI}.emit"),
    "hook": Entry("Agents", "Keep an event of an agent's command line.", f"{CLI}.hook"),
    "contracts": Entry("Work", "Say who wants which events, where.", f"{CLI}.contracts"),
    "status": Entry("Look", "Say what is true right now.", f"{CLI}.maintenance"),
    "events": Entry("Look", "Look at events, and route again those nobody wanted.", f"{CLI}.events"),
    "explain": Entry("Look", "Say why an event went where it went, and why not elsewhere.", f"{CLI}.explain"),
    "sessions": Entry("Look", "Look at the sessions of agents, and close one.", f"{CLI}.sessions"),
    "streams": Entry("Look", "Look at streams.", f"{CLI}.streams"),
    "receipts": Entry("Look", "Look at the receipts, and verify that they are whole.", f"{CLI}.receipts"),
    "deliveries": Entry("Repair", "Look at deliveries, retry or cancel one.", f"{CLI}.deliveries"),
    "dlq": Entry("Repair", "Look at dead letters, reprocess or discard them.", f"{CLI}.dlq"),
    "pause": Entry("Repair", "Hold a contract, an address or a lane: what waits, waits.", f"{CLI}.maintenance"),
    "resume": Entry("Repair", "Let a contract, an address or a lane go on.", f"{CLI}.maintenance"),
    "prune": Entry("Care", "Remove now what is past its retention.", f"{CLI}.maintenance"),
    "doctor": Entry("Care", "Examine this machine's Holdfast, and say what to do.", OWN),
    "token": Entry("Care", "Create, list and revoke tokens of the REST surface.", OWN),
    "db": Entry("Care", "Prepare, print, back up and restore the store.", OWN),
}


class Commands(NearGroup):
    """The top of the tree. Its help needs no command to be loaded."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.home), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group in dict.fromkeys(entry.group for entry in COMMANDS.values()):
            with formatter.section(group):
                formatter.write_dl([(name, e.help) for name, e in COMMANDS.items() if e.group == group])


@click.command(cls=Commands)
@click.version_option(__version__, message="holdfast %(version)s")
def holdfast() -> None:
    """Every message survives, arrives in order, and leaves proof.

    Exit codes: 0 done, 1 failed, 2 wrong use, 3 not found, 4 no daemon answers.
    """


def run(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    try:
        code = holdfast.main(arguments, prog_name="holdfast", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return _fail("stopped", FAILED)
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
