"""Transcripts are read in whole lines while they grow, with any content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agents.registry import transcript_format
from holdfast.agents.transcripts import transcript_file
from holdfast.agents.transcripts.reader import read, read_latest
from holdfast.agents.transcripts.transcript_entry import TEXT_MAX, TranscriptEntry, tool_line
from transcript_files import agents, fixture, write

GOLDEN = {
    "claude": [
        ("user", "Run the tests please", "2026-11-15T22:14:32.548Z", "c7490b8c-456a-40ea-9beb-03716893cc35", 0),
        ("assistant", "Running a command.", "2026-11-15T22:14:32.661Z", "c61fa9a4-1a21-4bbf-b772-d430dc2a0a2b", 0),
        ("tool", "Bash: echo 12 passed", "2026-11-15T22:14:32.677Z", "toolu_6b3d134b468447d39305", 0),
        ("tool", "Bash: exit 3", "2026-11-15T22:14:32.690Z", "toolu_f44ae8d9c53f4086bed1", 0),
        (
            "assistant",
            "All done: 12 tests pass.",
            "2026-11-15T22:14:32.874Z",
            "f738b1c7-c08e-45e8-9da3-35be85de915f",
            0,
        ),
    ],
    "codex": [
        ("user", "Run the tests", "2026-11-15T22:15:59.737Z", "msg_01a1e148-13f9-73e3-b5f3-aeb185032fa1", 0),
        ("tool", "exec_command: echo 12 passed", "2026-11-15T22:15:59.787Z", "call_a5c804fe", 0),
        ("assistant", "All done: 12 tests pass.", "2026-11-15T22:16:00.009Z", "msg_1", 0),
    ],
    "gemini": [
        (
            "injected",
            "<session_context>\nThis is the Gemini CLI…",
            "2026-11-15T22:16:52.315Z",
            "d04923d38bb0f6017037e74183378ef4",
            0,
        ),
        ("user", "Run the tests", "2026-11-15T22:16:52.394Z", "dd6fd895-7b98-4914-8624-8ebdb7e49fb8", 0),
        (
            "tool",
            "run_shell_command: echo 12 passed",
            "2026-11-15T22:16:52.695Z",
            "run_shell_command__run_shell_command_1794781012517_0",
            1,
        ),
        (
            "assistant",
            "All done: 12 tests pass.",
            "2026-11-15T22:16:52.987Z",
            "1319a287-d7e6-4712-9b7e-00c028e50ccb",
            0,
        ),
    ],
}


GOLDEN |= {
    "copilot": [
        ("user", "Run the tests", "2026-11-16T08:53:39.525Z", "00000000-0000-4000-8000-0000000004", 0),
        ("tool", "bash: echo 12 passed", "2026-11-16T08:53:40.848Z", "call_1", 1),
        ("injected", "Read the skill first", "2026-11-16T08:53:41.200Z", "00000000-0000-4000-8000-0000000010", 0),
        ("assistant", "Looking at the suite.", "2026-11-16T08:53:41.300Z", "00000000-0000-4000-8000-0000000011", 0),
        (
            "assistant",
            "All done: 12 tests pass.",
            "2026-11-16T08:53:42.381Z",
            "00000000-0000-4000-8000-0000000012",
            0,
        ),
    ],
    "qwen": [
        ("user", "Run the tests", "2026-11-16T08:34:23.834Z", "00000000-0000-4000-9000-0000000001", 0),
        ("tool", "run_shell_command: echo 12 passed", "2026-11-16T08:34:24.405Z", "call_1", 1),
        (
            "assistant",
            "All done: 12 tests pass.",
            "2026-11-16T08:34:46.871Z",
            "00000000-0000-4000-9000-0000000005",
            0,
        ),
        ("title", "Test run", "2026-11-16T08:34:46.900Z", None, 0),
    ],
}


def brief(entry: TranscriptEntry) -> tuple[object, ...]:
    return ("injected" if entry.injected else entry.kind, entry.text, entry.at, entry.id, entry.part)


def read_all(agent: str, path: str, most_bytes: int = 1 << 20) -> list[TranscriptEntry]:
    entries: list[TranscriptEntry] = []
    offset, mark = 0, None
    while True:
        batch = read(agent, path, offset, most_bytes, mark)
        assert not batch.replaced
        entries += batch.entries
        if batch.next_offset == offset:
            return entries
        offset, mark = batch.next_offset, batch.mark


def entries_of(agent: str, tmp_path: Path, *records: object) -> list[TranscriptEntry]:
    return read_all(agent, write(tmp_path / "t.jsonl", *records))


@agents
def test_the_fixture_gives_the_golden_entries(agent: str) -> None:
    entries = read_all(agent, fixture(agent))
    assert [brief(entry) for entry in entries] == GOLDEN[agent]
    batch = read(agent, fixture(agent), 0, 1 << 20)
    assert (batch.unknown, batch.broken, batch.oversized, batch.more) == (0, 0, 0, False)
    assert batch.next_offset == os.stat(fixture(agent)).st_size
    raw = Path(fixture(agent)).read_bytes()
    for entry in entries:
        assert raw[: entry.offset] == b"" or raw[: entry.offset].endswith(b"\n")


@agents
@pytest.mark.parametrize("most_bytes", [1, 100, 1000, 3000])
def test_reading_in_small_pieces_gives_the_same_entries(agent: str, most_bytes: int) -> None:
    assert read_all(agent, fixture(agent), most_bytes) == read_all(agent, fixture(agent))


@agents
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_reading_a_growing_file_gives_the_same_entries(
    agent: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = Path(fixture(agent)).read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    path = tmp_path_factory.mktemp("growing") / "t.jsonl"
    path.touch()
    found: list[TranscriptEntry] = []
    offset, mark = 0, None
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        with path.open("ab") as file:
            file.write(raw[start:end])
        for _ in range(data.draw(st.integers(0, 3))):
            batch = read(agent, str(path), offset, data.draw(st.integers(1, 9000)), mark)
            found, offset, mark = found + batch.entries, batch.next_offset, batch.mark
    while (batch := read(agent, str(path), offset, 2000, mark)).next_offset != offset:
        found, offset, mark = found + batch.entries, batch.next_offset, batch.mark
    assert found == read_all(agent, fixture(agent))


@agents
def test_a_file_cut_at_any_byte_gives_no_error_and_no_wrong_entry(agent: str, tmp_path: Path) -> None:
    raw = Path(fixture(agent)).read_bytes()
    whole = read_all(agent, fixture(agent))
    path = tmp_path / "cut.jsonl"
    path.write_bytes(raw)
    for size in range(len(raw), -1, -1):
        os.truncate(path, size)
        batch = read(agent, str(path), 0, 1 << 20)
        lines = raw[:size].rfind(b"\n") + 1
        assert batch.entries == [entry for entry in whole if entry.offset < lines]
        assert (batch.next_offset, batch.broken) == (lines, 0)
        if size % 7 == 0 or raw[size - 1 : size] == b"\n":
            words = (read_latest(agent, str(path)) or ())[:3]
            assert {text for text in words if text is not None} <= {entry.text for entry in whole}


@agents
def test_a_beginning_cut_off_at_any_byte_never_raises(agent: str, tmp_path: Path) -> None:
    """Every line may be half a line, from the front as well."""
    raw = Path(fixture(agent)).read_bytes()
    texts = {entry.text for entry in read_all(agent, fixture(agent))}
    path = tmp_path / "cut.jsonl"
    for start in range(0, len(raw), 13):
        path.write_bytes(raw[start:])
        assert {entry.text for entry in read(agent, str(path), 0, 1 << 20).entries} <= texts


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner),
    max_leaves=6,
)

NAMES = [
    "type", "message", "content", "payload", "timestamp", "uuid", "text", "name", "input", "arguments", "role", "item",
    "$set", "messages", "toolCalls", "args", "summary", "aiTitle", "isSidechain", "isMeta", "promptSource", "action",
    "thread_name", "sessionId", "kind", "source", "command", "id", "call_id", "model",
]  # fmt: skip

TYPES = [
    "user", "assistant", "text", "tool_use", "response_item", "message", "function_call", "custom_tool_call", "gemini",
    "local_shell_call", "web_search_call", "event_msg", "thread_name_updated", "summary", "ai-title", "subagent",
]  # fmt: skip

SHAPED = st.recursive(
    JSON | st.sampled_from(TYPES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=12,
)


@agents
@settings(max_examples=100, deadline=None)
@given(record=st.dictionaries(st.sampled_from(NAMES), SHAPED, max_size=8), kind=st.sampled_from(TYPES))
def test_no_content_of_a_line_raises(agent: str, record: dict[str, object], kind: str) -> None:
    for one in (record, {**record, "type": kind}, {"type": "response_item", "payload": {**record, "type": kind}}):
        for entry in transcript_format(agent).entries(one) or []:
            assert entry.text.strip()
            assert len(entry.text) <= TEXT_MAX + 40
            entry.text.encode("utf-8")
        transcript_format(agent).is_subagent(one)


@agents
def test_strange_lines_are_left_out_and_counted(agent: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    good = Path(fixture(agent)).read_bytes()
    bad = [b"{", b"\xff\xfe", b"[1]", b"17", b"null", b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}", b'"text"']
    path.write_bytes(b"".join(line + b"\n" for line in bad) + b'\n  \n{"type":"from-the-future"}\n' + good)
    batch = read(agent, str(path), 0, 1 << 20)
    assert (batch.broken, batch.unknown) == (len(bad), 1)
    assert [brief(entry) for entry in batch.entries] == GOLDEN[agent]


def test_a_line_that_is_too_long_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_file, "LINE_MAX", 2000)
    good = Path(fixture("codex")).read_bytes()
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"type":"' + b"x" * 9000 + b'"}\n' + good + b'{"half":"' + b"x" * 9000)
    for most_bytes in (10, 1500, 1 << 20):
        assert [brief(entry) for entry in read_all("codex", str(path), most_bytes)] == GOLDEN["codex"]
    assert read("codex", str(path), 0, 100).oversized == 1
    assert read("codex", str(path), 0, 1 << 20).oversized == 1


def test_a_file_that_was_cut_or_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    raw = Path(fixture("claude")).read_bytes()
    path.write_bytes(raw)
    first = read("claude", str(path), 0, 1 << 20)
    path.write_bytes(raw[:900])
    again = read("claude", str(path), first.next_offset)
    assert (again.replaced, again.next_offset, again.entries) == (True, 0, [])
    path.write_bytes(raw + b"{}\n")
    on = read("claude", str(path), first.next_offset, mark=first.mark)
    assert (on.replaced, on.unknown) == (False, 1)
    end = raw[-40:]
    path.write_bytes(raw[:-40] + end.replace(b"a", b"b") + b"{}\n")
    assert end != end.replace(b"a", b"b")
    assert read("claude", str(path), first.next_offset, mark=first.mark).replaced
    other = Path(fixture("codex")).read_bytes()
    path.write_bytes(other + raw)
    assert read("claude", str(path), first.next_offset, mark=first.mark).replaced


def test_subagents_are_distinguished(tmp_path: Path) -> None:
    claude = {"type": "assistant", "uuid": "u", "message": {"content": [{"type": "text", "text": "I am another"}]}}
    assert [entry.subagent for entry in entries_of("claude", tmp_path, {**claude, "isSidechain": True}, claude)] == [
        True,
        False,
    ]
    said = {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": [{"text": "hi"}]}}
    meta = {"type": "session_meta", "payload": {"source": {"subagent": {"thread_spawn": {}}}}}
    assert [entry.subagent for entry in entries_of("codex", tmp_path, meta, said)] == [True]
    assert [entry.subagent for entry in entries_of("codex", tmp_path, {"type": "session_meta"}, said)] == [False]
    kind = {"sessionId": "s", "kind": "subagent"}
    assert [e.subagent for e in entries_of("gemini", tmp_path, kind, {"type": "gemini", "content": "hi"})] == [True]


@pytest.mark.parametrize(
    ("record", "text", "injected"),
    [
        ({"message": {"content": "Fix it"}}, "Fix it", False),
        ({"message": {"content": "Fix it"}, "isMeta": True}, "Fix it", True),
        ({"message": {"content": "Fix it"}, "isCompactSummary": True}, "Fix it", True),
        ({"message": {"content": "Fix it"}, "promptSource": "loop_wakeup"}, "Fix it", True),
        ({"message": {"content": "Fix it"}, "promptSource": "user"}, "Fix it", False),
        ({"message": {"content": "<task-notification>done"}}, "<task-notification>done", True),
        ({"message": {"content": [{"type": "text", "text": "<system-reminder>x"}]}}, "<system-reminder>x", True),
        (
            {"message": {"content": "<command-message>r</command-message><command-name>/review</command-name>"}},
            "/review",
            False,
        ),
        (
            {"message": {"content": "<command-name>/review</command-name><command-args>main.py</command-args>"}},
            "/review main.py",
            False,
        ),
        ({"message": {"content": "<bash-input>ls -l</bash-input>"}}, "!ls -l", False),
        ({"message": {"content": "<bash-stdout>a</bash-stdout>"}}, "<bash-stdout>a</bash-stdout>", True),
    ],
)
def test_text_that_a_program_wrote_is_not_the_users_prompt(
    tmp_path: Path, record: dict[str, object], text: str, injected: bool
) -> None:
    [entry] = entries_of("claude", tmp_path, {"type": "user", **record})
    assert (entry.kind, entry.text, entry.injected) == ("user", text, injected)


def test_codex_context_is_marked_as_injected(tmp_path: Path) -> None:
    def user(text: str) -> dict[str, object]:
        return {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"text": text}]}}

    texts = ["<environment_context>x", "# AGENTS.md instructions for /src", "Fix it"]
    assert [e.injected for e in entries_of("codex", tmp_path, *map(user, texts))] == [True, True, False]


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("Bash", {"description": "Run", "command": "make\n  test"}, "Bash: make test"),
        ("Edit", {"old_string": "a", "new_string": "b", "file_path": "/src/a.py"}, "Edit: /src/a.py"),
        ("Grep", {"path": "/src", "pattern": "def"}, "Grep: def"),
        ("shell", {"command": ["bash", "-lc", "ls -l"]}, "shell: ls -l"),
        ("shell", {"command": ["git", "status"]}, "shell: git status"),
        ("mcp__x__y", {"colour": "red"}, "mcp__x__y: red"),
        ("Wait", {}, "Wait"),
        ("Wait", None, "Wait"),
        ("Wait", {"seconds": 3}, "Wait"),
        ("Bash", {"command": "x" * 500}, "Bash: " + "x" * 200 + "…"),
        ("Bash", {"command": "printf '\x1b[31m'"}, "Bash: printf '\ufffd[31m'"),
    ],
)
def test_a_tool_call_is_summarized_in_one_line(name: str, arguments: object, line: str) -> None:
    assert tool_line(name, arguments) == line


def test_a_patch_is_summarized_by_its_file(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-a\n+b\n*** End Patch"
    call = {"type": "custom_tool_call", "name": "apply_patch", "input": patch, "call_id": "c"}
    [entry] = entries_of("codex", tmp_path, {"type": "response_item", "payload": call})
    assert (entry.text, entry.tool) == ("apply_patch: src/a.py", "apply_patch")
