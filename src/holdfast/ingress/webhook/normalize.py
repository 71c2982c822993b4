"""From a stored request to its events, with the normalizer of its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.domain.delivery import Delivered
from holdfast.domain.errors import BadInput, HoldfastError, Reject, RetryAfter, TooLarge
from holdfast.domain.event import Event, NewEvent, new_event
from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.text import short_repr
from holdfast.ingress.webhook.content import read_content, restored
from holdfast.ingress.webhook.platforms.platform import Normalizer
from holdfast.ingress.webhook.raw import key_of
from holdfast.ingress.webhook.source import SOURCE

EVENTS_MAX = 1000
EVENTS_BYTES_MAX = 32 * 1024 * 1024


def normalizing(name: str, normalizer: Normalizer) -> Callable[[Event], Delivered]:
    """The handler of `handler:inbound.<name>`: the events are appended in the transaction that ends its delivery."""

    def normalize_inbound(event: Event) -> Delivered:
        return Delivered(effects=normalize(name, normalizer, event))

    return normalize_inbound


def normalize(name: str, normalizer: Normalizer, event: Event) -> list[NewEvent]:
    """The events in one stored request. A failure rejects the delivery, which can be reprocessed after a fix."""
    try:
        headers, body = restored(event.payload)
        found = normalizer(read_content(body, headers.get("content-type", "")), headers)
        made: Sequence[object] = found if isinstance(found, list | tuple) else [found]
        if len(made) > EVENTS_MAX:
            raise BadInput(f"the normalizer returned {len(made):,} events for one request; the limit is {EVENTS_MAX:,}")
        events = [_derived(name, event, place, one) for place, one in enumerate(made)]
        if (size := sum(len(one.payload) for one in events)) > EVENTS_BYTES_MAX:
            raise TooLarge(f"the events of one request are {size:,} bytes; the limit is {EVENTS_BYTES_MAX:,}")
        return events
    except (Reject, RetryAfter):  # the normalizer decides itself how this ends
        raise
    except HoldfastError as error:
        raise Reject(f"the request cannot be normalized: {error.message}") from error
    except Exception as error:
        raise Reject(f"the normalizer of {name} failed: {type(error).__name__}: {error}") from error


def _derived(name: str, event: Event, place: int, made: object) -> NewEvent:
    """One normalized event. Its key makes a repetition harmless, and a different result a new event."""
    if not isinstance(made, HookEvent):
        raise BadInput(f"a normalizer returns HookEvent or a list of them, not {short_repr(made)}")
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
