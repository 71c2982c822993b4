"""Options that several commands share, and groups that suggest the near command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, and nothing else.")

_WILDCARD = re.compile(r"[*?\[]")


class NearGroup(click.Group):
    """A group that answers a wrong name with the near one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ctx.resilient_parsing or args[0].startswith("-") or self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        near = get_close_matches(args[0], self.list_commands(ctx), n=1)
        hint = f"did you mean {near[0]}?" if near else f"see: {ctx.command_path} --help"
        return ctx.fail(f"there is no command {args[0]!r}; {hint}")


def page_options(command: F) -> F:
    return _page_options(command, 50)


def long_page_options(command: F) -> F:
    """For lists that are seldom long: as much as one answer holds."""
    return _page_options(command, 1000)


def _page_options(command: F, default: int) -> F:
    command = click.option(
        "--limit", type=click.IntRange(1, 1000), default=default, show_default=True, help="At most so many."
    )(command)
    return click.option("--after", metavar="CURSOR", help="Go on where the page before ended.")(command)


def filter_options(*, state: bool) -> Callable[[F], F]:
    """The filters on deliveries; dead letters have only one state."""
    helps = {
        "state": "Only pending, delivered, dead or dropped.",
        "reason": "Only those that ended for this reason.",
        "contract": "Only those of this contract.",
        "address": "Only those to this address.",
        "stream": "Only those of events of this stream.",
        "event": "Only those of this event.",
    }

    def add(command: F) -> F:
        for name, text in reversed(helps.items()):
            if name != "state" or state:
                command = click.option(f"--{name}", help=text)(command)
        return command

    return add


def split_pairs(pairs: Iterable[str], option: str) -> list[tuple[str, str]]:
    """`name=value` texts as pairs."""
    found = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise click.UsageError(f"{option} takes NAME=VALUE, not {pair!r}")
        found.append((name, value))
    return found


def criterion(values: Sequence[str], option: str) -> dict[str, Any]:
    """One value as the contract writes it: exact, or a pattern where it has wildcards; several exact ones: any."""
    if len(values) == 1:
        return {"pattern" if _WILDCARD.search(values[0]) else "match": values[0]}
    if any(_WILDCARD.search(value) for value in values):
        raise click.UsageError(
            f"{option} takes one pattern or several exact values; for several patterns add one contract each"
        )
    return {"match": list(values)}
