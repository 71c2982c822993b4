"""`holdfast status`, `pause`, `resume`, `prune`: care of what runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.surfaces.cli.client import LONG_S, find_client
from holdfast.surfaces.cli.options import json_option
from holdfast.surfaces.cli.output import say, show, show_fields, visible

F = TypeVar("F", bound=Callable[..., Any])


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Say what is true right now."""
    show(find_client().get("/api/status"), as_json, _say_status)


def hold_options(command: F) -> F:
    command = json_option(command)
    for name, text in (("lane", "This lane."), ("address", "This address."), ("contract", "This contract.")):
        command = click.option(f"--{name}", help=text)(command)
    return command


@click.command()
@hold_options
def pause(as_json: bool, **chosen: str | None) -> None:
    """Hold a contract, an address or a lane: what waits, waits."""
    show(find_client().post("/api/pause", _hold(chosen)), as_json, _say_hold)


@click.command()
@hold_options
def resume(as_json: bool, **chosen: str | None) -> None:
    """Let a contract, an address or a lane go on."""
    show(find_client().post("/api/resume", _hold(chosen)), as_json, _say_hold)


@click.command()
@json_option
def prune(as_json: bool) -> None:
    """Remove now what is past its retention."""
    show(find_client(LONG_S).post("/api/prune"), as_json, show_fields)


def _hold(chosen: dict[str, str | None]) -> dict[str, str]:
    given = [(scope, name) for scope, name in chosen.items() if name is not None]
    if len(given) != 1:
        raise click.UsageError("say what: exactly one of --contract, --address, --lane")
    return {"scope": given[0][0], "name": given[0][1]}


def _say_hold(answer: dict[str, Any]) -> None:
    already = "" if answer["changed"] else " already"
    state = "is paused" if answer["paused"] else "goes on"
    say(f"{answer['scope']} {visible(answer['name'])} {state}{already}")


def _say_status(answer: dict[str, Any]) -> None:
    failing = {name: state for name, state in answer["duties"].items() if state != "ok"}
    shown = {name: value for name, value in answer.items() if name not in ("duties", "paused", "notes")}
    show_fields({**shown, "paused": [f"{p['scope']} {p['name']}" for p in answer["paused"]]})
    for name, state in failing.items():
        say(f"failing: {visible(name)}: {visible(state)}")
    for note in answer["notes"]:
        say(f"note: {visible(note)}")
