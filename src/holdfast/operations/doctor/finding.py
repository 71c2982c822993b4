"""Finding: the result of one check, in one sentence, with a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Level = Literal["ok", "warn", "fail"]

TEXT_MAX = 500


class Finding(NamedTuple):
    """`warn`: it works, but needs attention. `fail`: a promise of Holdfast does not hold now."""

    id: str
    level: Level
    text: str
    todo: str | None = None

    def shortened(self) -> Finding:
        return self._replace(text=_cut(self.text), todo=self.todo and _cut(self.todo))


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings. `healthy`: none of them is a failure."""

    healthy: bool
    version: str
    findings: list[Finding]


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
