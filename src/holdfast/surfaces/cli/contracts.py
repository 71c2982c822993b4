"""`holdfast contracts`: manage contracts."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from typing import TypeVar

import click

from holdfast.domain.contract import FORMATS
from holdfast.domain.json_value import Json, JsonObject
from holdfast.surfaces.cli.client import Client, find_client, part
from holdfast.surfaces.cli.options import Group, criterion, json_option, long_page_options, split_pairs
from holdfast.surfaces.cli.output import echo, plural, show, show_fields, show_table, visible, warn

F = TypeVar("F", bound=Callable[..., object])


@click.group(cls=Group)
def contracts() -> None:
    """Manage contracts: which events are delivered where."""


def contract_options(command: F) -> F:
    """The options that describe a contract."""
    for add in (
        click.option("--ttl", metavar="SECONDS", type=float, help="The contract expires after this time."),
        click.option(
            "--retry-on", metavar="STATUS", type=int, multiple=True,
            help="Retry this response status, such as 404, instead of giving up. Repeatable.",
        ),
        click.option("--template", metavar="TEXT", help="Request body; {type} or {payload.id} are filled in."),
        click.option("--format", type=click.Choice(FORMATS), help="Body format; raw is the event as JSON."),
        click.option("--rate", metavar="N/s", help="Maximum request rate, such as 10/s, 90/m or 1000/h."),
        click.option("--concurrency", type=int, help="Maximum number of concurrent deliveries."),
        click.option("--timeout", metavar="SECONDS", type=float, help="Time limit of one attempt."),
        click.option("--attempts", type=int, help="Dead-letter a delivery after this many failed attempts."),
        click.option("--policy", help="Retry policy, such as webhook or patient."),
        click.option("--ordered/--unordered", default=None, help="Deliver each stream in order, or independently."),
        click.option("--handler", metavar="NAME", help="Deliver to this handler of the application."),
        click.option("--url", help="Deliver to this URL."),
        click.option(
            "--property", "properties", multiple=True, metavar="NAME=VALUE",
            help="Match events with this property value or pattern; repeat a name to match any of its values.",
        ),
        click.option(
            "--source", metavar="PATTERN", multiple=True,
            help="Match events from this source; repeat to match any of several.",
        ),
        click.option(
            "--type", metavar="PATTERN", multiple=True,
            help="Match events of this type, such as order.*; repeat to match any of several.",
        ),
    ):  # fmt: skip
        command = add(command)
    return command


@contracts.command("list")
@click.option("--property", help="Only contracts with a criterion on this property.")
@click.option("--value", help="Only contracts that accept this value of the property.")
@click.option("--source", help="Only contracts of this origin: config, api or programmatic.")
@click.option("--inactive", is_flag=True, help="Also list disabled and expired contracts.")
@long_page_options
@json_option
def list_contracts(as_json: bool, inactive: bool, **query: object) -> None:
    """List active contracts, ordered by id."""
    columns = ("id", "matches", "address", "policy", "ordered", "state")
    client = find_client()
    show(
        client.get("/hooks/contracts", {**query, "inactive": "true" if inactive else None}),
        as_json,
        lambda contracts: show_table([_row(contract) for contract in contracts], columns),
    )
    _mention_next_page(client)


@contracts.command("show")
@click.argument("id")
@json_option
def show_contract(id: str, as_json: bool) -> None:
    """Show one contract."""
    show(find_client().get(f"/hooks/contracts/{part(id)}"), as_json, show_fields)


@contracts.command("add")
@click.option("--id", help="Contract id; replaces an existing one. Default: generated.")
@click.option("--secret-env", metavar="NAME", help="Environment variable that holds the signing secret.")
@click.option(
    "--header-env",
    "headers",
    multiple=True,
    metavar="HEADER=NAME",
    help="Send this header with the value of an environment variable. Repeatable.",
)
@contract_options
@json_option
def add_contract(
    id: str | None, secret_env: str | None, headers: tuple[str, ...], as_json: bool, **options: Json
) -> None:
    """Create a contract, or replace the one with the same id."""
    body = _body(id or "", options)
    body["id"] = id or _generate_id(body)
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
    """Enable a contract. Its parked deliveries resume."""
    answer = find_client().post(f"/hooks/contracts/{part(id)}/enable", {})
    show(answer, as_json, lambda _: echo(f"Contract {visible(id)} enabled."))


@contracts.command("disable")
@click.argument("id")
@json_option
def disable_contract(id: str, as_json: bool) -> None:
    """Disable a contract. Its pending deliveries are parked until it is enabled or removed."""
    answer = find_client().post(f"/hooks/contracts/{part(id)}/disable", {})
    show(answer, as_json, lambda _: echo(f"Contract {visible(id)} disabled."))


@contracts.command("rotate")
@click.argument("id")
@click.option(
    "--secret-env", metavar="NAME", required=True, help="Environment variable that holds the new signing secret."
)
@click.option(
    "--overlap", metavar="SECONDS", type=float, help="Also sign with the old secret for this time. Default: one day."
)
@json_option
def rotate_secret(id: str, secret_env: str, overlap: float | None, as_json: bool) -> None:
    """Replace a contract's signing secret. Requests are signed with both secrets for a while."""
    body: JsonObject = {"secret": _secret("--secret-env", secret_env)}
    if overlap is not None:
        body["overlap_seconds"] = overlap
    answer = find_client().post(f"/hooks/contracts/{part(id)}/rotate", body)
    show(answer, as_json, lambda _: echo(f"Contract {visible(id)} now signs with the new secret."))


@contracts.command("remove")
@click.argument("id")
@json_option
def remove_contract(id: str, as_json: bool) -> None:
    """Remove a contract. Its pending deliveries are dropped."""
    answer = find_client().delete(f"/hooks/contracts/{part(id)}")
    show(answer, as_json, lambda _: echo(f"Contract {visible(id)} removed."))


@contracts.command("test")
@click.option("--id", default="test", help="Contract id to test under.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Number of latest events to test."
)
@contract_options
@json_option
def try_contract(id: str, limit: int, as_json: bool, **options: Json) -> None:
    """Show which past events a contract would have matched. Nothing is created."""
    if not any(options[kind] for kind in ("url", "handler")):
        options["handler"] = "test"  # the target has no influence on which events match
    answer = find_client().post(f"/hooks/contracts/test?limit={limit}", _body(id, options))
    show(answer, as_json, _print_test)


@contracts.command("properties")
@long_page_options
@json_option
def contract_properties(as_json: bool, **query: object) -> None:
    """List the properties and values that active contracts match on."""
    client = find_client()
    show(
        client.get("/hooks/properties", query),
        as_json,
        lambda properties: show_table(
            [{"property": name, "values": ", ".join(values)} for name, values in properties.items()],
            ("property", "values"),
        ),
    )
    _mention_next_page(client)


def _mention_next_page(client: Client) -> None:
    """The answer is a plain list without a cursor, so the cursor is printed on stderr."""
    if client.next is not None:
        warn(f"there are more; continue with: --after {visible(client.next)}")


def _body(id: str, options: JsonObject) -> JsonObject:
    """The contract as the REST API takes it."""
    target = {kind: options[kind] for kind in ("url", "handler") if options[kind] is not None}
    if len(target) != 1:
        raise click.UsageError("give exactly one target: --url or --handler")
    values: dict[str, list[str]] = {}
    for name, value in split_pairs(options["properties"], "--property"):
        values.setdefault(name, []).append(value)
    body = {
        "id": id,
        "target": target,
        "properties": {name: criterion(given, f"--property {name}") for name, given in values.items()},
        "ttl_seconds": options["ttl"],
        **{name: options[name] for name in ("policy", "attempts", "ordered", "timeout", "concurrency")},
        **{name: options[name] for name in ("rate", "format", "template")},
        "retry_on": list(options["retry_on"]) or None,
    }
    if body["template"] is not None and body["format"] is None:
        body["format"] = "template"
    for name in ("type", "source"):
        if options[name]:
            body[f"{name}_criterion"] = criterion(options[name], f"--{name}")
    return body


def _generate_id(body: JsonObject) -> str:
    """Generate an id. The same options give the same id."""
    type = body.get("type_criterion") or {}
    match = type.get("match")
    text = match[0] if isinstance(match, list) else match or type.get("pattern") or ""
    text = re.sub(r"[^A-Za-z0-9_.-]+", "", text).strip(".-") or "all"
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return f"{text[:60]}-{digest[:6]}"


def _secret(option: str, name: str) -> str:
    secret = os.environ.get(name)
    if not secret:
        raise click.UsageError(f"{option} {name}: the environment variable {name} is not set")
    return secret


def _row(contract: JsonObject) -> JsonObject:
    target = contract["target"]
    criteria = {
        "type": contract["type_criterion"],
        "source": contract["source_criterion"],
        **contract["properties"],
    }
    words = [f"{name}={_criterion_text(value)}" for name, value in criteria.items() if value is not None]
    address = target["url"] or f"handler:{target['handler']}"
    state = "active" if contract["active"] else "retired" if contract["retired"] else "inactive"
    if contract["active"] and contract["misconfigured"]:
        state = f"misconfigured: {contract['misconfigured']}"
    return {**contract, "matches": " ".join(words) or "everything", "address": address, "state": state}


def _criterion_text(value: JsonObject) -> str:
    match = value.get("match")
    texts = [match] if isinstance(match, str) else list(match or ())
    return "|".join(texts) or value.get("pattern") or "(any)"


def _print_test(answer: JsonObject) -> None:
    echo(f"Would have matched {answer['matched']} of the last {answer['tested']} events.")
    if answer["items"]:
        echo()
        show_table(answer["items"], ("id", "type", "source", "stream"))
    if answer["misses"]:
        echo("\nNot matched:")
        for group in answer["misses"]:
            echo(f"  {plural(group['events'], 'event')}, such as {visible(group['example'])}: {visible(group['why'])}")
        if answer["misses_left_off"]:
            echo(f"  ({plural(answer['misses_left_off'], 'reason')} more)")
