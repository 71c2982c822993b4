"""Every input of a CLI becomes an event that can be stored, or a visible error event."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agents.hooks.decoder import decode_hook
from holdfast.agents.hooks.hook import EVENT_TYPES, read_hook, session_id_of
from holdfast.agents.registry import AGENTS, agent_names, hook_format
from holdfast.domain.canonical import BYTES_MAX
from holdfast.domain.errors import BadInput
from holdfast.domain.event import NewEvent
from holdfast.domain.lane import CRITICAL, burst_key
from hooks import claude, fixture, header, stored

# The number of documented events of each CLI; for Codex also its notify.
EVENT_COUNTS = {"claude": 33, "codex": 12, "gemini": 11, "qwen": 14, "opencode": 11}


def made(payload: Any, agent: str = "claude", event: str | None = None, late: bool = False, **more: Any) -> NewEvent:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    found = decode_hook(header(1, agent, event, **more), body, late)
    assert found is not None
    return found


def properties(event: NewEvent) -> dict[str, Any]:
    return dict(json.loads(event.properties))


def payload_of(event: NewEvent) -> dict[str, Any]:
    return dict(json.loads(event.payload))


@pytest.mark.parametrize(("agent", "count"), EVENT_COUNTS.items())
def test_every_documented_event_is_in_the_table(agent: str, count: int) -> None:
    assert len(hook_format(agent).events) == count


@pytest.mark.parametrize("agent", agent_names())
def test_every_row_of_the_table_has_a_known_event_type(agent: str) -> None:
    assert {meaning.event_type for meaning in hook_format(agent).events.values()} <= set(EVENT_TYPES)


def test_an_unknown_event_is_stored_unchanged() -> None:
    event = made(claude("BrandNew", nested={"a": [1, {"b": None}]}))
    assert event.type == "hook.raw"
    assert properties(event)["native_event"] == "BrandNew"
    assert payload_of(event)["raw"]["nested"] == {"a": [1, {"b": None}]}


def test_an_unknown_agent_is_read_like_claude() -> None:
    event = made(claude("Stop", last_assistant_message="Done."), agent="newcomer")
    assert (event.type, event.stream) == ("hook.agent_stop", "session:newcomer-s1")
    assert payload_of(event)["answer"] == "Done."


def test_a_payload_without_a_native_id_is_kept_in_the_agents_unknown_session() -> None:
    event = made({"hook_event_name": "Stop"})
    assert event.stream == "session:claude-unknown"
    assert read_hook(stored(event)).session_id == "claude-unknown"


def test_two_long_native_ids_stay_two_sessions() -> None:
    one, two = session_id_of("claude", "x" * 300 + "1"), session_id_of("claude", "x" * 300 + "2")
    assert len(one) == len(two) == 200
    assert one != two


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "HOOK_INVALID_JSON"),
        (b"plain words", "HOOK_INVALID_JSON"),
        (b'{"session_id": "s1"', "HOOK_INVALID_JSON"),
        (b"\xff\xfe\x00", "HOOK_INVALID_JSON"),
        (b"[" * 100_000, "HOOK_INVALID_JSON"),
        (b"[1, 2]", "HOOK_PAYLOAD_NOT_OBJECT"),
        (b"null", "HOOK_PAYLOAD_NOT_OBJECT"),
    ],
)
def test_unreadable_input_is_an_error_event_on_the_agents_own_stream(body: bytes, code: str) -> None:
    event = made(body, agent="codex")
    assert (event.type, event.source, event.stream, event.to) == ("error.error", "system", "agent:codex", None)
    assert properties(event)["error_code"] == code
    assert payload_of(event)["bytes"] == len(body)
    assert len(payload_of(event)["raw"]) <= 4000


@pytest.mark.parametrize("text", ['"a\\u0000b"', '"\\ud800"', "NaN", "1e999", "9" * 5000, "[" * 60 + "]" * 60])
def test_values_that_cannot_be_stored_are_replaced_and_the_rest_kept(text: str) -> None:
    body = f'{{"session_id": "s1", "hook_event_name": "PostToolUse", "tool_name": "Bash", "odd": {text}}}'
    event = made(body.encode())
    assert (event.type, event.stream) == ("hook.tool_done", "session:claude-s1")
    assert "odd" in payload_of(event)["raw"]


def test_the_whole_fields_of_a_cut_payload_are_used() -> None:
    body = json.dumps(claude("UserPromptSubmit", prompt="x" * 5000)).encode()[:400]
    event = made(body, truncated=5200)
    assert (event.type, event.stream) == ("hook.user_prompt_submit", "session:claude-s1")
    assert payload_of(event)["truncated"] == 5200
    assert payload_of(event)["cwd"] == "/src/s1"


def test_a_payload_that_is_too_large_is_shortened_where_it_is_long() -> None:
    big = claude("PostToolUse", tool_name="Bash", tool_response={"stdout": "x" * (BYTES_MAX + 1), "code": 0})
    event = made(big)
    assert len(event.payload) <= BYTES_MAX
    assert payload_of(event)["shortened"] == 100_000
    assert payload_of(event)["raw"]["tool_response"]["code"] == 0


def test_even_a_million_small_fields_become_an_event() -> None:
    event = made(claude("PostToolUse", tool_name="Bash", tool_response=[{"k": i} for i in range(150_000)]))
    assert event.type == "hook.tool_done"
    assert payload_of(event)["raw"] is None


@pytest.mark.parametrize(
    ("fields", "injected"),
    [
        ({"prompt": "Fix it"}, False),
        ({"prompt": "Fix it", "source": "user"}, False),
        ({"prompt": "Fix it", "source": "sdk"}, False),
        ({"prompt": "go on", "source": "system"}, True),
        ({"prompt": "check CI", "source": "schedule_wakeup"}, True),
        ({"prompt": "<task-notification>done</task-notification>"}, True),
        ({"prompt": "\n<system-reminder>x</system-reminder>"}, True),
    ],
)
def test_a_prompt_from_the_system_is_marked(fields: dict[str, str], injected: bool) -> None:
    event = made(claude("UserPromptSubmit", **fields))
    assert properties(event).get("injected", False) is injected


def test_codex_stop_and_notify_of_one_turn_share_their_key() -> None:
    stop = made(fixture("codex/Stop.json")[2], agent="codex")
    notify = made(fixture("codex/notify.agent-turn-complete.json")[2], agent="codex")
    assert stop.dedup_key == notify.dedup_key is not None
    assert stop.digest != notify.digest


def test_a_codex_stop_that_a_hook_prolonged_is_a_stop_of_its_own() -> None:
    assert made(fixture("codex/Stop.nulls.json")[2], agent="codex").dedup_key is None


def test_both_payload_forms_of_copilot_are_read() -> None:
    camel = made(
        {"sessionId": "s1", "toolName": "bash", "toolResult": {"resultType": "failure"}}, "copilot", "postToolUse"
    )
    snake = made(
        {
            "hook_event_name": "PostToolUse",
            "session_id": "s1",
            "tool_name": "bash",
            "tool_result": {"result_type": "failure"},
        },
        "copilot",
    )
    for event in (camel, snake):
        assert (event.type, event.stream) == ("hook.tool_done", "session:copilot-s1")
        assert (properties(event)["tool_name"], properties(event)["ok"]) == ("bash", False)


@pytest.mark.parametrize(
    ("status", "type", "ok"), [("completed", "hook.agent_stop", None), ("aborted", "hook.agent_stop", False),
                               ("error", "hook.error", False)],
)  # fmt: skip
def test_the_ways_in_which_cursor_stops_are_distinguished(status: str, type: str, ok: bool | None) -> None:
    event = made(
        {"conversation_id": "c1", "hook_event_name": "stop", "status": status, "workspace_roots": ["/w"]}, "cursor"
    )
    assert (event.type, properties(event).get("ok"), payload_of(event)["cwd"]) == (type, ok, "/w")


def test_events_of_the_opencode_plugin_are_read() -> None:
    idle = made({"type": "session.idle", "properties": {"sessionID": "ses_1"}}, "opencode")
    chat = made(
        {"sessionID": "ses_1", "message": {"id": "m"}, "model": {"modelID": "big"},
         "parts": [{"type": "text", "text": "Fix\nit"}, {"type": "file"}]},
        "opencode", "chat.message",
    )  # fmt: skip
    tool = made({"tool": "bash", "sessionID": "ses_1", "callID": "c"}, "opencode", "tool.execute.before")
    fault = made(
        {"type": "session.error", "properties": {"sessionID": "ses_1", "error": {"name": "ApiError"}}}, "opencode"
    )
    assert {event.stream for event in (idle, chat, tool, fault)} == {"session:opencode-ses_1"}
    assert [event.type for event in (idle, chat, tool, fault)] == [
        "hook.agent_stop", "hook.user_prompt_submit", "hook.tool_use", "hook.error",
    ]  # fmt: skip
    said = payload_of(chat)
    assert (said["prompt"], said["model"], said.get("message")) == ("Fix\nit", "big", None)
    assert payload_of(fault)["error"] == "ApiError"


def test_the_type_of_the_agent_itself_is_not_a_subagent() -> None:
    assert "subagent_type" not in properties(made(claude("SessionStart", agent_type="reviewer")))
    inside = properties(made(claude("PreToolUse", tool_name="Read", agent_id="a1", agent_type="Explore")))
    assert (inside["subagent_id"], inside["subagent_type"]) == ("a1", "Explore")


def test_an_event_of_an_unlisted_type_is_skipped() -> None:
    body = json.dumps(claude("PreToolUse", tool_name="Bash")).encode()
    assert decode_hook(header(1, "claude"), body, allowed=("agent_stop",)) is None


@pytest.mark.parametrize("received_at", [None, "now", True, -1, 2**60, 199_999_999_999_999])
def test_any_time_of_receipt_can_be_read_again(received_at: Any) -> None:
    assert read_hook(stored(made(claude("Stop"), received_at=received_at))).at_ms >= 0


def test_a_record_without_an_id_is_refused() -> None:
    with pytest.raises(BadInput, match="no event id"):
        decode_hook({**header(1, "claude"), "id": "x"}, b"{}")


def test_only_tools_and_unknown_events_may_be_replaced_by_later_ones() -> None:
    for name in EVENT_TYPES:
        bursty = burst_key("handler:sessions", f"hook.{name}") is not None
        assert bursty == (name in ("tool_use", "tool_done", "raw"))
        assert bursty == (f"hook.{name}" not in CRITICAL)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
NAMES = sorted({name for agent in AGENTS for names in agent.hooks.fields.values() for name in names})


@settings(max_examples=300, deadline=None)
@given(
    agent=st.sampled_from([*agent_names(), "else", ""]),
    event=st.sampled_from(sorted({name for agent in AGENTS for name in agent.hooks.events})) | st.text(),
    payload=st.dictionaries(st.sampled_from(NAMES) | st.text(), JSON, max_size=8),
)
def test_any_object_becomes_an_event_the_consumer_can_read(agent: str, event: str, payload: dict[str, Any]) -> None:
    raw = made(payload, agent, event)
    hook = read_hook(stored(raw))
    assert raw.stream == f"session:{hook.session_id}"
    assert f"hook.{hook.event_type}" == raw.type


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=200), truncated=st.none() | st.integers(0, 10**9))
def test_any_bytes_become_an_event(body: bytes, truncated: int | None) -> None:
    assert made(body, truncated=truncated).id is not None
