"""How much needs attention: looked up for every screen, since the navigation and the icon show it."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from holdfast.operations.answers.contracts import ContractAnswer
from holdfast.operations.answers.sessions import SessionAnswer
from holdfast.operations.answers.status import Status
from holdfast.operations.verbs import Operations
from holdfast.surfaces.web.attention import Attention, find_attention

SHOWN = 8
CONTRACTS = 50
FRESH_S = 2.0


class Findings(NamedTuple):
    """What was read to find out what needs attention, and the result."""

    status: Status
    contracts: list[ContractAnswer]
    sessions: list[SessionAnswer]
    attention: list[Attention]


async def look(operations: Operations) -> Findings:
    status, contracts, sessions = await asyncio.gather(
        operations.status.show(),
        operations.contracts.find(inactive=True, limit=CONTRACTS),
        operations.sessions.find(limit=SHOWN),
    )
    waiting = await operations.sessions.find(state="waiting", limit=SHOWN)
    found = find_attention(status, contracts.items, waiting.items)
    return Findings(status, contracts.items, sessions.items, found)


class Trouble:
    """The findings, read again after two seconds at the earliest."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._last: tuple[float, Findings] | None = None

    async def findings(self, fresh: bool = False) -> Findings:
        if fresh or self._last is None or time.monotonic() - self._last[0] > FRESH_S:
            self._last = time.monotonic(), await look(self._operations)
        return self._last[1]

    def forget(self) -> None:
        """After a button was pressed, the old findings may be untrue."""
        self._last = None
