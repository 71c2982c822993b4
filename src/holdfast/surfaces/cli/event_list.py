"""`events list --follow`: the list, then each new event as a further row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.domain.json_value import JsonObject, KnownJson
from holdfast.surfaces.cli.client import Client
from holdfast.surfaces.cli.following import Position, follow_events, print_event
from holdfast.surfaces.cli.output import echo
from holdfast.surfaces.cli.table import AppendableTable

TYPICAL: KnownJson = {
    "id": "evt_" + 32 * "0",
    "type": "a.rather.long.type.of.event",
    "source": "application",
    "stream": "stream:of.some.length",
    "seq": 100_000,
    "accepted_at": "2026-01-01T00:00:00.000Z",
}
"""Columns are at least as wide as for this event, because rows that come later must fit."""
FILTERS = ("source", "type", "stream")


def follow_list(client: Client, query: Mapping[str, KnownJson], columns: Sequence[str], as_json: bool) -> None:
    """The list is read once the live view is open, so no event is missed between them; none is printed twice."""
    rows: list[AppendableTable] = []

    def begin() -> None:
        items = client.get("/api/events", query)["items"][::-1]
        if not as_json:
            rows.append(AppendableTable([*items, TYPICAL], columns))
            echo(rows[0].heading)
        for item in items:
            if position.is_new(item["id"]):
                print_event(item, line, as_json)

    def line(event: JsonObject) -> str:
        return rows[0].row(event)

    position = Position("/api/feed", {name: query[name] for name in FILTERS}, None, begin)
    follow_events(client, position, line, None, as_json)
