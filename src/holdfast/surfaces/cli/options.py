"""Command and group classes, and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click

from holdfast.domain.json_value import KnownJson

F = TypeVar("F", bound=Callable[..., object])

json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON and nothing else.")
store_option = click.option("--store", metavar="URL", help="Store, such as sqlite:///app.db. Default: as configured.")
app_option = click.option("--app", metavar="MODULE:NAME", help="The application's outbox, such as shop:outbox.")

direct_store_option = click.option("--store", metavar="URL", help="Work on this store, without a daemon.")
direct_app_option = click.option("--app", metavar="MODULE:NAME", help="Work on this application's store.")


def direct_options(command: F) -> F:
    """For commands that also work on a store without a daemon; see `find_client_of`."""
    return direct_store_option(direct_app_option(command))


_WILDCARD = re.compile(r"[*?\[]")


class Command(click.Command):
    """A command that refuses a second value for a single-value option. Click itself silently takes the last one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _refuse_second_values(self.make_parser(ctx).parse_args(list(args))[2], ctx)
        return super().parse_args(ctx, args)


class Group(click.Group):
    """A group that answers an unknown command with the closest known one."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ctx.resilient_parsing or args[0].startswith("-") or self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        close = get_close_matches(args[0], self.list_commands(ctx), n=1)
        hint = f"did you mean {close[0]}?" if close else f"see: {ctx.command_path} --help"
        return ctx.fail(f"there is no command {args[0]!r}; {hint}")


def _refuse_second_values(given: Sequence[click.Parameter], ctx: click.Context) -> None:
    """`given` is every occurrence of a parameter, in order. Repeating the same plain flag is harmless."""
    first: dict[str | None, click.Option] = {}
    for option in given:
        if not isinstance(option, click.Option) or option.multiple or option.count:
            continue
        earlier = first.get(option.name)
        first[option.name] = option
        if earlier is None or (earlier is option and option.is_flag and not option.secondary_opts):
            continue
        if earlier is not option:
            raise click.UsageError(f"{earlier.opts[0]} and {option.opts[0]} cannot be combined", ctx)
        raise click.UsageError(f"{'/'.join(option.opts + option.secondary_opts)} can be given only once", ctx)


def page_options(command: F) -> F:
    return _page_options(command, 50)


def long_page_options(command: F) -> F:
    """For lists that are usually short: by default, as many items as one answer may hold."""
    return _page_options(command, 1000)


def _page_options(command: F, default: int) -> F:
    command = click.option(
        "--limit", type=click.IntRange(1, 1000), default=default, show_default=True, help="Maximum number of items."
    )(command)
    return click.option("--after", metavar="CURSOR", help="Continue after this cursor, printed by the previous page.")(
        command
    )


def filter_options(*, state: bool) -> Callable[[F], F]:
    """Filters on deliveries. Dead letters all have the same state, so their commands leave `--state` out."""
    helps = {
        "state": "Only deliveries in this state: pending, delivered, dead or dropped.",
        "reason": "Only deliveries that ended with this reason.",
        "contract": "Only deliveries of this contract.",
        "address": "Only deliveries to this address.",
        "stream": "Only deliveries of events in this stream.",
        "event": "Only deliveries of this event.",
    }

    def add(command: F) -> F:
        for name, text in reversed(helps.items()):
            if name != "state" or state:
                command = click.option(f"--{name}", help=text)(command)
        return command

    return add


def split_pairs(pairs: Iterable[str], option: str) -> list[tuple[str, str]]:
    """Split `name=value` texts into pairs."""
    result = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise click.UsageError(f"{option} takes NAME=VALUE, not {pair!r}")
        result.append((name, value))
    return result


def criterion(values: Sequence[str], option: str) -> KnownJson:
    """A contract's criterion: a pattern if the one value has wildcards, otherwise one or more exact values."""
    if len(values) == 1:
        return {"pattern" if _WILDCARD.search(values[0]) else "match": values[0]}
    if any(_WILDCARD.search(value) for value in values):
        raise click.UsageError(
            f"{option} takes one pattern or several exact values; for several patterns add one contract each"
        )
    return {"match": list(values)}
