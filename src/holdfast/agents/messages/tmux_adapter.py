"""Delivery through tmux: look, paste, look again, press the key that submits; nothing that could answer a question.

| seen | done |
|---|---|
| another program, a dead pane, copy mode, a question, no input box, a person's draft | wait |
| an empty box, nothing pasted yet | record, paste, look until the box shows the text |
| the text in the box | record, press the key |
| pressed, the text still in the box | press once more; never paste again |
| pressed, the box empty | wait for the agent's prompt hook |
| pasted and not pressed, the box empty and the agent idle | the paste was lost: paste again |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.agents.messages.adapter import NotYet, Result, Sent, Task, Unknown
from holdfast.agents.messages.screen import Screen
from holdfast.agents.messages.terminal import Box, Terminal
from holdfast.agents.messages.tmux import Pane, Tmux, TmuxError, pane_of
from holdfast.domain.session import Session, SessionState
from holdfast.ports import Clock

START_UP_S = 15.0
REDRAW_S = 1.0  # the screen may still show what was true a moment ago
LOOK_S = 0.1
SHOWN_S = 3.0
ASKED_MS = 10_000
PRESS_AGAIN_MS = 2_000
PASTE_AGAIN_MS = 4_000  # if a person submitted the text, the hook has come by then
NO_BOX = "the agent shows no input box"
SHELLS = frozenset(
    {"sh", "bash", "zsh", "fish", "dash", "ksh", "mksh", "tcsh", "csh", "nu", "pwsh", "xonsh", "login", "tmux", "su"}
)

TerminalOf = Callable[[str], Terminal | None]


class TmuxAdapter:
    """`terminal_of` gives what is known about a CLI in a terminal, by its name."""

    name = "tmux"
    literal = False

    def __init__(self, terminal_of: TerminalOf, clock: Clock, program: str = "tmux") -> None:
        self._terminal_of, self._clock, self._program = terminal_of, clock, program

    async def fits(self, session: Session) -> bool:
        return pane_of(session) is not None

    async def send(self, task: Task) -> Result:
        pane, terminal = pane_of(task.session), self._terminal_of(task.session.agent)
        if pane is None:
            return NotYet("the session has no tmux pane")
        if terminal is None:
            return NotYet(f"how {task.session.agent} behaves in a terminal is not known")
        work = _PaneAttempt(task, pane, terminal, Tmux(pane.socket, self._program), self._clock)
        try:
            return await work.run()
        except TmuxError as error:
            return work.lost(str(error))


class _PaneAttempt:
    """One try for one message in one pane."""

    def __init__(self, task: Task, pane: Pane, terminal: Terminal, tmux: Tmux, clock: Clock) -> None:
        self._message, self._session, self._trail, self._journal = task.message, task.session, task.trail, task.journal
        self._pane, self._terminal, self._tmux, self._clock = pane, terminal, tmux, clock
        self._place = f"tmux {pane.socket} {pane.id}"

    async def run(self) -> Result:
        screen = await self._tmux.look(self._pane)
        if problem := self._other_program(screen):
            return self.lost(problem)
        mark = self._message.mark
        here = self._trail.begun > 0 and self._trail.place == self._place_on(screen)
        if self._trail.begun and not here and self._trail.submitting:
            return Unknown("it was sent to a pane that is gone, and the agent did not confirm it")
        if here and screen.pressed == mark:
            return await self._pressed(screen)
        if here and screen.pasted == mark:
            return await self._pasted(screen)
        return await self._not_pasted(screen)

    def lost(self, reason: str) -> Result:
        """The pane cannot be used. What is already in it may still be submitted only if the key may have been."""
        return Unknown(reason) if self._trail.submitting else NotYet(reason)

    async def _not_pasted(self, screen: Screen) -> Result:
        """Nothing of this message is in the pane: paste it as soon as the agent can take it."""
        ready = await self._wait_until_ready(screen)
        if isinstance(ready, NotYet):
            return ready
        self._trail = await self._journal.begin(self._message, self._trail, self._session, self._place_on(ready))
        return await self._paste(ready)

    async def _paste(self, screen: Screen) -> Result:
        text, questions = self._message.pasted_text, self._terminal.questions
        if not await self._tmux.paste(self._pane, screen, self._message.mark, text, questions):
            return NotYet("the pane changed before the paste")
        await asyncio.sleep(self._terminal.settle_s)
        return await self._submit_when_shown()

    async def _pasted(self, screen: Screen) -> Result:
        """The text was pasted, but no key was pressed since."""
        if problem := self._blocked(screen):
            return NotYet(problem)
        match self._terminal.box(screen, self._message.text):
            case Box.OURS:
                return await self._submit(screen)
            case Box.EMPTY if self._clock.now_ms() - self._trail.begun_ms < PASTE_AGAIN_MS:
                return NotYet("the pasted text is not in the input box")
            case Box.EMPTY if self._terminal.is_busy(screen):
                return NotYet("the pasted text is not in the input box, and the agent is at work")
            case Box.EMPTY:
                return await self._paste(screen)  # a question that opened at the same time took the paste
            case Box.OTHER:
                return NotYet("the input box holds another text")
            case Box.HIDDEN:
                return NotYet("the input box is not visible")

    async def _pressed(self, screen: Screen) -> Result:
        """The key was pressed, and the agent has not confirmed yet."""
        sent_ms = self._trail.sent_ms or self._trail.begun_ms
        waited = self._clock.now_ms() - sent_ms >= PRESS_AGAIN_MS
        shows = self._terminal.box(screen, self._message.text) is Box.OURS
        if waited and shows and self._blocked(screen) is None:
            await self._press(screen)
        return Sent()

    async def _submit_when_shown(self) -> Result:
        """Look until the input box shows the text, for a limited time."""
        ends_ms = self._clock.boot_ms() + round(SHOWN_S * 1000)
        while True:
            screen = await self._tmux.look(self._pane)
            problem = self._other_program(screen) or self._blocked(screen)
            if problem is not None:
                return NotYet(f"pasted, but not submitted: {problem}")
            box = self._terminal.box(screen, self._message.text)
            if box is Box.OURS:
                return await self._submit(screen)
            if self._clock.boot_ms() >= ends_ms:
                return NotYet(f"pasted, but the input box is {box}")
            await asyncio.sleep(LOOK_S)

    async def _submit(self, screen: Screen) -> Result:
        self._trail = await self._journal.submitting(self._message, self._trail)
        if not await self._press(screen):
            return NotYet("pasted, but not submitted: the pane changed")
        return Sent()

    async def _press(self, screen: Screen) -> bool:
        keys = self._terminal.keys(screen, self._session.facts.get("agent_version"))
        return await self._tmux.press(self._pane, screen, self._message.mark, keys, self._terminal.questions)

    async def _wait_until_ready(self, screen: Screen) -> Screen | NotYet:
        """The screen of an agent that can take a message. One that starts gets more time than others."""
        begun_ms, starting = self._clock.boot_ms(), self._session.state is SessionState.INITIALIZING
        while True:
            problem = self._other_program(screen) or self._not_ready(screen)
            if problem is None:
                return screen
            wait_s = START_UP_S if starting and problem == NO_BOX else REDRAW_S
            if self._clock.boot_ms() - begun_ms >= wait_s * 1000:
                return NotYet(problem)
            await asyncio.sleep(LOOK_S)
            screen = await self._tmux.look(self._pane)

    def _not_ready(self, screen: Screen) -> str | None:
        if problem := self._blocked(screen):
            return problem
        match self._terminal.box(screen, self._message.text):
            case Box.EMPTY:
                return None
            case Box.HIDDEN:
                return NO_BOX
        return "the input box holds a draft"

    def _blocked(self, screen: Screen) -> str | None:
        if screen.in_mode:
            return "the pane is in copy mode"
        if self._terminal.questions.open_in(screen):
            return "the agent asks its user something"
        asked = self._session.state is SessionState.WAITING and self._session.facts.get("waiting_for") != "background"
        if asked and self._clock.now_ms() - self._session.updated_at_ms < ASKED_MS:
            return "the agent has just asked its user something"
        return None

    def _other_program(self, screen: Screen) -> str | None:
        """Why this pane is not the agent's any more."""
        pane = self._pane
        if screen.dead:
            return f"the program in {pane.name} has ended"
        if pane.server is not None and screen.server != pane.server:
            return f"{pane.name} belongs to another tmux server than the agent's"
        expected = (pane.command,) if pane.command is not None else self._terminal.commands
        if screen.command not in expected or screen.command in SHELLS:
            return f"{screen.command or 'another program'} runs in {pane.name}, not the agent"
        return None

    def _place_on(self, screen: Screen) -> str:
        return f"{self._place} server {screen.server}"
