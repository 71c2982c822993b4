"""Remembers which contracts match, because most events have the source, type and properties of an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.domain.contract import Contract
from holdfast.domain.event import Event
from holdfast.store.roles.routing import RouteTarget

ENTRIES_MAX = 4096
PROPERTIES_MAX = 512  # longer ones rarely come twice


class Match(NamedTuple):
    """The matching contracts and, if it is the same for every event, where they send it."""

    contracts: Sequence[Contract]
    targets: tuple[RouteTarget, ...] | None


class MatchCache:
    """Valid for one version of the contracts.

    It is off while any contract has an end: whether that one matches depends on the time of the event.
    """

    def __init__(self) -> None:
        self._matches: dict[tuple[str, str, str], Match] = {}
        self._ending: set[str] = set()

    def changed(self, id: str, contract: Contract | None) -> None:
        """Forget everything, and note whether this contract has an end."""
        self._matches.clear()
        if contract is not None and contract.expires_at_ms is not None:
            self._ending.add(id)
        else:
            self._ending.discard(id)

    def clear(self) -> None:
        self._matches.clear()
        self._ending.clear()

    def get(self, event: Event) -> Match | None:
        return self._matches.get((event.source, event.type, event.properties_json))

    def put(self, event: Event, match: Match) -> None:
        if self._ending or len(event.properties_json) > PROPERTIES_MAX:
            return
        if len(self._matches) >= ENTRIES_MAX:
            self._matches.clear()
        self._matches[event.source, event.type, event.properties_json] = match
