"""From the spool to the session's row, through the real importer, router, engine and store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine_harness import EngineHarness
from holdfast.agents.hooks.decoder import HookDecoder
from holdfast.agents.hooks.hook import EVENT_TYPES
from holdfast.agents.sessions.consumer import SessionConsumer
from holdfast.agents.transcripts.latest_texts import LatestTexts
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.delivery import Claim, Outcome
from holdfast.domain.errors import BadConfig, StoreFull
from holdfast.domain.event import new_event
from holdfast.domain.session import Session, SessionState
from holdfast.egress.handler.deliverer import HandlerDeliverer
from holdfast.ingress.importer import SpoolImport
from holdfast.operations.sessions import SessionVerbs
from holdfast.store.open import open_store
from holdfast.store.roles.events import EventFilter
from hooks import claude, fixture, write_hook


class SessionHarness(EngineHarness):
    """The harness with a spool before it and the consumer behind it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.spool = folder / "spool"
        self.importer = SpoolImport(self.spool, self.store.events, self.clock, [HookDecoder()])
        self._number = 0

    async def work(self, **transcripts: Any) -> SessionHarness:
        await self.start()
        handlers = HandlerDeliverer()
        handlers.add("sessions", SessionConsumer(self.store.sessions, **transcripts).handle)
        self.script._addresses = handlers.serves()

        async def deliver(claim: Claim) -> Outcome:
            return await handlers.deliver(claim)

        self.script.answer = deliver
        self.router._owner = self.owner
        return self

    def hook(self, payload: Any, agent: str = "claude", event: str | None = None, **more: Any) -> None:
        self._number += 1
        write_hook(self.spool, self._number, agent, payload, event, **more)

    async def settle(self) -> None:
        """Import, route and deliver until nothing moves."""
        while True:
            before = len(self.script.seen)
            await self.importer.tick()
            await self.route()
            await self.drain(500)
            if len(self.script.seen) == before:
                return

    async def session(self, id: str) -> Session:
        found = await self.store.sessions.get(id)
        assert found is not None
        return found

    async def types(self, stream: str) -> list[str]:
        return [event.type for event in await self.store.events.read(stream, 0, 1000)]


@pytest.fixture
async def harness(tmp_path: Path) -> SessionHarness:
    return await SessionHarness(tmp_path).work()


async def test_a_turn_becomes_a_session_with_events_in_order(harness: SessionHarness) -> None:
    for payload in (
        claude("SessionStart", source="startup"),
        claude("UserPromptSubmit", prompt="Fix it"),
        claude("PreToolUse", tool_name="Bash"),
        claude("PostToolUse", tool_name="Bash"),
        claude("Stop", last_assistant_message="Fixed."),
    ):
        harness.hook(payload, pane="%3")
        await harness.settle()
    session = await harness.session("claude-s1")
    assert (session.state, session.last_prompt, session.last_answer) == (SessionState.IDLE, "Fix it", "Fixed.")
    assert (session.pane, session.cwd, session.transcript) == ("%3", "/src/s1", "/t/s1.jsonl")
    assert await harness.types("session:claude-s1") == [
        "hook.session_start", "session.started", "hook.user_prompt_submit", "agent.user_prompt_submit",
        "session.updated", "hook.tool_use", "agent.activity.tool_use", "hook.tool_done", "agent.activity.tool_done",
        "hook.agent_stop", "agent.agent_stop", "session.updated",
    ]  # fmt: skip
    assert set(await harness.states()) == {"delivered"}


async def test_stop_and_notify_of_one_codex_turn_are_one_event(harness: SessionHarness) -> None:
    """Whichever comes first, at once or later: the other one is counted, and nothing is rejected."""
    stop, notify = fixture("codex/Stop.json")[2], fixture("codex/notify.agent-turn-complete.json")[2]
    harness.hook(stop, "codex")
    harness.hook(notify, "codex", via="argv")
    await harness.settle()
    harness.hook(notify, "codex", via="argv")
    harness.hook(claude("Stop"))
    await harness.settle()
    stream = "session:codex-01a1e148-133f-7263-8540-4d643c50c254"
    assert (await harness.types(stream)).count("agent.agent_stop") == 1
    assert (await harness.types("session:claude-s1")).count("agent.agent_stop") == 1
    assert (harness.importer.repeated, harness.importer.rejected) == (2, 0)
    assert not (harness.spool / "rejected").exists()


async def test_input_that_is_not_json_becomes_an_event(harness: SessionHarness) -> None:
    harness.hook(b"\xff not json", "gemini")
    harness.hook(claude("Stop"))
    await harness.settle()
    assert await harness.types("agent:gemini") == ["error.error"]
    assert (await harness.session("claude-s1")).state is SessionState.IDLE
    assert harness.importer.rejected == 0


async def test_events_of_unlisted_types_are_counted_and_not_stored(harness: SessionHarness) -> None:
    harness.importer = SpoolImport(harness.spool, harness.store.events, harness.clock, [HookDecoder(("agent_stop",))])
    harness.hook(claude("PreToolUse", tool_name="Bash"))
    harness.hook(claude("Stop"))
    await harness.settle()
    page = await harness.store.events.find(EventFilter(source="hook"), None, 10)
    assert [event.type for event in page.items] == ["hook.agent_stop"]
    assert harness.importer.unlisted == 1
    assert list(harness.spool.iterdir()) == []


def test_every_type_is_listed_by_default() -> None:
    assert load_config(None).session_events == EVENT_TYPES


async def test_the_session_before_is_ended_in_its_own_lane(harness: SessionHarness) -> None:
    harness.hook(claude("UserPromptSubmit", "old", prompt="Go"), pane="%3")
    await harness.settle()
    harness.hook(claude("SessionStart", "new", source="resume"), pane="%3")
    await harness.settle()
    old, new = await harness.session("claude-old"), await harness.session("claude-new")
    assert (old.state, old.facts["end_reason"]) == (SessionState.ENDED, "continued")
    assert new.facts["continues"] == "claude-old"
    assert (await harness.types("session:claude-old"))[-2:] == ["hook.session_end", "session.closed"]


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ({"agent": "claude", "native_event": "Stop", "event_type": "agent_stop"}, "no native_id"),
        ({"agent": "claude", "native_event": "X", "event_type": "x", "native_id": "s1"}, "unknown"),
        ({"agent": "claude", "native_event": "Stop", "event_type": "agent_stop", "native_id": "s2"}, "another stream"),
        (["no", "object"], "must be an object"),
    ],
)
async def test_an_invalid_event_is_dead_with_its_reason_and_the_lane_continues(
    harness: SessionHarness, payload: Any, why: str
) -> None:
    poison = new_event("hook.agent_stop", payload, source="hook", stream="session:claude-s1", to="handler:sessions")
    await harness.store.events.append([poison])
    harness.hook(claude("Stop", last_assistant_message="after it"))
    await harness.settle()
    dead = (await harness.rows(state="dead"))[0]
    assert (dead.reason, dead.attempts) == ("rejected", 1)
    assert why in (dead.last_error or "")
    assert (await harness.session("claude-s1")).last_answer == "after it"


async def test_an_error_in_the_consumer_is_dead_too(harness: SessionHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*args: Any, **more: Any) -> Any:
        raise KeyError("surprise")

    monkeypatch.setattr("holdfast.agents.sessions.consumer.advance", fault)
    harness.hook(claude("Stop"))
    await harness.settle()
    assert "cannot process the hook event: KeyError" in ((await harness.rows(state="dead"))[0].last_error or "")


async def test_a_row_that_vanished_is_created_again(harness: SessionHarness) -> None:
    harness.hook(claude("UserPromptSubmit", prompt="Go"))
    await harness.settle()
    await harness.store.sessions._writer.run(lambda c: c.run("DELETE FROM holdfast_sessions"))  # type: ignore[attr-defined]
    harness.hook(claude("Stop", last_assistant_message="Done."))
    await harness.settle()
    session = await harness.session("claude-s1")
    assert (session.state, session.last_answer) == (SessionState.IDLE, "Done.")


async def test_the_transcript_is_read_at_the_end_of_a_turn_and_its_errors_are_ignored(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def read_last(agent: str, path: str) -> LatestTexts | None:
        asked.append((agent, path))
        if len(asked) > 1:
            raise OSError("gone")
        return LatestTexts(title="From the transcript")

    harness = await SessionHarness(tmp_path).work(read_latest=read_last)
    for payload in (claude("UserPromptSubmit", prompt="Go"), claude("Stop"), claude("Stop")):
        harness.hook(payload)
        await harness.settle()
    assert asked == [("claude", "/t/s1.jsonl")] * 2
    session = await harness.session("claude-s1")
    assert (session.title, session.state) == ("From the transcript", SessionState.IDLE)


async def test_a_transcript_that_the_cli_did_not_name_is_looked_for_once(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def find_transcript(agent: str, native_id: str) -> str:
        asked.append((agent, native_id))
        return "/rollout.jsonl"

    harness = await SessionHarness(tmp_path).work(find_transcript=find_transcript)
    harness.hook(fixture("codex/notify.agent-turn-complete.json")[2], "codex")
    await harness.settle()
    harness.hook(fixture("codex/Stop.nulls.json")[2], "codex")
    await harness.settle()
    native_id = "01a1e148-133f-7263-8540-4d643c50c254"
    assert asked == [("codex", native_id)]
    assert (await harness.session(f"codex-{native_id}")).transcript == "/rollout.jsonl"


async def test_closing_waits_for_its_turn_in_the_lane_and_a_new_prompt_reopens(harness: SessionHarness) -> None:
    harness.hook(claude("Stop"))
    await harness.settle()
    verbs = SessionVerbs(harness.store, harness.clock)
    closing = asyncio.create_task(verbs.close("s1"))
    while not closing.done():
        await harness.settle()
        await asyncio.sleep(0.005)
    assert closing.result().state == "closed"
    assert (await harness.types("session:claude-s1"))[-2:] == ["hook.session_end", "session.closed"]
    count = len(await harness.types("session:claude-s1"))
    assert (await verbs.close("claude-s1")).state == "closed"
    assert len(await harness.types("session:claude-s1")) == count
    harness.hook(claude("UserPromptSubmit", prompt="again"))
    await harness.settle()
    assert (await harness.session("claude-s1")).state is SessionState.WORKING


async def test_a_record_whose_import_was_cut_off_is_appended_once(harness: SessionHarness) -> None:
    harness.hook(claude("Stop"))
    path = next(harness.spool.iterdir())
    kept = path.read_bytes()
    await harness.settle()
    path.write_bytes(kept)
    await harness.settle()
    assert (await harness.types("session:claude-s1")).count("agent.agent_stop") == 1
    assert json.loads(kept.partition(b"\n")[0])["kind"] == "hook"


async def test_a_record_is_not_late_because_the_store_refused_it_at_first(
    harness: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late hook changes no state: one that only had to wait for room on the disk must not count as late."""
    append = harness.store.events.append

    async def full(events: Any) -> Any:
        monkeypatch.setattr(harness.store.events, "append", append)
        raise StoreFull("the disk is full")

    monkeypatch.setattr(harness.store.events, "append", full)
    harness.hook(claude("UserPromptSubmit", prompt="Go"))
    harness.hook(claude("Stop", last_assistant_message="Done."))
    harness.hook(claude("Notification", message="Well?", notification_type="permission_prompt"))
    with pytest.raises(StoreFull):
        await harness.importer.tick()
    await harness.settle()
    session = await harness.session("claude-s1")
    assert (session.state, session.last_answer) == (SessionState.WAITING, "Done.")
    events = await harness.store.events.read("session:claude-s1", 0, 10)
    assert not [event for event in events if "spool_late" in event.properties]


async def test_a_hook_is_not_late_because_of_another_session(harness: SessionHarness) -> None:
    """Two receivers at once: the one that began first is held up by the disk, and ends last."""
    harness.hook(claude("UserPromptSubmit", "slow", prompt="First"))
    await harness.settle()
    harness.hook(claude("UserPromptSubmit", "slow", prompt="Second"))
    (held,) = harness.spool.iterdir()
    hidden = held.rename(held.with_name("." + held.name))
    harness.hook(claude("Stop", "quick"))
    await harness.settle()
    hidden.rename(held)
    await harness.settle()
    assert (await harness.session("claude-slow")).last_prompt == "Second"


async def test_a_hook_after_a_later_one_of_its_own_session_is_late(harness: SessionHarness) -> None:
    harness.hook(claude("UserPromptSubmit", prompt="Go"))
    (held,) = harness.spool.iterdir()
    hidden = held.rename(held.with_name("." + held.name))
    harness.hook(claude("Stop", last_assistant_message="Done."))
    await harness.settle()
    hidden.rename(held)
    await harness.settle()
    session = await harness.session("claude-s1")
    assert (session.state, session.last_prompt, session.last_answer) == (SessionState.IDLE, "Go", "Done.")


async def test_the_number_of_remembered_streams_is_limited(
    harness: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.ingress.lateness.STREAMS_MAX", 3)
    for number in range(5):
        harness.hook(claude("Stop", f"s{number}"))
        await harness.settle()
    assert list(harness.importer._lateness._newest) == [f"session:claude-s{number}" for number in (2, 3, 4)]


def test_an_application_cannot_register_a_reserved_handler(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/any.db")
    with pytest.raises(BadConfig, match="'sessions' is reserved"):
        Runtime(store, load_config(None), None, handlers={"sessions": lambda event: None})


async def test_an_answer_that_is_written_after_the_hook_is_waited_for(tmp_path: Path) -> None:
    """Copilot CLI writes its transcript after its hooks: at first there is no file, or only the turn before."""
    shown = [None, LatestTexts(None, "first", None), LatestTexts(None, "second", "old", False)]
    missing = [FileNotFoundError()]

    def read(agent: str, path: str) -> LatestTexts | None:
        if missing:
            raise missing.pop()
        return shown.pop(0) if shown else LatestTexts(None, "second", "new")

    harness = await SessionHarness(tmp_path).work(read_latest=read)
    harness.hook({"sessionId": "s1", "cwd": "/src", "transcriptPath": "/t"}, "copilot", "agentStop")

    async def is_over() -> None:
        while (session := await harness.store.sessions.get("copilot-s1")) is None or session.last_answer is None:
            await harness.settle()
            await asyncio.sleep(0.01)

    await asyncio.wait_for(is_over(), 60)
    assert (await harness.session("copilot-s1")).last_answer == "new"
