"""Messages in a real tmux: what an agent gets, and what never happens to it."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.agents.messages.adoption import Adoption
from holdfast.domain.session import SessionState
from holdfast.ports import SystemClock
from holdfast.proof.messages.stage import Agent, TmuxServer
from terminals import messenger


@pytest.fixture
def agent(tmux: TmuxServer, home: Path) -> Agent:
    return Agent(tmux, home)


async def test_a_message_is_typed_submitted_and_confirmed(agent: Agent, home: Path) -> None:
    async with messenger(home) as post:
        await post.session(agent.session_id)
        await post.send(agent.session_id, "please rebase", "and push\nto origin")
        rows = await post.settled(agent.session_id, 2)
        assert [row.state for row in rows] == ["delivered", "delivered"]
        assert agent.prompts == ["please rebase", "and push\nto origin"]
        steps = ["delivering", "delivering", "sent", "accepted"]
        assert [kind for kind in await post.types(agent.session_id) if kind != "queued"] == steps * 2


async def test_a_session_that_starts_slowly_gets_its_message_when_it_is_ready(tmux: TmuxServer, home: Path) -> None:
    async with messenger(home) as post:
        agent = Agent(tmux, home)
        await post.session(agent.session_id)
        agent.do("quit")
        agent.start(slow=1, source="resume")
        await post.send(agent.session_id, "good morning")
        await post.settled(agent.session_id, 1)
        assert agent.prompts == ["good morning"]


@pytest.mark.parametrize("when", ["before", "with the paste", "after the paste"])
async def test_a_question_is_never_answered_by_a_message(agent: Agent, home: Path, when: str) -> None:
    async with messenger(home) as post:
        await post.session(agent.session_id)
        agent.wait_started()
        match when:
            case "before":
                agent.do("ask")
            case "with the paste":
                agent.do("ask_on_paste")
            case "after the paste":
                agent.do("ask_after_paste", seconds=0.001)
        await post.send(agent.session_id, "2", "yes")
        await post.waiting(agent.session_id, "asks its user")
        agent.do("answer")
        rows = await post.settled(agent.session_id, 2)
        assert [row.state for row in rows] == ["delivered", "delivered"]
        assert agent.prompts == ["2", "yes"]
        assert agent.logged("approved") == []


async def test_nothing_is_pasted_onto_a_draft(agent: Agent, home: Path) -> None:
    async with messenger(home) as post:
        await post.session(agent.session_id)
        agent.wait_started()
        agent.do("type", text="my half typed line")
        await post.send(agent.session_id, "a message")
        await post.waiting(agent.session_id, "draft")
        assert agent.logged("pasted") == []
        agent.do("clear")
        await post.settled(agent.session_id, 1)
        assert agent.prompts == ["a message"]


async def test_a_busy_agent_is_not_interrupted(agent: Agent, home: Path) -> None:
    async with messenger(home) as post:
        await post.session(agent.session_id)
        agent.wait_started()
        agent.do("busy")
        await post.send(agent.session_id, "when you have time")
        await post.settled(agent.session_id, 1)
        assert (agent.prompts, agent.logged("interrupted")) == (["when you have time"], [])


async def test_a_key_that_was_ignored_is_pressed_again_and_nothing_is_pasted_again(agent: Agent, home: Path) -> None:
    async with messenger(home) as post:
        await post.session(agent.session_id)
        agent.wait_started()
        agent.do("swallow", count=1)
        await post.send(agent.session_id, "hello?")
        await post.settled(agent.session_id, 1)
        assert (agent.prompts, len(agent.logged("pasted")), len(agent.logged("swallowed"))) == (["hello?"], 1, 1)


async def test_a_late_confirmation_is_waited_for_without_a_lease(agent: Agent, home: Path) -> None:
    async with messenger(home) as post:
        await post.session(agent.session_id)
        agent.wait_started()
        agent.do("late", seconds=4)
        await post.send(agent.session_id, "take your time", "then this")
        handed = await post.waiting(agent.session_id, "confirmation")
        assert not handed.leased
        await post.settled(agent.session_id, 2)
        assert agent.prompts == ["take your time", "then this"]
        assert len(agent.logged("pasted")) == 2


async def test_copy_mode_only_delays_a_message(agent: Agent, tmux: TmuxServer, home: Path) -> None:
    async with messenger(home) as post:
        await post.session(agent.session_id)
        agent.wait_started()
        tmux.run("copy-mode", "-t", agent.pane)
        await post.send(agent.session_id, "scroll on")
        await post.waiting(agent.session_id, "copy mode")
        assert agent.logged("pasted") == []
        tmux.run("send-keys", "-t", agent.pane, "-X", "cancel")
        await post.settled(agent.session_id, 1)
        assert agent.prompts == ["scroll on"]


async def test_a_dead_pane_gets_nothing_and_tmux_survives(agent: Agent, tmux: TmuxServer, home: Path) -> None:
    async with messenger(home) as post:
        await post.session(agent.session_id)
        agent.wait_started()
        os.kill(agent.logged("started")[-1], signal.SIGKILL)
        await post.send(agent.session_id, "are you there")
        await post.waiting(agent.session_id, "has ended")
        assert tmux.pid > 0
        agent.start(source="resume")
        await post.settled(agent.session_id, 1)
        assert agent.prompts == ["are you there"]


async def test_a_shell_that_is_left_behind_gets_nothing(tmux: TmuxServer, home: Path, tmp_path: Path) -> None:
    """The agent ran under a shell and was killed: its picture and title stay, and the shell reads the input."""
    async with messenger(home) as post:
        agent = Agent(tmux, home, shell=True)
        await post.session(agent.session_id)
        agent.wait_started()
        os.kill(agent.logged("started")[-1], signal.SIGKILL)
        await post.send(agent.session_id, f"touch {tmp_path}/executed", command=True)
        await post.waiting(agent.session_id, "not the agent")
        assert "touch" not in tmux.show(agent.pane)
        assert not (tmp_path / "executed").exists()


async def test_messages_for_a_session_that_is_cleared_go_to_the_one_that_continues_it(agent: Agent, home: Path) -> None:
    async with messenger(home) as post:
        await post.session(agent.session_id)
        agent.wait_started()
        agent.do("clear_session", session="s2")
        await post.session("claude-s2", continues=agent.session_id)
        await post.send(agent.session_id, "still you?")
        await post.settled(agent.session_id, 1)
        assert agent.prompts == ["still you?"]


async def test_a_message_that_is_no_prompt_any_more_is_never_pasted_twice(agent: Agent, home: Path) -> None:
    """The text vanished after the key: nobody can say whether the agent has it."""
    async with messenger(home) as post:
        await post.session(agent.session_id)
        agent.wait_started()
        agent.do("lose", count=1)
        await post.send(agent.session_id, "lost", "not sent before the other has ended")
        await post.waiting(agent.session_id, "confirmation")
        await asyncio.sleep(3)  # long enough for another check
        assert agent.logged("pasted") == ["lost"]
        assert [row.state for row in await post.rows(agent.session_id)] == ["pending", "pending"]


async def test_an_ended_session_is_resumed_for_its_message_if_that_is_allowed(
    agent: Agent, tmux: TmuxServer, home: Path
) -> None:
    async with messenger(home) as post:
        await post.session(agent.session_id)
        agent.wait_started()
        agent.do("quit")
        await post.send(agent.session_id, "one more thing")
        await post.waiting(agent.session_id, "has ended")
        session = await post.store.sessions.get(agent.session_id)
        assert session is not None
        adoption = Adoption(
            post.store.sessions, lambda _: agent.command(source="resume"), home, SystemClock(), tmux.socket
        )
        assert await adoption.adopt(replace(session, cwd="/no/such/folder")) is None
        assert await adoption.adopt(replace(session, state=SessionState.IDLE)) is None
        resumed = await adoption.adopt(session)
        assert resumed is not None
        assert await adoption.adopt(session) is None  # not twice in a row
        await post.settled(agent.session_id, 1)
        assert agent.prompts == ["one more thing"]
