"""Handlers that every daemon has, for contracts to name; an application may put its own in their place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from holdfast.domain.event import Event

log = logging.getLogger("holdfast.sessions")


async def session_logger(event: Event) -> None:
    """Write a line about the event into the daemon's log."""
    log.info("%s %s %s", event.type, event.stream, event.properties_json)


BUILTINS: dict[str, Callable[..., Any]] = {"session_logger": session_logger}
