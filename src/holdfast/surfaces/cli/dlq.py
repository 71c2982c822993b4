"""`holdfast dlq`: the dead letters. Bulk verbs count first and ask; only what was counted is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.surfaces.cli.client import Client, find_client
from holdfast.surfaces.cli.options import NearGroup, filter_options, json_option, page_options
from holdfast.surfaces.cli.output import many, say, show, show_page, show_table, warn

COLUMNS = ("id", "event_type", "address", "reason", "attempts", "settled_at", "last_error", "payload")
BATCH_MAX = 1000
NOT_FOUND = 3

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=NearGroup)
def dlq() -> None:
    """Look at dead letters, reprocess or discard them."""


@dlq.command("count")
@filter_options(state=False)
@json_option
def count_dead(as_json: bool, **query: Any) -> None:
    """Count dead letters, in all and by queue."""
    show(find_client().get("/api/dlq/count", query), as_json, _say_count)


@dlq.command("inspect")
@filter_options(state=False)
@page_options
@json_option
def inspect_dead(as_json: bool, **query: Any) -> None:
    """List dead letters with payload and history, newest first."""
    show(find_client().get("/api/dlq", query), as_json, lambda page: show_page(page, COLUMNS))


def bulk_options(command: F) -> F:
    """What a verb on many takes."""
    for add in (
        json_option,
        click.option("--dry-run", is_flag=True, help="List them and change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
        click.option("--all", "everything", is_flag=True, help="All dead letters."),
        filter_options(state=False),
        click.argument("ids", nargs=-1, type=click.IntRange(0, 2**62)),
    ):
        command = add(command)
    return command


@dlq.command("reprocess")
@bulk_options
def reprocess_dead(**options: Any) -> int:
    """Requeue dead letters, by ids, by filter, or all."""
    return _bulk("reprocess", "reprocessed", **options)


@dlq.command("discard")
@bulk_options
def discard_dead(**options: Any) -> int:
    """Discard dead letters for good, by ids, by filter, or all."""
    return _bulk("discard", "discarded", **options)


def _bulk(
    verb: str, done: str, ids: tuple[int, ...], everything: bool, yes: bool, dry_run: bool, as_json: bool,
    **filters: str | None,
) -> int:  # fmt: skip
    given = {name: value for name, value in filters.items() if value is not None}
    if (bool(ids) + bool(given) + everything) != 1:
        raise click.UsageError("name the dead letters by exactly one of: ids, filters, --all")
    client = find_client()
    chosen = sorted(set(ids)) if ids else _find(client, given)
    if not ids and not dry_run and chosen and not yes:
        _ask(f"{verb.capitalize()} {many(len(chosen), 'dead letter')}?")
    answer: dict[str, Any] = {done: 0, "ids": [], "remaining": 0, **({"dry_run": True} if dry_run else {})}
    for start in range(0, len(chosen), BATCH_MAX):
        body = {"ids": chosen[start : start + BATCH_MAX], "dry_run": dry_run}
        some = client.post(f"/api/dlq/{verb}", body)
        answer = {**some, done: answer[done] + some[done], "ids": answer["ids"] + some["ids"]}
        if len(chosen) > BATCH_MAX and not dry_run:
            warn(f"{done} {min(start + BATCH_MAX, len(chosen)):,} of {len(chosen):,}")
    show(answer, as_json, lambda _: say(f"{answer[done]} {'would be ' if dry_run else ''}{done}"))
    missing = sorted(set(ids) - set(answer["ids"]))
    if missing:
        warn(f"these are no dead letters: {', '.join(map(str, missing))}")
    return NOT_FOUND if missing else 0


def _find(client: Client, filters: dict[str, str]) -> list[int]:
    """The ids that match now. The change is made by id: a letter that dies again meanwhile is not taken twice."""
    found: list[int] = []
    query: dict[str, Any] = {**filters, "state": "dead", "limit": BATCH_MAX}
    while True:
        page = client.get("/api/deliveries", query)
        found += [item["id"] for item in page["items"]]
        if page["next"] is None:
            return sorted(found)
        query["after"] = page["next"]


def _ask(question: str) -> None:
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        agreed = False
    if not agreed:
        raise click.ClickException("not confirmed, so nothing was changed; --yes skips the question")


def _say_count(answer: dict[str, Any]) -> None:
    say(many(answer["count"], "dead letter"))
    if answer["by_queue"]:
        say()
        show_table([{"queue": name, "count": count} for name, count in answer["by_queue"].items()], ("queue", "count"))
