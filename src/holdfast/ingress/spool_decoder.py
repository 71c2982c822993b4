"""Spool decoders: each turns the spool records of one kind into events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from holdfast.domain.canonical import parse_json
from holdfast.domain.errors import BadInput
from holdfast.domain.event import NewEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.accept import parse_event

_ID = re.compile(r"evt_[A-Za-z0-9_-]{1,76}")


class SpoolDecoder(Protocol):
    """Decodes the records with this `kind` in their header. The daemon gives decoders to the importer."""

    kind: str

    def decode(self, header: Mapping[str, Json], body: bytes, *, late: bool) -> NewEvent | None:
        """The event of a record, or None to skip it. `BadInput` rejects the record."""
        ...

    def repeats(self, event: NewEvent) -> bool:
        """Whether another event with the same dedup key is this event again, even if its body differs."""
        ...


class EventDecoder:
    """Records that `holdfast emit` wrote while no daemon answered: the event itself."""

    kind = "event"

    def decode(self, header: Mapping[str, Json], body: bytes, *, late: bool) -> NewEvent:
        fields = {k: header.get(k) for k in ("type", "source", "stream", "timestamp", "dedup_key", "to")}
        properties = header.get("properties") or {}
        if late and isinstance(properties, dict):
            properties = {**properties, "spool_late": True}
        payload = parse_json(body, "payload") if body else None
        event = parse_event(
            {**{k: v for k, v in fields.items() if v is not None}, "properties": properties, "payload": payload}
        )
        id = header.get("id")
        if not isinstance(id, str) or not _ID.fullmatch(id):
            raise BadInput("the spool record has no event id")
        values = {name: getattr(event, name) for name in NewEvent._fields}
        return NewEvent(**{**values, "id": id})

    def repeats(self, event: NewEvent) -> bool:
        return False
