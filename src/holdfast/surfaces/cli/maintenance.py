"""`holdfast status`, `pause`, `resume` and `prune`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import click

from holdfast.domain.json_value import KnownJson
from holdfast.progress import Progress
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.client import Client
from holdfast.surfaces.cli.client_options import with_client, with_long_timeout
from holdfast.surfaces.cli.dashboard import daemon_line, dashboard_lines, receipts_line
from holdfast.surfaces.cli.fields import show_fields
from holdfast.surfaces.cli.options import Command, json_option
from holdfast.surfaces.cli.output import echo, plural, show, show_lines, visible

HIDDEN = ("duties", "paused", "notes", "readers", "daemons", "receipts")
F = TypeVar("F", bound=Callable[..., object])
PRUNE_MAX = 100_000
"""How many rows of one kind a daemon removes for one request. If there were so many, there may be more."""


@click.command(cls=Command)
@click.option("--watch", is_flag=True, help="Show it again every second, until Ctrl-C.")
@with_client
@json_option
def status(client: Client, watch: bool, as_json: bool) -> None:
    """Show daemon health and queue counts."""
    if watch:
        from holdfast.surfaces.cli.watch import watch_answer

        watch_answer(client, "/api/status", {}, dashboard_lines, as_json)
    else:
        show(client.get("/api/status"), as_json, _print_status)


def target_options(command: F) -> F:
    command = with_client(json_option(command))
    for name, text in (("lane", "The lane."), ("address", "The address."), ("contract", "The contract id.")):
        command = click.option(f"--{name}", help=text)(command)
    return command


@click.command(cls=Command)
@target_options
def pause(client: Client, as_json: bool, **options: str | None) -> None:
    """Pause deliveries of a contract, address or lane.

    Pending ones stay queued.
    """
    show(client.post("/api/pause", _target(options)), as_json, _print_pause)


@click.command(cls=Command)
@target_options
def resume(client: Client, as_json: bool, **options: str | None) -> None:
    """Resume deliveries of a contract, address or lane."""
    show(client.post("/api/resume", _target(options)), as_json, _print_pause)


@click.command(cls=Command)
@with_long_timeout
@json_option
def prune(client: Client, as_json: bool) -> None:
    """Delete data that is past its retention time."""
    pruned: Counter[str] = Counter()
    with Progress("pruned rows", quiet=as_json) as progress:
        while True:
            answer = client.post("/api/prune")
            pruned.update(answer)
            progress(pruned.total())
            if max(answer.values()) < PRUNE_MAX:
                break
    show({name: pruned[name] for name in answer}, as_json, _print_pruned)


def _target(options: dict[str, str | None]) -> dict[str, str]:
    given = [(scope, name) for scope, name in options.items() if name is not None]
    if len(given) != 1:
        raise click.UsageError("give exactly one of --contract, --address, --lane")
    return {"scope": given[0][0], "name": given[0][1]}


def _print_pause(answer: KnownJson) -> None:
    target = f"{answer['scope'].capitalize()} {visible(answer['name'])}"
    if answer["changed"]:
        echo(f"{target} {'paused' if answer['paused'] else 'resumed'}.")
    else:
        echo(f"{target} {'is already paused' if answer['paused'] else 'was not paused'}.")


def _print_pruned(answer: KnownJson) -> None:
    counts = [plural(count, name.replace("_", " ").removesuffix("s")) for name, count in answer.items() if count]
    echo(f"Pruned: {', '.join(counts)}." if counts else "Nothing is past its retention time.")


def _print_status(answer: KnownJson) -> None:
    if terminal.is_terminal():
        show_lines(dashboard_lines(answer))
        return
    failing = {name: state for name, state in answer["duties"].items() if state != "ok"}
    shown = {name: value for name, value in answer.items() if name not in HIDDEN}
    readers = [f"{r['name']} ({r['lag_events']} events behind)" for r in answer["readers"]]
    receipts = receipts_line(answer["receipts"])
    show_fields(
        {
            **shown,
            "receipts": receipts,
            "readers": readers,
            "paused": [f"{p['scope']} {p['name']}" for p in answer["paused"]],
        }
    )
    for one in answer["daemons"]:
        echo(f"daemon: {visible(daemon_line(one))}")
    for name, state in failing.items():
        echo(f"failing: {visible(name)}: {visible(state)}")
    for note in answer["notes"]:
        echo(f"note: {visible(note)}")
