"""`holdfast hook`: run the hook receiver through the full command line."""

from __future__ import annotations

import contextlib
import os
import sys

import click


class RawCommand(click.Command):
    """A command that does not parse its arguments: the agent would see the error message of a wrong one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args == ["--help"]:
            return super().parse_args(ctx, args)
        ctx.args = list(args)
        return ctx.args


@click.command(cls=RawCommand)
@click.option("--agent", metavar="NAME", help="Agent CLI that sends the event.")
@click.option("--home", metavar="FOLDER", help="Home folder to spool to. Default: HOLDFAST_HOME.")
@click.argument("event", required=False)
@click.argument("payload", required=False)
@click.pass_context
def hook(ctx: click.Context, /, **_: object) -> int:
    """Receive a hook event of an agent CLI and spool it.

    The payload is read from standard input or taken from PAYLOAD.

    Prints nothing and always exits with 0, so that the agent is never disturbed. Agents that are set up with `holdfast
    hooks install` run the receiver directly, which starts much faster.
    """
    from holdfast.agents.receiver import receiver

    with contextlib.suppress(OSError):
        os.execv(sys.executable, [sys.executable, "-I", "-S", receiver.__file__, *ctx.args])  # noqa: S606
    return 0
