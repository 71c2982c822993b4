"""`holdfast completion`: scripts that complete commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from holdfast.surfaces.cli.options import Command
from holdfast.surfaces.cli.output import echo

VARIABLE = "_HOLDFAST_COMPLETE"


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for a shell.

    bash: add `eval "$(holdfast completion bash)"` to ~/.bashrc. zsh: the same with zsh, in ~/.zshrc. fish: save the
    output as ~/.config/fish/completions/holdfast.fish.
    """
    complete = get_completion_class(shell)
    assert complete is not None
    echo(complete(context.find_root().command, {}, "holdfast", VARIABLE).source())
