"""`holdfast dlq`: inspect, requeue and discard dead letters.

Bulk commands count first, ask for confirmation, and change only what was counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from holdfast.domain.json_value import KnownJson
from holdfast.progress import Progress
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.client import Client
from holdfast.surfaces.cli.client_options import with_client
from holdfast.surfaces.cli.options import Group, filter_options, json_option, page_options
from holdfast.surfaces.cli.output import cell, echo, echo_wrapped, plural, show, visible, warn
from holdfast.surfaces.cli.table import show_page, show_table

COLUMNS = ("id", "event_type", "address", "reason", "attempts", "settled_at", "last_error", "payload")
SPARE = ("attempts", "settled_at")
BATCH_MAX = 1000
NOT_FOUND = 3

F = TypeVar("F", bound=Callable[..., object])


@click.group(cls=Group)
def dlq() -> None:
    """Inspect, requeue and discard dead letters."""


@dlq.command("count")
@filter_options(state=False)
@with_client
@json_option
def count_dead(client: Client, as_json: bool, **query: object) -> None:
    """Count dead letters, in total and by queue."""
    show(client.get("/api/dlq/count", query), as_json, _print_count)


@dlq.command("inspect")
@filter_options(state=False)
@page_options
@with_client
@json_option
def inspect_dead(client: Client, as_json: bool, **query: object) -> None:
    """List dead letters with their payloads, newest first."""
    show(client.get("/api/dlq", query), as_json, _print_letters)


@dlq.command("list")
@filter_options(state=False)
@page_options
@with_client
@json_option
def list_dead(client: Client, as_json: bool, **query: object) -> None:
    """List dead letters without their payloads, newest first."""
    page = client.get("/api/deliveries", {**query, "state": "dead"})
    show(page, as_json, lambda page: show_page(page, COLUMNS[:-1], SPARE))


def bulk_options(command: F) -> F:
    """Options of the commands that change many dead letters."""
    for add in (
        json_option,
        with_client,
        click.option("--dry-run", is_flag=True, help="Show how many would be changed, and change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
        click.option("--all", "everything", is_flag=True, help="Select all dead letters."),
        filter_options(state=False),
        click.argument("ids", nargs=-1, type=click.IntRange(0, 2**62)),
    ):
        command = add(command)
    return command


@dlq.command("reprocess")
@bulk_options
def reprocess_dead(
    client: Client,
    ids: tuple[int, ...],
    everything: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    **filters: str | None,
) -> int:
    """Requeue dead letters: by id, by filter, or all."""
    return _bulk(client, "reprocess", "reprocessed", ids, everything, yes, dry_run, as_json, **filters)


@dlq.command("discard")
@bulk_options
def discard_dead(
    client: Client,
    ids: tuple[int, ...],
    everything: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    **filters: str | None,
) -> int:
    """Discard dead letters permanently: by id, by filter, or all."""
    return _bulk(client, "discard", "discarded", ids, everything, yes, dry_run, as_json, **filters)


def _bulk(
    client: Client,
    verb: str,
    done: str,
    ids: tuple[int, ...],
    everything: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    **filters: str | None,
) -> int:
    given = {name: value for name, value in filters.items() if value is not None}
    if (bool(ids) + bool(given) + everything) != 1:
        raise click.UsageError("select dead letters by exactly one of: ids, filters, --all")
    selected = sorted(set(ids)) if ids else _find(client, given)
    if not ids and not dry_run and selected and not yes:
        _ask(f"{verb.capitalize()} {plural(len(selected), 'dead letter')}?")
    answer: KnownJson = {done: 0, "ids": [], "remaining": 0, **({"dry_run": True} if dry_run else {})}
    with Progress(f"{done} dead letters", quiet=as_json) as progress:
        for start in range(0, len(selected), BATCH_MAX):
            progress(start, len(selected))
            body = {"ids": selected[start : start + BATCH_MAX], "dry_run": dry_run}
            batch = client.post(f"/api/dlq/{verb}", body)
            answer = {**batch, done: answer[done] + batch[done], "ids": answer["ids"] + batch["ids"]}
    result = f"would be {done}" if dry_run else done
    show(answer, as_json, lambda _: echo(f"{plural(answer[done], 'dead letter')} {result}."))
    missing = sorted(set(ids) - set(answer["ids"]))
    if missing:
        warn(f"not dead letters: {', '.join(map(str, missing))}")
    return NOT_FOUND if missing else 0


def _find(client: Client, filters: dict[str, str]) -> list[int]:
    """The ids that match now. Changing them by id ensures that a delivery that dies again is not requeued twice."""
    ids: list[int] = []
    query: KnownJson = {**filters, "state": "dead", "limit": BATCH_MAX}
    while True:
        page = client.get("/api/deliveries", query)
        ids += [item["id"] for item in page["items"]]
        if page["next"] is None:
            return sorted(ids)
        query["after"] = page["next"]


def _ask(question: str) -> None:
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        agreed = False
    if not agreed:
        raise click.ClickException("not confirmed, nothing was changed; --yes skips the confirmation")


def _print_letters(page: KnownJson) -> None:
    """In a terminal a block for each dead letter: a table has no room for payloads and errors."""
    if not terminal.is_terminal() or not page["items"]:
        show_page(page, COLUMNS)
        return
    for letter in page["items"]:
        echo(click.style(str(letter["id"]), bold=True) if terminal.has_color() else str(letter["id"]))
        tries = plural(letter["attempts"], "attempt")
        echo_wrapped(visible(f"{letter['event_type']} ({terminal.short_id(letter['event_id'])})"), "  event    ")
        echo_wrapped(visible(letter["address"]), "  address  ")
        echo_wrapped(f"{letter['reason']} after {tries}, {terminal.relative(letter['settled_at'])}", "  dead     ")
        echo_wrapped(visible(letter["last_error"] or "-"), "  error    ")
        echo_wrapped(cell(letter["payload"]) + (" (cut)" if letter.get("payload_cut") else ""), "  payload  ")
        echo()
    if page["next"] is not None:
        echo(f"(more: --after {visible(str(page['next']))})")
    echo("To try one again: holdfast dlq reprocess ID")


def _print_count(answer: KnownJson) -> None:
    echo(plural(answer["count"], "dead letter"))
    if answer["by_queue"]:
        echo()
        show_table([{"queue": name, "count": count} for name, count in answer["by_queue"].items()], ("queue", "count"))
