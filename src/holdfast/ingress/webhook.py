"""A platform's request: verified on its raw bytes, kept as one raw event, and made into events afterwards.

Accepting never depends on understanding. The raw event is stored first and answered for; `normalise` works on what
was stored, as an ordinary delivery to `handler:inbound.<name>`, and its events are appended with the delivery's end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.domain.canonical import BYTES_MAX
from holdfast.domain.delivery import Delivered
from holdfast.domain.errors import BadInput, HoldfastError, Reject, RetryAfter, TooLarge
from holdfast.domain.event import NAME_MAX, Event, NewEvent, new_event, show
from holdfast.domain.hook_event import HookEvent
from holdfast.ingress.content import read_loosely, read_strictly, restored, stored
from holdfast.ingress.headers import Headers
from holdfast.ingress.normalizers import Normalizer, platform_of
from holdfast.ingress.verifiers.check import Check

SOURCE = "inbound"
EVENTS_MAX = 1000
EVENTS_BYTES_MAX = 32 * 1024 * 1024
KEPT_HEADERS = (
    "content-type", "webhook-id", "svix-id", "x-github-event", "x-github-delivery", "x-github-hook-id",
    "x-github-hook-installation-target-type", "x-gitlab-event", "x-gitlab-event-uuid", "x-event-key", "x-hook-event",
    "x-shopify-topic", "x-shopify-shop-domain", "x-shopify-webhook-id", "linear-event", "linear-delivery",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InboundSource:
    """One place where a platform's requests come in. `check` is None for a source that is declared insecure."""

    name: str
    path: str
    normalizer: str | None
    check: Check | None
    verify_token: str | None = field(default=None, repr=False)
    id_header: str | None = None
    keep_headers: tuple[str, ...] = ()
    body_max_bytes: int = BYTES_MAX

    @property
    def address(self) -> str:
        return f"handler:{SOURCE}.{self.name}"


def raw_event(source: InboundSource, headers: Headers, body: bytes) -> tuple[NewEvent, Any]:
    """The event that keeps a request, and the value its body holds; `BadJson` where the body is none."""
    wanted = (*KEPT_HEADERS, *source.keep_headers, *((source.id_header,) if source.id_header else ()))
    kept = headers.keep(wanted)
    value = read_loosely(body, kept.get("content-type", ""))
    platform = platform_of(source.normalizer, source.name)
    delivery = kept.get(source.id_header) if source.id_header else platform.delivery_id(value, kept)
    event = new_event(
        f"{SOURCE}.{source.name}",
        {"headers": kept, "content_type": kept.get("content-type", ""), **stored(body)},
        source=SOURCE,
        stream=f"{SOURCE}:{source.name}",
        properties={"name": source.name, **({"delivery_id": delivery[:NAME_MAX]} if delivery else {})},
        dedup_key=key_of(source.name, delivery) if delivery else None,
        to=source.address,
    )
    return event, value


def conflict_event(source: InboundSource, event: NewEvent) -> NewEvent:
    """The second request under an id that was seen with another body: kept as evidence, and not acted upon."""
    return event._replace(
        type=f"{SOURCE}.{source.name}.conflict",
        to=None,
        dedup_key=key_of(event.dedup_key or "", hashlib.sha256(event.payload).hexdigest()[:16]),
    )


def normalising(name: str, normalizer: Normalizer) -> Callable[[Event], Delivered]:
    """The handler of `handler:inbound.<name>`: what it derives is appended in the transaction that ends it."""

    def normalise_inbound(event: Event) -> Delivered:
        return Delivered(effects=normalise(name, normalizer, event))

    return normalise_inbound


def normalise(name: str, normalizer: Normalizer, event: Event) -> list[NewEvent]:
    """The events in one stored request. Whatever fails here can be tried again, once the normaliser is mended."""
    try:
        headers, body = restored(event.payload)
        value = read_strictly(body, headers.get("content-type", ""))
        found = normalizer(value, headers)
        made: Sequence[object] = found if isinstance(found, list | tuple) else [found]
        if len(made) > EVENTS_MAX:
            raise BadInput(f"the normaliser made {len(made):,} events of one request; the limit is {EVENTS_MAX:,}")
        events = [_derived(name, event, place, one) for place, one in enumerate(made)]
        if (size := sum(len(one.payload) for one in events)) > EVENTS_BYTES_MAX:
            raise TooLarge(f"the events of one request are {size:,} bytes; the limit is {EVENTS_BYTES_MAX:,}")
        return events
    except (Reject, RetryAfter):  # the normaliser's own word on how this ends
        raise
    except HoldfastError as error:
        raise Reject(f"the request cannot be normalised: {error.message}") from error
    except Exception as error:
        raise Reject(f"the normaliser of {name} failed: {type(error).__name__}: {error}") from error


def key_of(*parts: str) -> str:
    """A dedup key that is always valid: the parts as they are, or their digest where they cannot be a key."""
    text = ":".join(parts)
    if len(text) <= NAME_MAX and text.isprintable() and text == text.strip():
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _derived(name: str, event: Event, place: int, made: object) -> NewEvent:
    """One normalised event. Its key makes a repetition harmless, and a different result a new event."""
    if not isinstance(made, HookEvent):
        raise BadInput(f"a normaliser returns HookEvent or a list of them, not {show(made)}")
    new = new_event(
        made.type,
        made.payload,
        source=made.source,
        stream=made.stream or name,
        timestamp=made.timestamp or event.timestamp,
        properties=made.properties,
    )
    known_as = made.dedup_key or f"{event.id}/{place}"
    return new._replace(dedup_key=key_of(SOURCE, name, known_as, new.digest[:16]))
