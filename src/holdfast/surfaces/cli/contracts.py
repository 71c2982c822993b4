"""`holdfast contracts`: who wants which events, where."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.surfaces.cli.client import find_client, part
from holdfast.surfaces.cli.options import NearGroup, criterion, json_option, split_pairs
from holdfast.surfaces.cli.output import many, say, show, show_fields, show_table, visible

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=NearGroup)
def contracts() -> None:
    """Say who wants which events, where."""


def wish_options(command: F) -> F:
    """What a contract is made of."""
    for add in (
        click.option("--ttl", metavar="SECONDS", type=float, help="End the contract after so long."),
        click.option("--concurrency", type=int, help="At most so many deliveries at a time."),
        click.option("--timeout", metavar="SECONDS", type=float, help="How long one attempt may take."),
        click.option("--attempts", type=int, help="Dead after so many failed attempts."),
        click.option("--policy", help="The retry policy, such as webhook or patient."),
        click.option("--ordered/--unordered", default=None, help="Keep the order of each stream, or not."),
        click.option("--handler", metavar="NAME", help="Deliver to this function of the application."),
        click.option("--url", help="Deliver to this URL."),
        click.option(
            "--property", "properties", multiple=True, metavar="NAME=VALUE",
            help="Only with this property; a wildcard makes it a pattern. Repeat for more.",
        ),
        click.option("--source", metavar="PATTERN", help="Only from this source."),
        click.option("--type", metavar="PATTERN", help="Only of this type, such as order.*"),
    ):  # fmt: skip
        command = add(command)
    return command


@contracts.command("list")
@click.option("--property", help="Only those with a criterion on this property.")
@click.option("--value", help="Only those that accept this value of the property.")
@json_option
def list_contracts(as_json: bool, **query: Any) -> None:
    """List active contracts."""
    show(
        find_client().get("/hooks/contracts", query),
        as_json,
        lambda found: show_table([_row(item) for item in found], ("id", "wants", "address", "policy", "ordered")),
    )


@contracts.command("show")
@click.argument("id")
@json_option
def show_contract(id: str, as_json: bool) -> None:
    """Show one contract."""
    show(find_client().get(f"/hooks/contracts/{part(id)}"), as_json, show_fields)


@contracts.command("add")
@click.option("--id", required=True, help="Its name; a contract of that name is replaced.")
@click.option(
    "--secret-env", metavar="NAME", help="The variable that holds the signing secret; never the secret itself."
)
@wish_options
@json_option
def add_contract(id: str, secret_env: str | None, as_json: bool, **wish: Any) -> None:
    """Create a contract, or replace the one of that id."""
    body = _body(id, wish)
    if secret_env is not None:
        body["target"]["secret"] = _secret(secret_env)
    show(find_client().post("/hooks/contracts", body), as_json, show_fields)


@contracts.command("remove")
@click.argument("id")
@json_option
def remove_contract(id: str, as_json: bool) -> None:
    """Remove a contract; what it still had waiting is dropped."""
    answer = find_client().delete(f"/hooks/contracts/{part(id)}")
    show(answer, as_json, lambda _: say(f"removed {visible(id)}"))


@contracts.command("test")
@click.option("--id", default="test", help="Its name, if it is to have one.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Look at so many events.")
@wish_options
@json_option
def try_contract(id: str, limit: int, as_json: bool, **wish: Any) -> None:
    """Say which past events a contract would have matched; nothing is created."""
    if not any(wish[kind] for kind in ("url", "handler")):
        wish["handler"] = "test"  # where it would deliver does not matter to what it matches
    answer = find_client().post(f"/hooks/contracts/test?limit={limit}", _body(id, wish))
    show(answer, as_json, _say_test)


@contracts.command("properties")
@json_option
def contract_properties(as_json: bool) -> None:
    """List the properties and values that active contracts ask for."""
    show(
        find_client().get("/hooks/properties"),
        as_json,
        lambda found: show_table(
            [{"property": name, "values": ", ".join(values)} for name, values in found.items()], ("property", "values")
        ),
    )


def _body(id: str, wish: dict[str, Any]) -> dict[str, Any]:
    """The contract as REST takes it."""
    target = {kind: wish[kind] for kind in ("url", "handler") if wish[kind] is not None}
    if len(target) != 1:
        raise click.UsageError("say where to deliver: exactly one of --url, --handler")
    values: dict[str, list[str]] = {}
    for name, value in split_pairs(wish["properties"], "--property"):
        values.setdefault(name, []).append(value)
    body = {
        "id": id,
        "target": target,
        "properties": {name: criterion(given, f"--property {name}") for name, given in values.items()},
        "ttl_seconds": wish["ttl"],
        **{name: wish[name] for name in ("policy", "attempts", "ordered", "timeout", "concurrency")},
    }
    for name in ("type", "source"):
        if wish[name] is not None:
            body[f"{name}_criterion"] = criterion([wish[name]], f"--{name}")
    return body


def _secret(name: str) -> str:
    secret = os.environ.get(name)
    if not secret:
        raise click.UsageError(f"--secret-env {name}: {name} is not set in the environment")
    return secret


def _row(contract: dict[str, Any]) -> dict[str, Any]:
    target = contract["target"]
    wants = {
        "type": contract["type_criterion"],
        "source": contract["source_criterion"],
        **contract["properties"],
    }
    words = [f"{name}={_wish_text(value)}" for name, value in wants.items() if value is not None]
    address = target["url"] or f"handler:{target['handler']}"
    return {**contract, "wants": " ".join(words) or "everything", "address": address}


def _wish_text(value: dict[str, Any]) -> str:
    match = value.get("match")
    texts = [match] if isinstance(match, str) else list(match or ())
    return "|".join(texts) or value.get("pattern") or "(any)"


def _say_test(answer: dict[str, Any]) -> None:
    say(f"would have matched {answer['matched']} of the last {answer['tested']} events")
    if answer["items"]:
        say()
        show_table(answer["items"], ("id", "type", "source", "stream"))
    if answer["misses"]:
        say("\nwhy it missed the others:")
        for group in answer["misses"]:
            say(f"  {many(group['events'], 'event')}, such as {visible(group['example'])}: {visible(group['why'])}")
        if answer["misses_left_off"]:
            say(f"  ({many(answer['misses_left_off'], 'reason')} more)")
