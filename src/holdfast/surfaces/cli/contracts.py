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
from holdfast.domain.errors import NotFound
from holdfast.domain.json_value import KnownJson
from holdfast.surfaces.cli import contract_view
from holdfast.surfaces.cli.client import Client, encode_body, part
from holdfast.surfaces.cli.client_options import with_client
from holdfast.surfaces.cli.options import Group, criterion, json_option, long_page_options, split_pairs
from holdfast.surfaces.cli.output import echo, plural, show, visible, warn
from holdfast.surfaces.cli.table import show_table

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
        click.option(
            "--sender", "senders", metavar="SOURCE=ID", multiple=True,
            help="Accept messages of this sender, such as github=583231; needs --session. Repeatable.",
        ),
        click.option("--session", metavar="NAME", help="Deliver as messages to this agent session."),
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
@with_client
@json_option
def list_contracts(client: Client, as_json: bool, inactive: bool, **query: object) -> None:
    """List active contracts, ordered by id."""
    answer = client.get("/hooks/contracts", {**query, "inactive": "true" if inactive else None})
    show(answer, as_json, contract_view.show_contracts)
    _mention_next_page(client)


@contracts.command("show")
@click.argument("id")
@with_client
@json_option
def show_contract(client: Client, id: str, as_json: bool) -> None:
    """Show one contract."""
    show(client.get(f"/hooks/contracts/{part(id)}"), as_json, contract_view.show_contract)


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
@with_client
@json_option
def add_contract(
    client: Client,
    id: str | None,
    secret_env: str | None,
    headers: tuple[str, ...],
    as_json: bool,
    **options: KnownJson,
) -> None:
    """Create a contract, or replace the one with the same id."""
    body = _body(id or "", options)
    body["id"] = id or _generate_id(body)
    if secret_env is not None:
        body["target"]["secret"] = _secret("--secret-env", secret_env)
    if headers:
        pairs = split_pairs(headers, "--header-env")
        body["headers"] = {name: _secret("--header-env", variable) for name, variable in pairs}
    encode_body(body)  # a usage error comes before any request
    existed = _exists(client, body["id"])
    answer = client.post("/hooks/contracts", body)
    show(answer, as_json, lambda _: echo(f"Contract {visible(answer['id'])} {'replaced' if existed else 'created'}."))
    if answer["misconfigured"] and not as_json:
        warn(f"its deliveries wait: {answer['misconfigured']}")


@contracts.command("enable")
@click.argument("id")
@with_client
@json_option
def enable_contract(client: Client, id: str, as_json: bool) -> None:
    """Enable a contract. Its parked deliveries resume."""
    answer = client.post(f"/hooks/contracts/{part(id)}/enable", {})
    show(answer, as_json, lambda _: echo(f"Contract {visible(id)} enabled."))


@contracts.command("disable")
@click.argument("id")
@with_client
@json_option
def disable_contract(client: Client, id: str, as_json: bool) -> None:
    """Disable a contract. Its pending deliveries are parked until it is enabled or removed."""
    answer = client.post(f"/hooks/contracts/{part(id)}/disable", {})
    show(answer, as_json, lambda _: echo(f"Contract {visible(id)} disabled."))


@contracts.command("rotate")
@click.argument("id")
@click.option(
    "--secret-env", metavar="NAME", required=True, help="Environment variable that holds the new signing secret."
)
@click.option(
    "--overlap", metavar="SECONDS", type=float, help="Also sign with the old secret for this time. Default: one day."
)
@with_client
@json_option
def rotate_secret(client: Client, id: str, secret_env: str, overlap: float | None, as_json: bool) -> None:
    """Replace a contract's signing secret. Requests are signed with both secrets for a while."""
    body: KnownJson = {"secret": _secret("--secret-env", secret_env)}
    if overlap is not None:
        body["overlap_seconds"] = overlap
    answer = client.post(f"/hooks/contracts/{part(id)}/rotate", body)
    show(answer, as_json, lambda _: echo(f"Contract {visible(id)} now signs with the new secret."))


@contracts.command("remove")
@click.argument("id")
@with_client
@json_option
def remove_contract(client: Client, id: str, as_json: bool) -> None:
    """Remove a contract. Its pending deliveries are dropped."""
    answer = client.delete(f"/hooks/contracts/{part(id)}")
    show(answer, as_json, lambda _: echo(f"Contract {visible(id)} removed."))


@contracts.command("ping")
@click.argument("id")
@click.option(
    "--wait", metavar="SECONDS", type=click.IntRange(1, 25), default=10, show_default=True,
    help="How long to wait for the attempt.",
)  # fmt: skip
@with_client
@json_option
def ping_contract(client: Client, id: str, wait: int, as_json: bool) -> int:
    """Send a sample event through one contract, whatever its criteria, and show what came of it.

    No other contract gets the event. It is attempted once. Exits with 1 if it was not delivered.
    """
    answer = client.post(f"/hooks/contracts/{part(id)}/ping?wait_seconds={wait}", {})
    show(answer, as_json, contract_view.show_ping)
    return 0 if answer["delivered"] else 1


@contracts.command("statistics")
@click.argument("id")
@with_client
@json_option
def contract_statistics(client: Client, id: str, as_json: bool) -> None:
    """Show what waits for a contract, and what became of its deliveries."""
    show(client.get(f"/hooks/contracts/{part(id)}/statistics"), as_json, contract_view.show_statistics)


@contracts.command("rebuild")
@click.argument("id")
@click.option("--after", metavar="NUMBER", help="Continue an interrupted rebuild here.")
@click.option("--dry-run", is_flag=True, help="Count the missing deliveries, and create none.")
@with_client
@json_option
def rebuild_contract(client: Client, id: str, after: str | None, dry_run: bool, as_json: bool) -> None:
    """Create the deliveries that a contract should have, by the stored events, and does not have.

    Deliveries that exist are left alone. Events are left out if they are older than the contract, or so old that their
    deliveries may have been pruned. If the command is interrupted, it prints how to continue.
    """
    answer = {"id": id, "events": 0, "matched": 0, "missing": 0, "dry_run": dry_run}
    try:
        while True:
            page = client.post(f"/hooks/contracts/{part(id)}/rebuild", {"after": after, "dry_run": dry_run})
            for name in ("events", "matched", "missing"):
                answer[name] += page[name]
            if page["next"] is None:
                break
            after = page["next"]
    except BaseException:
        if after is not None:
            warn(f"{answer['missing']:,} missing deliveries found; continue with --after {after}")
        raise
    show(answer, as_json, _print_rebuilt)


def _print_rebuilt(answer: KnownJson) -> None:
    happened = "found" if answer["dry_run"] else "created"
    read = f"{plural(answer['events'], 'event')} read, {answer['matched']:,} matched"
    echo(f"{read}; {answer['missing']:,} missing deliveries {happened}.")


@contracts.command("test")
@click.option("--id", default="test", help="Contract id to test under.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Number of latest events to test."
)
@contract_options
@with_client
@json_option
def try_contract(client: Client, id: str, limit: int, as_json: bool, **options: KnownJson) -> None:
    """Show which past events a contract would have matched. Nothing is created."""
    if not any(options[kind] for kind in ("url", "handler")):
        options["handler"] = "test"  # the target has no influence on which events match
    answer = client.post(f"/hooks/contracts/test?limit={limit}", _body(id, options))
    show(answer, as_json, contract_view.show_trial)


@contracts.command("properties")
@long_page_options
@with_client
@json_option
def contract_properties(client: Client, as_json: bool, **query: object) -> None:
    """List the properties and values that active contracts match on."""
    show(
        client.get("/hooks/properties", query),
        as_json,
        lambda properties: show_table(
            [{"property": name, "values": ", ".join(values)} for name, values in properties.items()],
            ("property", "values"),
        ),
    )
    _mention_next_page(client)


def _exists(client: Client, id: str) -> bool:
    try:
        return bool(client.get(f"/hooks/contracts/{part(id)}"))
    except NotFound:
        return False


def _mention_next_page(client: Client) -> None:
    """The answer is a plain list without a cursor, so the cursor is printed on stderr."""
    if client.next is not None:
        warn(f"there are more; continue with: --after {visible(client.next)}")


def _body(id: str, options: KnownJson) -> KnownJson:
    """The contract as the REST API takes it."""
    target = {kind: options[kind] for kind in ("url", "handler", "session") if options[kind] is not None}
    if len(target) != 1:
        raise click.UsageError("give exactly one target: --url, --handler or --session")
    senders: dict[str, list[str]] = {}
    for source, id_ in split_pairs(options["senders"], "--sender"):
        senders.setdefault(source, []).append(id_)
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
        "senders": senders or None,
    }
    if body["template"] is not None and body["format"] is None and "session" not in target:
        body["format"] = "template"
    for name in ("type", "source"):
        if options[name]:
            body[f"{name}_criterion"] = criterion(options[name], f"--{name}")
    return body


def _generate_id(body: KnownJson) -> str:
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
