"""The change of a session by each event, and the events that follow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agents.hooks.decoder import decode_hook
from holdfast.agents.hooks.hook import read_hook, session_end_event
from holdfast.agents.sessions.agent_hook import read_agent_hook
from holdfast.agents.sessions.lifecycle import ANSWER_MAX, PROMPT_MAX, SUBAGENTS_MAX, advance, find_predecessor
from holdfast.agents.sessions.session_events import Predecessor
from holdfast.agents.transcripts.latest_texts import LatestTexts
from holdfast.domain.session import Session, SessionState
from hooks import Life, applied, claude, header, stored

S = SessionState


def hook(native_event: str, agent: str = "claude", session: str = "s1", pane: str | None = None, **fields: Any) -> Any:
    raw = decode_hook(header(1, agent, pane=pane), json.dumps(claude(native_event, session, **fields)).encode())
    assert raw is not None
    return read_agent_hook(stored(raw))


@pytest.fixture
def life() -> Life:
    return Life()


def test_a_turn_from_start_to_end(life: Life) -> None:
    assert life.feed(claude("SessionStart", source="startup")).state is S.INITIALIZING
    assert life.types == ["session.started"]
    session = life.feed(claude("UserPromptSubmit", prompt="Fix the bug\nplease"))
    assert (session.state, session.last_prompt, session.title) == (S.WORKING, "Fix the bug\nplease", "Fix the bug")
    assert life.types == ["agent.user_prompt_submit", "session.updated"]
    life.feed(claude("PreToolUse", tool_name="Bash"))
    assert life.types == ["agent.activity.tool_use"]
    session = life.feed(claude("Stop", last_assistant_message="Fixed."))
    assert (session.state, session.last_answer) == (S.IDLE, "Fixed.")
    assert life.types == ["agent.agent_stop", "session.updated"]
    said = json.loads(life.events[0].payload)
    assert {
        "last_answer": "Fixed.",
        "title": "Fix the bug",
        "cwd": "/src/s1",
        "agent": "claude",
    }.items() <= said.items()
    assert life.feed(claude("SessionEnd", reason="clear")).state is S.ENDED
    assert life.types == ["session.closed"]


def test_events_have_the_documented_properties(life: Life) -> None:
    life.feed(claude("UserPromptSubmit", prompt="Go"))
    life.feed(claude("PostToolUse", tool_name="Bash", tool_response={"stdout": "secret output"}))
    event = life.events[0]
    assert (event.source, event.stream) == ("agent", "session:claude-s1")
    assert json.loads(event.properties) == {
        "session_id": "claude-s1", "agent_event_type": "tool_done", "tool_name": "Bash", "agent": "claude",
    }  # fmt: skip
    assert b"secret output" not in event.payload
    life.feed(claude("StopFailure", error="rate_limit", error_details="429"))
    assert json.loads(life.events[0].properties) == {
        "session_id": "claude-s1", "severity": "error", "error_source": "claude", "error_code": "rate_limit",
    }  # fmt: skip


def test_a_stop_with_work_in_the_background_is_waiting(life: Life) -> None:
    session = life.feed(claude("Stop", background_tasks=[{"id": "b1"}], session_crons=[]))
    assert (session.state, session.facts["waiting_for"]) == (S.WAITING, "background")
    assert life.feed(claude("PreToolUse", tool_name="Read", agent_id="a1")).state is S.WAITING
    assert life.feed(claude("Stop", background_tasks=[], session_crons=[])).state is S.IDLE


def test_a_session_waits_until_its_question_is_answered(life: Life) -> None:
    life.feed(claude("UserPromptSubmit", prompt="Go"))
    session = life.feed(claude("PermissionRequest", tool_name="Bash"))
    assert (session.state, session.facts["message"]) == (S.WAITING, "permission needed for Bash")
    session = life.feed(claude("Notification", message="Still there?", notification_type="permission_prompt"))
    assert (session.state, session.facts["message"]) == (S.WAITING, "Still there?")
    session = life.feed(claude("PostToolUse", tool_name="Bash"))
    assert session.state is S.WORKING
    assert "message" not in session.facts
    assert "waiting_for" not in session.facts


def test_a_notification_that_asks_for_nothing_changes_no_state(life: Life) -> None:
    life.feed(claude("UserPromptSubmit", prompt="Go"))
    assert life.feed(claude("Notification", message="ok", notification_type="auth_success")).state is S.WORKING
    assert life.types == ["agent.notification"]
    assert life.feed(claude("Notification", message="idle", notification_type="idle_prompt")).state is S.IDLE


def test_a_tool_that_ends_after_the_turn_changes_no_state(life: Life) -> None:
    life.feed(claude("Stop"))
    assert life.feed(claude("PostToolUse", tool_name="Bash")).state is S.IDLE
    assert life.feed(claude("PreToolUse", tool_name="Bash")).state is S.WORKING


def test_an_error_is_failed_until_the_agent_works_again(life: Life) -> None:
    session = life.feed(claude("StopFailure", error="rate_limit", last_assistant_message="API Error"))
    assert (session.state, session.facts["error"], session.last_answer) == (S.FAILED, "rate_limit", None)
    assert life.types == ["session.started", "error.error"]
    session = life.feed(claude("UserPromptSubmit", prompt="again"))
    assert session.state is S.WORKING
    assert "error" not in session.facts


def test_a_prompt_from_the_system_starts_work_but_is_not_the_last_prompt(life: Life) -> None:
    life.feed(claude("UserPromptSubmit", prompt="Mine"))
    session = life.feed(claude("UserPromptSubmit", prompt="<task-notification>x"))
    assert (session.last_prompt, session.state, session.facts["turns"]) == ("Mine", S.WORKING, 2)
    assert json.loads(life.events[0].properties)["injected"] is True


def test_texts_of_a_subagent_are_not_those_of_the_session(life: Life) -> None:
    life.feed(claude("UserPromptSubmit", prompt="Mine"))
    session = life.feed(claude("SubagentStart", agent_id="a1", agent_type="Explore"))
    assert session.facts["subagents"] == {"a1": "Explore"}
    session = life.feed(claude("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="Found 3"))
    assert (session.last_answer, session.facts["subagents"], session.state) == (None, {}, S.WORKING)
    assert json.loads(life.events[0].payload)["answer"] == "Found 3"


def test_running_subagents_are_bounded(life: Life) -> None:
    for number in range(SUBAGENTS_MAX + 5):
        session = life.feed(claude("SubagentStart", agent_id=f"a{number}"))
    assert len(session.facts["subagents"]) == SUBAGENTS_MAX
    assert "subagents" not in life.feed(claude("Stop")).facts


def test_the_pane_of_codex_is_only_a_hint(life: Life) -> None:
    session = life.feed(claude("SessionStart"), agent="codex", pane="%1", tmux="/tmp/t")
    assert (session.pane, session.facts["pane_hint"], session.facts["tmux_hint"]) == (None, "%1", "/tmp/t")


def test_a_session_that_begins_again_outside_of_tmux_has_no_pane(life: Life) -> None:
    assert life.feed(claude("SessionStart"), pane="%1").pane == "%1"
    assert life.feed(claude("Stop")).pane == "%1"
    assert life.feed(claude("SessionStart", source="resume")).pane == ""


def test_an_ended_session_is_reopened_by_a_start_or_a_prompt_only(life: Life) -> None:
    life.feed(claude("SessionEnd", reason="resume"))
    for straggler in ("PostToolUse", "Stop", "Notification", "PreToolUse", "PreCompact", "SessionEnd"):
        assert life.feed(claude(straggler)).state is S.ENDED
        assert "session.started" not in life.types
    session = life.feed(claude("SessionStart", source="resume"))
    assert session.state is S.INITIALIZING
    assert "end_reason" not in session.facts
    assert life.types == ["session.started"]


def test_a_late_event_adds_missing_texts_and_keeps_the_state(life: Life) -> None:
    life.feed(claude("Stop"))
    session = life.feed(claude("UserPromptSubmit", prompt="Earlier"), late=True)
    assert (session.state, session.last_prompt) == (S.IDLE, "Earlier")
    life.feed(claude("UserPromptSubmit", prompt="Newer"))
    session = life.feed(claude("UserPromptSubmit", prompt="Older"), late=True)
    assert (session.last_prompt, session.facts["turns"]) == ("Newer", 1)


def test_a_compaction_keeps_the_state_working(life: Life) -> None:
    life.feed(claude("UserPromptSubmit", prompt="Go"))
    life.feed(claude("PreCompact", trigger="auto"))
    assert life.types == []
    assert life.feed(claude("SessionStart", source="compact")).state is S.WORKING


def test_an_update_event_follows_only_from_a_visible_change(life: Life) -> None:
    life.feed(claude("UserPromptSubmit", prompt="Go"))
    life.feed(claude("PreToolUse", tool_name="Bash"))
    assert "session.updated" not in life.types
    life.feed(claude("CwdChanged", new_cwd="/elsewhere"))
    assert life.types == ["session.updated"]
    life.feed(claude("UserPromptSubmit", prompt="Go", session_title="Rounding"))
    assert life.types == ["agent.user_prompt_submit", "session.updated"]


def test_texts_are_bounded(life: Life) -> None:
    session = life.feed(claude("UserPromptSubmit", prompt="x" * 20_000))
    assert session.last_prompt is not None
    assert len(session.last_prompt) == PROMPT_MAX
    assert session.title is not None
    assert len(session.title) <= 80
    session = life.feed(claude("Stop", last_assistant_message="y" * 20_000))
    assert session.last_answer is not None
    assert len(session.last_answer) == ANSWER_MAX
    assert all(len(event.payload) < 20_000 for event in life.events)


def test_the_transcript_adds_texts_that_the_hook_lacks() -> None:
    change, _ = advance(None, hook("Stop"), latest=LatestTexts("A title", "Asked", "Answered"))
    assert (change.title, change.last_prompt, change.last_answer) == ("A title", "Asked", "Answered")
    change, _ = advance(None, hook("Stop", last_assistant_message="Newer"), latest=LatestTexts(None, None, "Older"))
    assert change.last_answer == "Newer"


@pytest.mark.parametrize("source", ["resume", "clear", "compact"])
def test_a_new_id_in_the_same_pane_continues_the_session_before(source: str) -> None:
    before = Session("claude-s0", "claude", "s0", S.IDLE, pane="%3")
    new = hook("SessionStart", source=source, pane="%3")
    found = find_predecessor(new, [Session("claude-x", "claude", "x", S.IDLE, pane="%9"), before])
    assert found is before
    change, events = advance(None, new, predecessor=Predecessor(before))
    assert change.facts["continues"] == "claude-s0"
    assert [event.type for event in events] == ["session.started", "hook.session_end"]
    assert (events[1].stream, events[1].to) == ("session:claude-s0", "handler:sessions")


@pytest.mark.parametrize(
    ("agent", "fields", "before"),
    [
        ("claude", {"source": "startup"}, {"pane": "%3"}),  # an agent that another one started in its own pane
        ("claude", {"source": "clear"}, {"pane": "%4"}),
        ("claude", {"source": "clear"}, {"pane": "%3", "state": S.ENDED, "facts": {"end_reason": "logout"}}),
        ("claude", {"source": "clear"}, {"pane": "%3", "agent": "gemini"}),
        ("codex", {"source": "resume"}, {"pane": "%3", "agent": "codex"}),
    ],
)
def test_a_session_that_only_looks_alike_is_not_continued(
    agent: str, fields: dict[str, str], before: dict[str, Any]
) -> None:
    known = Session(**{"id": "x-s0", "agent": "claude", "native_id": "s0", "state": S.IDLE, **before})
    assert find_predecessor(hook("SessionStart", agent=agent, pane="%3", **fields), [known]) is None


def test_a_session_with_the_same_transcript_and_folder_is_continued_without_a_pane() -> None:
    known = Session("codex-s0", "codex", "s0", S.IDLE, cwd="/src/s1", transcript="/t/s1.jsonl")
    assert find_predecessor(hook("SessionStart", agent="codex", source="resume"), [known]) is known


def test_a_session_that_ended_to_be_continued_is_linked_and_ended_once() -> None:
    before = Session("claude-s0", "claude", "s0", S.ENDED, pane="%3", facts={"end_reason": "clear"})
    new = hook("SessionStart", source="clear", pane="%3")
    assert find_predecessor(new, [before]) is before
    _, events = advance(None, new, predecessor=Predecessor(before))
    assert [event.type for event in events] == ["session.started"]


def test_a_session_wrongly_seen_as_continued_is_open_again_after_an_event(life: Life) -> None:
    session = life.feed(claude("UserPromptSubmit", prompt="Go"))
    raw = session_end_event(session, "continued", "2026-11-15T22:00:00Z", by="claude-s2")
    change, events = advance(session, read_hook(stored(replaced_id(raw))))
    life.session = applied(session, change)
    assert life.session.state is S.ENDED
    assert [event.type for event in events] == ["session.closed"]
    assert life.feed(claude("PreToolUse", tool_name="Bash")).state is S.WORKING


@pytest.mark.parametrize(("source", "left"), [("startup", False), ("resume", False), ("compact", True)])
def test_running_tools_of_a_killed_agent_are_cleared_at_the_next_start(life: Life, source: str, left: bool) -> None:
    life.feed(claude("UserPromptSubmit", prompt="Go"))
    life.feed(claude("SubagentStart", agent_id="a1", agent_type="Explore"))
    life.feed(claude("PreToolUse", tool_name="Bash"))
    session = life.feed(claude("SessionStart", source=source))
    assert ("tool" in session.facts, "subagents" in session.facts) == (left, left)
    assert "tool_started_at" in session.facts or not left
    assert (session.last_prompt, session.facts["turns"]) == ("Go", 1)


def test_a_closed_session_stays_closed_when_its_agent_ends(life: Life) -> None:
    session = life.feed(claude("Stop"))
    change, _ = advance(
        session, read_hook(stored(replaced_id(session_end_event(session, "closed", "2026-11-15T22:00:00Z"))))
    )
    life.session = applied(session, change)
    assert life.session.state is S.CLOSED
    assert life.feed(claude("SessionEnd")).state is S.CLOSED
    assert life.types == []


def replaced_id(event: Any) -> Any:
    return event._replace(id="evt_1")


TOOLS = st.lists(
    st.tuples(
        st.sampled_from(["PreToolUse", "PostToolUse"]), st.sampled_from(["Bash", "Read"]), st.sampled_from([None, "a1"])
    ),
    max_size=12,
)
FIRST = st.sampled_from(["SessionStart", "UserPromptSubmit", "Stop", "PermissionRequest", "StopFailure", "SessionEnd"])


@settings(max_examples=300, deadline=None)
@given(first=FIRST, tools=TOOLS, data=st.data())
def test_coalescing_a_burst_gives_the_same_session(first: str, tools: list[Any], data: st.DataObject) -> None:
    """Whichever of them are replaced by a later one of the same tool in the same hands."""
    whole, thin = Life(), Life()
    hooks = [claude(name, tool_name=tool, **({"agent_id": sub} if sub else {})) for name, tool, sub in tools]
    for each in (whole, thin):
        each.feed(claude(first))
    for at, payload in enumerate(hooks):
        whole.feed(payload, received_at=1_794_780_960_000 + at)
        replaceable = any(later == tools[at] for later in tools[at + 1 :])
        if not (replaceable and data.draw(st.booleans())):
            thin.feed(payload, received_at=1_794_780_960_000 + at)
    assert whole.session == thin.session
