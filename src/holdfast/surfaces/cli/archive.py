"""`holdfast archive`: list and verify archives. `holdfast replay`: send a part of a stream again."""

from __future__ import annotations

import time

import click

from holdfast.domain.json_value import KnownJson
from holdfast.progress import Progress
from holdfast.surfaces.cli.client import Client, part
from holdfast.surfaces.cli.client_options import with_client, with_long_timeout
from holdfast.surfaces.cli.options import Command, Group, json_option, page_options
from holdfast.surfaces.cli.output import echo, plural, show, visible, warn
from holdfast.surfaces.cli.table import show_page, show_table

FAILED = 1
PART_MAX = 500


@click.group(cls=Group)
def archive() -> None:
    """List and verify archives of events."""


@archive.command("list")
@page_options
@with_client
@json_option
def list_archives(client: Client, as_json: bool, **query: object) -> None:
    """List archives, oldest first."""
    show(
        client.get("/api/archives", query),
        as_json,
        lambda page: show_page(page, ("id", "events", "bytes", "created_at")),
    )


@archive.command("verify")
@with_long_timeout
@json_option
def verify_archives(client: Client, as_json: bool) -> int:
    """Read every archive and compare it with its manifest."""
    with Progress("archives", quiet=as_json):
        answer = client.get("/api/archives/verify")
    show(answer, as_json, _print_verification)
    return FAILED if answer["faults"] else 0


@click.command(cls=Command)
@click.argument("stream")
@click.option("--from", "first", metavar="SEQ", type=click.IntRange(1), default=1, help="First seq. Default: 1.")
@click.option("--to", "last", metavar="SEQ", type=click.IntRange(1), help="Last seq. Default: the last event.")
@click.option("--sink", metavar="NAME", help="The sink that gets the events again.")
@click.option("--contract", metavar="ID", help="The contract that gets the events again.")
@click.option("--rate", type=click.IntRange(1), default=1000, show_default=True, help="Maximum events per second.")
@with_long_timeout
@json_option
def replay(
    client: Client,
    stream: str,
    first: int,
    last: int | None,
    sink: str | None,
    contract: str | None,
    rate: int,
    as_json: bool,
) -> None:
    """Send events of a stream to a sink or a contract again.

    They have the same ids. A sink marks them as a replay and also gets events from archives; cursors do not move. For a
    contract, ended deliveries of events that it matches are requeued, and missing ones created. If the command is
    interrupted, it prints how to continue.
    """
    if (sink is None) == (contract is None):
        raise click.UsageError("give exactly one of --sink, --contract")
    count, next_seq = 0, first
    try:
        with Progress("replayed events", quiet=as_json) as progress:
            begun_s = time.monotonic()
            while True:
                body: KnownJson = {
                    "from": next_seq,
                    "to": last,
                    "sink": sink,
                    "contract": contract,
                    "limit": min(PART_MAX, rate),
                }
                answer = client.post(f"/api/streams/{part(stream)}/replay", body)
                count += answer["replayed"]
                progress(count)
                if answer["next"] is None:
                    break
                next_seq = answer["next"]
                time.sleep(max(0.0, begun_s + count / rate - time.monotonic()))
    except BaseException:
        warn(f"{count:,} events replayed; continue with --from {next_seq}")
        raise
    target = f"sink {sink}" if sink is not None else f"contract {contract}"
    summary = {"stream": stream, "sink": sink, "contract": contract, "replayed": count}
    show(summary, as_json, lambda _: echo(f"{plural(count, 'event')} replayed to {visible(target)}."))


def _print_verification(answer: KnownJson) -> None:
    echo(f"{plural(answer['checked'], 'archive')} with {plural(answer['events'], 'event')} checked.")
    if answer["faults"]:
        show_table(answer["faults"], ("id", "fault"))
