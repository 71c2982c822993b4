"""`holdfast contracts`: who wants which events, where."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.domain.contract import FORMATS
from holdfast.surfaces.cli.client import Client, find_client, part
from holdfast.surfaces.cli.options import NearGroup, criterion, json_option, long_page_options, split_pairs
from holdfast.surfaces.cli.output import many, say, show, show_fields, show_table, visible, warn

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=NearGroup)
def contracts() -> None:
    """Say who wants which events, where."""


def wish_options(command: F) -> F:
    """What a contract is made of."""
    for add in (
        click.option("--ttl", metavar="SECONDS", type=float, help="End the contract after so long."),
        click.option(
            "--retry-on", metavar="STATUS", type=int, multiple=True,
            help="Retry this refusal, such as 404, instead of ending. Repeat for more.",
        ),
        click.option("--template", metavar="TEXT", help="The body, with {type} or {payload.id} filled in."),
        click.option("--format", type=click.Choice(FORMATS), help="What the receiver is sent; raw: the event itself."),
        click.option("--rate", metavar="N/s", help="At most so many requests, such as 10/s, 90/m or 1000/h."),
        click.option("--concurrency", type=int, help="At most so many deliveries at a time."),
        click.option("--timeout", metavar="SECONDS", type=float, help="How long one attempt may take."),
        click.option("--attempts", type=int, help="Dead after so many failed attempts."),
        click.option("--policy", help="The retry policy, such as webhook or patient."),
        click.option("--ordered/--unordered", default=None, help="Keep the order of each stream, or not."),
        click.option("--handler", metavar="NAME", help="Deliver to this function of the application."),
        click.option("--url", help="Deliver to this URL."),
        click.option(
            "--property", "properties", multiple=True, metavar="NAME=VALUE",
            help="Only with this property; a wildcard makes it a pattern. Repeat a name for any of several values.",
        ),
        click.option(
            "--source", metavar="PATTERN", multiple=True, help="Only from this source. Repeat for any of several."
        ),
        click.option(
            "--type", metavar="PATTERN", multiple=True,
            help="Only of this type, such as order.* Repeat for any of several.",
        ),
    ):  # fmt: skip
        command = add(command)
    return command


@contracts.command("list")
@click.option("--property", help="Only those with a criterion on this property.")
@click.option("--value", help="Only those that accept this value of the property.")
@click.option("--source", help="Only those from config, api or programmatic.")
@click.option("--inactive", is_flag=True, help="Those that are disabled or expired too.")
@long_page_options
@json_option
def list_contracts(as_json: bool, inactive: bool, **query: Any) -> None:
    """List active contracts, by id."""
    columns = ("id", "wants", "address", "policy", "ordered", "state")
    client = find_client()
    show(
        client.get("/hooks/contracts", {**query, "inactive": "true" if inactive else None}),
        as_json,
        lambda found: show_table([_row(item) for item in found], columns),
    )
    _say_more(client)


@contracts.command("show")
@click.argument("id")
@json_option
def show_contract(id: str, as_json: bool) -> None:
    """Show one contract."""
    show(find_client().get(f"/hooks/contracts/{part(id)}"), as_json, show_fields)


@contracts.command("add")
@click.option("--id", help="Its name; a contract of that name is replaced. Left out: one made of its wishes.")
@click.option(
    "--secret-env", metavar="NAME", help="The variable that holds the signing secret; never the secret itself."
)
@click.option(
    "--header-env",
    "headers",
    multiple=True,
    metavar="HEADER=NAME",
    help="Send this header with the value of that variable. Repeat for more.",
)
@wish_options
@json_option
def add_contract(id: str | None, secret_env: str | None, headers: tuple[str, ...], as_json: bool, **wish: Any) -> None:
    """Create a contract, or replace the one of that id."""
    body = _body(id or "", wish)
    body["id"] = id or _name(body)
    if secret_env is not None:
        body["target"]["secret"] = _secret("--secret-env", secret_env)
    if headers:
        pairs = split_pairs(headers, "--header-env")
        body["headers"] = {name: _secret("--header-env", variable) for name, variable in pairs}
    show(find_client().post("/hooks/contracts", body), as_json, show_fields)


@contracts.command("enable")
@click.argument("id")
@json_option
def enable_contract(id: str, as_json: bool) -> None:
    """Enable a contract; what was parked goes on."""
    answer = find_client().post(f"/hooks/contracts/{part(id)}/enable", {})
    show(answer, as_json, lambda _: say(f"enabled {visible(id)}"))


@contracts.command("disable")
@click.argument("id")
@json_option
def disable_contract(id: str, as_json: bool) -> None:
    """Disable a contract; what waits for it is parked until it is enabled or removed."""
    answer = find_client().post(f"/hooks/contracts/{part(id)}/disable", {})
    show(answer, as_json, lambda _: say(f"disabled {visible(id)}"))


@contracts.command("rotate")
@click.argument("id")
@click.option("--secret-env", metavar="NAME", required=True, help="The variable that holds the new signing secret.")
@click.option("--overlap", metavar="SECONDS", type=float, help="How long the old secret signs too; a day if left out.")
@json_option
def rotate_secret(id: str, secret_env: str, overlap: float | None, as_json: bool) -> None:
    """Give a contract a new signing secret; the old one signs beside it for a while."""
    body: dict[str, Any] = {"secret": _secret("--secret-env", secret_env)}
    if overlap is not None:
        body["overlap_seconds"] = overlap
    answer = find_client().post(f"/hooks/contracts/{part(id)}/rotate", body)
    show(answer, as_json, lambda _: say(f"{visible(id)} signs with its new secret"))


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
@long_page_options
@json_option
def contract_properties(as_json: bool, **query: Any) -> None:
    """List the properties and values that active contracts ask for."""
    client = find_client()
    show(
        client.get("/hooks/properties", query),
        as_json,
        lambda found: show_table(
            [{"property": name, "values": ", ".join(values)} for name, values in found.items()], ("property", "values")
        ),
    )
    _say_more(client)


def _say_more(client: Client) -> None:
    """The answer is a plain list, so that there is more is said beside it."""
    if client.next is not None:
        warn(f"there are more; go on with: --after {visible(client.next)}")


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
        **{name: wish[name] for name in ("policy", "attempts", "ordered", "timeout", "concurrency", "rate", "format")},
        "template": wish["template"],
        "retry_on": list(wish["retry_on"]) or None,
    }
    if body["template"] is not None and body["format"] is None:
        body["format"] = "template"
    for name in ("type", "source"):
        if wish[name]:
            body[f"{name}_criterion"] = criterion(wish[name], f"--{name}")
    return body


def _name(body: dict[str, Any]) -> str:
    """An id for a contract that was given none: the same options make the same id."""
    type = body.get("type_criterion") or {}
    match = type.get("match")
    said = match[0] if isinstance(match, list) else match or type.get("pattern") or ""
    said = re.sub(r"[^A-Za-z0-9_.-]+", "", said).strip(".-") or "all"
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return f"{said[:60]}-{digest[:6]}"


def _secret(option: str, name: str) -> str:
    secret = os.environ.get(name)
    if not secret:
        raise click.UsageError(f"{option} {name}: {name} is not set in the environment")
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
    state = "active" if contract["active"] else "retired" if contract["retired"] else "inactive"
    if contract["active"] and contract["misconfigured"]:
        state = f"misconfigured: {contract['misconfigured']}"
    return {**contract, "wants": " ".join(words) or "everything", "address": address, "state": state}


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
