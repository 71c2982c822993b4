"""The raw event: a webhook request, stored as it was received."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache

from holdfast.domain.canonical import dump_json
from holdfast.domain.event import NAME_MAX, NewEvent, check_properties, new_event
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.content import read_content, stored
from holdfast.ingress.webhook.headers import Headers
from holdfast.ingress.webhook.platforms.reading import at_path
from holdfast.ingress.webhook.source import SOURCE, InboundSource


def raw_event(source: InboundSource, headers: Headers, body: bytes) -> tuple[NewEvent, Json]:
    """The raw event of a request, and the value of its body. `BadJson` if the body cannot be parsed."""
    kept = headers.keep(source.kept_headers)
    value = read_content(body, kept.get("content-type", ""))
    delivery = _delivery_id(source, value, kept)
    event = _event_of(source.name, source.address)._replace(
        payload=dump_json({"headers": kept, "content_type": kept.get("content-type", ""), **stored(body)})
    )
    if delivery:
        event = event._replace(
            properties=check_properties({"name": source.name, "delivery_id": delivery[:NAME_MAX]}),
            dedup_key=key_of(source.name, delivery),
        )
    return event, value


@lru_cache(maxsize=256)
def _event_of(name: str, address: str) -> NewEvent:
    """The fields that all raw events of a source have in common."""
    stream = f"{SOURCE}:{name}"
    return new_event(f"{SOURCE}.{name}", source=SOURCE, stream=stream, properties={"name": name}, to=address)


def _delivery_id(source: InboundSource, value: Json, kept: Mapping[str, str]) -> str | None:
    if source.id_header:
        return kept.get(source.id_header)
    if source.id_field:
        return at_path(value, source.id_field)
    return source.platform.delivery_id(value, kept)


def conflict_event(source: InboundSource, event: NewEvent) -> NewEvent:
    """The event of a request whose delivery id was used before with another body: stored, but not normalized."""
    return event._replace(
        type=f"{SOURCE}.{source.name}.conflict",
        to=None,
        dedup_key=key_of(event.dedup_key or "", hashlib.sha256(event.payload).hexdigest()[:16]),
    )


def key_of(*parts: str) -> str:
    """A valid dedup key: the parts joined, or their digest if that is not a valid key."""
    text = ":".join(parts)
    if len(text) <= NAME_MAX and text.isprintable() and text == text.strip():
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
