"""Watches the fleet: when a component begins or ceases to need attention, an event says so."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from holdfast.operations.answers.fleet import Fleet, FleetComponentAnswer
from holdfast.operations.fleet import SELF

POLL_S = 60.0

log = logging.getLogger("holdfast.fleet")


class FleetEvents(Protocol):
    async def fleet_changed(self, component: FleetComponentAnswer) -> None:
        """Append the event about a component whose state changed."""


class FleetWatch:
    """This daemon itself is not watched: its own dead letters have events of their own."""

    name = "fleet"

    def __init__(self, show: Callable[[], Awaitable[Fleet]], events: FleetEvents) -> None:
        self._show, self._events = show, events
        self._states: dict[str, str] = {}
        self.warnings: list[str] = []
        """Lines for `status`, so that an alert is seen without any contract."""

    async def tick(self) -> float | None:
        components = [component for component in (await self._show()).components if component.name != SELF]
        self.warnings = [f"fleet: {component.name}: {'; '.join(component.alerts)}" for component in components
                         if component.alerts]  # fmt: skip
        for component in components:
            before = self._states.get(component.name, "ok")
            if component.state == before:
                continue
            if component.state == "ok":
                log.info("the component %s is well again", component.name)
            else:
                log.warning("the component %s needs attention: %s", component.name, "; ".join(component.alerts))
            await self._events.fleet_changed(component)
            self._states[component.name] = component.state
        return POLL_S
