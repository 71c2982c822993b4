"""Finding: what one check came to, in one sentence, and what to do about it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Level = Literal["ok", "warn", "fail"]

TEXT_MAX = 500


class Finding(NamedTuple):
    """`warn`: it works, and somebody should know. `fail`: something that was promised does not hold now."""

    id: str
    level: Level
    text: str
    todo: str | None = None

    def shape(self) -> dict[str, Any]:
        return {"id": self.id, "level": self.level, "text": _cut(self.text), "todo": self.todo and _cut(self.todo)}


def ok(id: str, text: str, todo: str | None = None) -> Finding:
    return Finding(id, "ok", text, todo)


def warn(id: str, text: str, todo: str | None = None) -> Finding:
    return Finding(id, "warn", text, todo)


def fail(id: str, text: str, todo: str | None = None) -> Finding:
    return Finding(id, "fail", text, todo)


def mib(count: int) -> str:
    """
    >>> mib(33554432)
    '32 MiB'
    """
    return f"{count / (1 << 20):,.0f} MiB"


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
