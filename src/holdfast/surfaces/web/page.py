"""What a page function gets and returns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from starlette.requests import Request

from holdfast.domain.scopes import TokenScope
from holdfast.operations.verbs import Operations
from holdfast.surfaces.web.trouble import Trouble


@dataclass(frozen=True, slots=True)
class Visit:
    """One request by someone who is logged in. `path`: the parameters in the path.

    `trouble`: what needs attention. `running`: what was started by a button and is not done yet, by name.
    """

    operations: Operations
    granted: TokenScope
    request: Request
    path: Mapping[str, str]
    trouble: Trouble
    running: dict[str, asyncio.Task[object]]

    def query(self, name: str) -> str | None:
        """A parameter of the query; None if it is missing or empty."""
        return self.request.query_params.get(name) or None

    @property
    def actor(self) -> str:
        """The name in receipts."""
        return f"page:{self.granted.id}"


@dataclass(frozen=True, slots=True)
class Page:
    """A template and its values."""

    template: str
    title: str
    values: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Go:
    """Another page to show instead. `done`: the key of a sentence shown there; `number` and `left` are in it."""

    path: str
    done: str = ""
    number: int = 0
    left: int = 0

    @property
    def query(self) -> str:
        values = {"done": self.done, "number": self.number, "left": self.left}
        given = "&".join(f"{name}={value}" for name, value in values.items() if value)
        return f"?{given}" if given else ""


PageFunction = Callable[[Visit], Awaitable[Page | Go]]
