"""Terminal: how an agent CLI looks and what it obeys in a terminal, as seen with certain versions of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from holdfast.agents.messages.screen import Screen
from holdfast.agents.messages.text import visible
from holdfast.agents.messages.tmux import Questions

_COMPARED = re.compile(r"[^\W_]|[!-~]")
_SHOWN_MIN = 40
_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,4}")


class Box(StrEnum):
    """What the input box of a CLI holds."""

    HIDDEN = "hidden"
    EMPTY = "empty"
    OURS = "ours"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Terminal:
    """One CLI in a terminal.

    `versions` are those in which all of this was observed. `commands` are the program names of its panes. `find_box`
    returns the text of the input box without hints, None if the box is not on the screen. `questions` show that a
    permission question or another dialog is open. `pasted` matches what stands for a long paste.

    `submit` are the keys that submit a message; one that can also approve is safe only with the guard of `Tmux.press`.
    `submit_idle` are keys that cannot approve; they are used while the agent is idle, since version
    `submit_idle_since`. `settle_s` is how long the CLI needs between a paste and the key.
    """

    versions: tuple[str, ...]
    commands: tuple[str, ...]
    find_box: Callable[[Screen], str | None]
    questions: Questions
    is_busy: Callable[[Screen], bool]
    pasted: re.Pattern[str]
    submit: tuple[str, ...] = ("Enter",)
    submit_idle: tuple[str, ...] = ()
    submit_idle_since: tuple[int, ...] = ()
    settle_s: float = 0.3

    def box(self, screen: Screen, text: str) -> Box:
        """What the input box holds, compared with the text of a message."""
        found = self.find_box(screen)
        if found is None or self.questions.open_in(screen):
            return Box.HIDDEN
        if not visible(found):
            return Box.EMPTY
        return Box.OURS if self.pasted.fullmatch(found.strip()) or _shows(found, text) else Box.OTHER

    def keys(self, screen: Screen, version: object) -> tuple[str, ...]:
        """The keys that submit what is in the box. `version` is that of the running program, if it is known."""
        known = tuple(map(int, version.split("."))) if isinstance(version, str) and _VERSION.fullmatch(version) else ()
        if self.submit_idle and known >= self.submit_idle_since and not self.is_busy(screen):
            return self.submit_idle
        return self.submit


def _shows(found: str, text: str) -> bool:
    """Whether a box shows the message, or the end of it if the box is too small for all of it.

    Terminals draw some emoji and combined characters in their own way, so only letters, digits and ASCII are compared.
    """
    shown, sent = ("".join(_COMPARED.findall(visible(part))) for part in (found, text))
    return shown == sent or (len(shown) >= _SHOWN_MIN and sent.endswith(shown))
