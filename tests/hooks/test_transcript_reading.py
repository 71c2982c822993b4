"""The last texts of a transcript, the position of a moment, refused files, and the search."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agents.transcripts.latest_texts import LatestTexts
from holdfast.agents.transcripts.reader import end_of, read, read_latest, start_at
from holdfast.agents.transcripts.search import find_transcript
from holdfast.agents.transcripts.transcript_entry import TEXT_MAX, clip, one_line
from holdfast.domain.errors import BadInput
from holdfast.domain.event import parse_time
from transcript_files import agents, fixture, write

TITLES = {"qwen": "Test run"}


def test_an_answer_before_the_last_prompt_does_not_belong_to_it(tmp_path: Path) -> None:
    def said(role: str, text: str) -> object:
        return {"type": f"{role}.message", "data": {"content": text}}

    turns = [said("user", "first"), said("assistant", "one"), said("user", "second")]
    path = write(tmp_path / "t.jsonl", *turns)
    assert read_latest("copilot", path) == LatestTexts(None, "second", "one", is_answered=False)
    path = write(tmp_path / "t.jsonl", *turns, said("assistant", "two"))
    assert read_latest("copilot", path) == LatestTexts(None, "second", "two", is_answered=True)


def test_long_and_unstorable_text_is_cut_and_cleaned() -> None:
    assert clip("x" * (TEXT_MAX + 1)) == "x" * TEXT_MAX + f"… [cut: {TEXT_MAX + 1:,} characters]"
    assert clip("a\x00b\ud800c") == "a\ufffdb?c"
    assert one_line(" \n ") == ""


@agents
def test_the_latest_texts_of_the_fixture(agent: str) -> None:
    prompt = "Run the tests please" if agent == "claude" else "Run the tests"
    assert read_latest(agent, fixture(agent)) == LatestTexts(TITLES.get(agent), prompt, "All done: 12 tests pass.")


def test_titles(tmp_path: Path) -> None:
    said = {"type": "assistant", "uuid": "leaf-1", "message": {"content": [{"type": "text", "text": "Hello"}]}}
    strange = {"type": "summary", "summary": "Of another session", "leafUuid": "leaf-9"}
    own = {"type": "summary", "summary": "Greeting", "leafUuid": "leaf-1"}
    path = tmp_path / "t.jsonl"
    assert read_latest("claude", write(path, said, strange)) == LatestTexts(None, None, "Hello")
    assert read_latest("claude", write(path, said, own, strange)) == LatestTexts("Greeting", None, "Hello")
    titled = [{"type": "ai-title", "aiTitle": title} for title in ("Old", "New")]
    assert read_latest("claude", write(path, titled[0], said, titled[1], own)) == LatestTexts("New", None, "Hello")
    named = {"type": "event_msg", "payload": {"type": "thread_name_updated", "thread_name": "Tests"}}
    assert read_latest("codex", write(path, named)) == LatestTexts("Tests")
    assert read_latest("gemini", write(path, {"$set": {"summary": "Tests"}})) == LatestTexts("Tests")
    assert read_latest("codex", write(path, {"type": "session_meta"})) is None


def test_the_latest_texts_are_those_of_the_user_and_the_agent(tmp_path: Path) -> None:
    def line(kind: str, text: str, **more: object) -> dict[str, object]:
        return {"type": kind, "message": {"content": [{"type": "text", "text": text}]}, **more}

    path = write(
        tmp_path / "t.jsonl",
        line("user", "Mine"),
        line("assistant", "Yours"),
        line("user", "<task-notification>", isMeta=True),
        line("assistant", "A subagent's", isSidechain=True),
        line("user", "To a subagent", isSidechain=True),
        line("assistant", "API Error: 500", isApiErrorMessage=True),
    )
    assert read_latest("claude", path) == LatestTexts(None, "Mine", "Yours")


def test_the_latest_texts_of_a_long_transcript_are_read_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    title = json.dumps({"type": "ai-title", "aiTitle": "At the front"}).encode() + b"\n"
    noise = json.dumps({"type": "progress", "data": "x" * 1000}).encode() + b"\n"
    raw = Path(fixture("claude")).read_bytes()
    path.write_bytes(title + noise * 20_000 + raw + noise * 900)
    assert read_latest("claude", str(path)) == LatestTexts(
        "At the front", "Run the tests please", "All done: 12 tests pass."
    )
    path.write_bytes(raw + noise * 6000)
    assert read_latest("claude", str(path)) is None  # too far back to be worth the reading


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_position_of_a_time_is_after_the_last_line_before_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    times = sorted(data.draw(st.lists(st.integers(0, 5_000), min_size=1, max_size=300)))
    timed = data.draw(st.lists(st.booleans(), min_size=len(times), max_size=len(times)))
    width = data.draw(st.sampled_from([1, 2_000, 30_000 if len(times) < 40 else 3_000]))
    path = tmp_path_factory.mktemp("timed") / "t.jsonl"
    ends, at = [], 0
    with path.open("wb") as file:
        for ms, has_time in zip(times, timed, strict=True):
            stamp = {"timestamp": f"2026-01-01T00:00:0{ms // 1000}.{ms % 1000:03d}Z"} if has_time else {}
            raw = json.dumps({**stamp, "pad": "x" * width}).encode() + b"\n"
            at += file.write(raw)
            ends.append(at)
        file.write(b'{"half')
    since = data.draw(st.integers(0, 5_001))
    begin_ms = parse_time("2026-01-01T00:00:00Z", "t")
    wanted = max((end for end, ms, t in zip(ends, times, timed, strict=True) if t and ms < since), default=0)
    assert start_at("claude", str(path), begin_ms + since) == wanted
    assert end_of(str(path)) == at


def test_what_is_not_a_regular_file_of_this_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "real.jsonl"
    real.write_bytes(Path(fixture("claude")).read_bytes())
    link, fifo, folder, listening = (tmp_path / f"{name}.jsonl" for name in ("link", "fifo", "folder", "socket"))
    link.symlink_to(real)
    os.mkfifo(fifo)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # the name of a socket may not be long
        server.bind(listening.name)
        for path in (link, fifo, folder, listening):
            with pytest.raises(BadInput, match="is not a regular file"):
                read("claude", str(path))
            with pytest.raises(BadInput, match="is not a regular file"):
                read_latest("claude", str(path))
    for name in ("real.jsonl", f"{tmp_path}/x/../real.jsonl", f"{tmp_path}/real.txt", f"{tmp_path}/a\x00b.jsonl", ""):
        with pytest.raises(BadInput, match="is not an absolute path"):
            read("claude", name)
    with pytest.raises(BadInput, match="cannot be read; use one of"):
        read("cobol", str(real))
    assert read_latest("cobol", str(real)) is None
    with pytest.raises(FileNotFoundError):
        read("claude", str(tmp_path / "missing.jsonl"))


def test_another_users_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.jsonl", {"type": "user"})
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(BadInput, match="belongs to another user"):
        read("claude", path)


ID = "01a1e148-133f-7263-8540-4d643c50c254"


def test_a_rollout_is_found_by_its_id_the_newest_first(tmp_path: Path) -> None:
    environ = {"CODEX_HOME": str(tmp_path), "HOME": "/nowhere"}
    assert find_transcript("codex", ID, environ) is None
    paths = []
    for day in ("2025/12/31", "2026/02/03", "2026/11/15"):
        folder = tmp_path / "sessions" / day
        folder.mkdir(parents=True)
        path = folder / f"rollout-{day.replace('/', '-')}T22-15-59-{ID}.jsonl"
        path.write_bytes(b"{}\n")
        (folder / f"rollout-{day.replace('/', '-')}T23-00-00-{ID[:-1]}0.jsonl").write_bytes(b"{}\n")
        paths.append(path)
    assert find_transcript("codex", ID, environ) == str(paths[2])
    paths[2].unlink()
    paths[2].symlink_to(paths[0])
    assert find_transcript("codex", ID, environ) == str(paths[1])
    assert find_transcript("codex", "4d643c50c254", environ) is None  # the end of an id is not the id
    for name in ("../x", "", "*", ".", "a/b", "x" * 200):
        assert find_transcript("codex", name, environ) is None
    assert find_transcript("claude", ID, environ) is None


def test_a_link_to_a_folder_is_not_entered(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "11" / "15"
    real.mkdir(parents=True)
    (real / f"rollout-2026-11-15T22-15-59-{ID}.jsonl").write_bytes(b"{}\n")
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "2026").symlink_to(tmp_path / "elsewhere")
    assert find_transcript("codex", ID, {"CODEX_HOME": str(tmp_path)}) is None


def test_a_chat_of_gemini_is_found_by_its_first_line(tmp_path: Path) -> None:
    native_id = "5c939c92-0c25-4e6b-8cd0-6c9e3d799f2b"
    environ = {"HOME": str(tmp_path)}
    for project, id, stamp in (("shop", native_id, "15T22-16"), ("zoo", "5c939c92-other", "15T22-17")):
        folder = tmp_path / ".gemini" / "tmp" / project / "chats"
        folder.mkdir(parents=True)
        write(folder / f"session-2026-11-{stamp}-5c939c92.jsonl", {"sessionId": id})
    found = find_transcript("gemini", native_id, environ)
    assert found == str(tmp_path / ".gemini/tmp/shop/chats/session-2026-11-15T22-16-5c939c92.jsonl")
    assert find_transcript("gemini", "5c939c92-none", environ) is None
    assert find_transcript("gemini", native_id, {"HOME": "/nowhere", "GEMINI_CLI_HOME": str(tmp_path)}) == found
