"""`holdfast hook`: the receiver of agents' events, behind the full command."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import click


class Unread(click.Command):
    """A command that takes its words as they are: a wrong one must not end in an error that an agent would see."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args == ["--help"]:
            return super().parse_args(ctx, args)
        ctx.args = list(args)
        return ctx.args


@click.command(cls=Unread)
@click.option("--agent", metavar="NAME", help="Whose event it is: claude, codex, gemini and so on.")
@click.option("--home", metavar="FOLDER", help="Whose spool it goes to; else HOLDFAST_HOME or the default.")
@click.argument("event", required=False)
@click.argument("payload", required=False)
@click.pass_context
def hook(ctx: click.Context, /, **_: Any) -> int:
    """Keep an event of an agent's command line.

    It is read from standard input or from PAYLOAD.

    Always 0, and silent. An agent had better run the receiver itself, which starts far quicker.
    """
    from holdfast.agents.receiver import receiver

    with contextlib.suppress(OSError):
        os.execv(sys.executable, [sys.executable, "-I", "-S", receiver.__file__, *ctx.args])  # noqa: S606
    return 0
