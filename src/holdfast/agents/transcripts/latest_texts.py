"""LatestTexts: the title, last prompt and last answer of a session, as its transcript has them."""

from __future__ import annotations

from typing import NamedTuple


class LatestTexts(NamedTuple):
    """`is_answered`: the answer stands after the prompt, so it belongs to it."""

    title: str | None = None
    prompt: str | None = None
    answer: str | None = None
    is_answered: bool = True
