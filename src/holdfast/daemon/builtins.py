"""Handlers that every daemon offers. An application may register its own under the same name."""

from __future__ import annotations

import logging
from collections.abc import Callable

from holdfast.domain.event import Event

log = logging.getLogger("holdfast.sessions")


async def session_logger(event: Event) -> None:
    """Log one line about the event."""
    log.info("%s %s %s", event.type, event.stream, event.properties_json)


BUILTINS: dict[str, Callable[..., object]] = {"session_logger": session_logger}
