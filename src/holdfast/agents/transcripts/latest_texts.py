"""LatestTexts: the title, last prompt and last answer of a session, as its transcript has them."""

from __future__ import annotations

from typing import NamedTuple


class LatestTexts(NamedTuple):
    title: str | None = None
    prompt: str | None = None
    answer: str | None = None
