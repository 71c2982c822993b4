"""`holdfast tail`: follow a stream, or all events. It resumes when the daemon restarts."""

from __future__ import annotations

import click

from holdfast.domain.errors import BadInput, NotFound
from holdfast.domain.json_value import JsonObject, KnownJson
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.client import Client, part
from holdfast.surfaces.cli.client_options import with_client
from holdfast.surfaces.cli.following import Position, follow_events
from holdfast.surfaces.cli.options import Command, json_option, split_pairs
from holdfast.surfaces.cli.output import cell
from holdfast.surfaces.cli.text_width import cut

LAST = 10


@click.command(cls=Command)
@click.argument("stream", required=False)
@click.option("--from", "first", metavar="SEQ", type=click.IntRange(1), help=f"First seq. Default: the last {LAST}.")
@click.option("--wait", is_flag=True, help="Wait if the stream does not exist yet.")
@click.option("--stream", "streams", metavar="PATTERN", help="Only streams such as 'run:*'. Without STREAM.")
@click.option("--source", help="Only events from this source, such as hook. Without STREAM.")
@click.option("--type", help="Only events of this type, such as 'run.*'. Without STREAM.")
@click.option(
    "--property", "properties", metavar="NAME=VALUE", multiple=True, help="Only events with this property. Repeatable."
)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Stop after N events. Default: no limit.")
@with_client
@json_option
def tail(
    client: Client,
    stream: str | None,
    first: int | None,
    wait: bool,
    streams: str | None,
    source: str | None,
    type: str | None,
    properties: tuple[str, ...],
    limit: int | None,
    as_json: bool,
) -> None:
    """Follow a stream, or all events, until Ctrl-C.

    With STREAM it prints the last events and then each new one, in order and without a gap, and ends when the stream
    is closed. Without STREAM it prints every new event. With --json each event is one line.
    """
    wanted = dict(split_pairs(properties, "--property"))
    if stream is None:
        if first is not None or wait:
            raise BadInput("--from and --wait need a stream; without one, only new events are shown")
        position = Position("/api/feed", {"source": source, "type": type, "stream": streams}, None)
    else:
        if source or type or streams:
            raise BadInput("--stream, --source and --type cannot be combined with a stream")
        after = _last(client, stream, wait) if first is None else first - 1
        position = Position(f"/api/streams/{part(stream)}/tail", {"after": after, "wait": wait or None}, after)
    follow_events(
        client,
        position,
        lambda event: event_line(event, stream is None),
        limit,
        as_json,
        lambda event: _has(event, wanted),
    )


def event_line(event: JsonObject, everything: bool) -> str:
    """One event on one line: time, type, stream with its number, payload."""
    in_terminal = terminal.is_terminal()
    time_of_day, type = str(event["accepted_at"])[11:19], cell(event["type"])
    own = event["stream"] == event["id"]
    where = (
        "" if own and in_terminal else f"{cell(event['stream'])}#{event['seq']}" if everything else str(event["seq"])
    )
    words = [time_of_day, where, type, cell(event["payload"])] if not everything else [
        time_of_day, type, where, cell(event["payload"])
    ]  # fmt: skip
    line = cut("  ".join(word for word in words if word), terminal.width())
    if not terminal.has_color():
        return line
    bold = click.style(type, bold=True)
    return click.style(line[:8], fg=terminal.FAINT) + line[8:].replace(type, bold, 1)


def _has(event: JsonObject, wanted: dict[str, str]) -> bool:
    properties: KnownJson = event["properties"]
    return all(_fits(properties.get(name), value) for name, value in wanted.items())


def _fits(value: KnownJson, wanted: str) -> bool:
    """Lists fit by each of their values, as in a contract."""
    if isinstance(value, list):
        return any(_fits(each, wanted) for each in value)
    return value is not None and cell(value) in (wanted, {"true": "yes", "false": "no"}.get(wanted, wanted))


def _last(client: Client, stream: str, wait: bool) -> int:
    """The position before the last few stored events."""
    path = f"/api/streams/{part(stream)}"
    try:
        head = int(client.get(path)["head"])
        first = client.get(f"{path}/events", {"limit": 1})["items"]
    except NotFound:
        if wait:
            return 0
        raise
    return max(int(first[0]["seq"]) - 1 if first else head, head - LAST)
