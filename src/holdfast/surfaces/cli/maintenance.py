"""`holdfast status`, `pause`, `resume` and `prune`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from holdfast.domain.json_value import JsonObject
from holdfast.surfaces.cli.client import LONG_S, find_client
from holdfast.surfaces.cli.options import Command, json_option
from holdfast.surfaces.cli.output import echo, show, show_fields, visible

F = TypeVar("F", bound=Callable[..., object])


@click.command(cls=Command)
@json_option
def status(as_json: bool) -> None:
    """Show daemon health and queue counts."""
    show(find_client().get("/api/status"), as_json, _print_status)


def target_options(command: F) -> F:
    command = json_option(command)
    for name, text in (("lane", "The lane."), ("address", "The address."), ("contract", "The contract id.")):
        command = click.option(f"--{name}", help=text)(command)
    return command


@click.command(cls=Command)
@target_options
def pause(as_json: bool, **options: str | None) -> None:
    """Pause deliveries of a contract, address or lane.

    Pending ones stay queued.
    """
    show(find_client().post("/api/pause", _target(options)), as_json, _print_pause)


@click.command(cls=Command)
@target_options
def resume(as_json: bool, **options: str | None) -> None:
    """Resume deliveries of a contract, address or lane."""
    show(find_client().post("/api/resume", _target(options)), as_json, _print_pause)


@click.command(cls=Command)
@json_option
def prune(as_json: bool) -> None:
    """Delete data that is past its retention time."""
    show(find_client(LONG_S).post("/api/prune"), as_json, show_fields)


def _target(options: dict[str, str | None]) -> dict[str, str]:
    given = [(scope, name) for scope, name in options.items() if name is not None]
    if len(given) != 1:
        raise click.UsageError("give exactly one of --contract, --address, --lane")
    return {"scope": given[0][0], "name": given[0][1]}


def _print_pause(answer: JsonObject) -> None:
    target = f"{answer['scope'].capitalize()} {visible(answer['name'])}"
    if answer["changed"]:
        echo(f"{target} {'paused' if answer['paused'] else 'resumed'}.")
    else:
        echo(f"{target} {'is already paused' if answer['paused'] else 'was not paused'}.")


def _print_status(answer: JsonObject) -> None:
    failing = {name: state for name, state in answer["duties"].items() if state != "ok"}
    shown = {name: value for name, value in answer.items() if name not in ("duties", "paused", "notes")}
    show_fields({**shown, "paused": [f"{p['scope']} {p['name']}" for p in answer["paused"]]})
    for name, state in failing.items():
        echo(f"failing: {visible(name)}: {visible(state)}")
    for note in answer["notes"]:
        echo(f"note: {visible(note)}")
