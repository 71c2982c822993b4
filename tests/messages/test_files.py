"""Voice and files: stored bytes, named by their digest, handed to the agent as a path."""

from __future__ import annotations

import hashlib
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon, fetch
from holdfast.agents.messages.message_files import MessageFiles, file_name, transcribe
from holdfast.agents.messages.session_message import SessionMessage
from holdfast.domain.event import Event
from holdfast.store.open import open_store
from hooks import claude, write_hook

DATA = b"OggS" + bytes(range(256)) * 40
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("files") / "home", config="sessions: {transcripts: 'off'}\n") as daemon:
        write_hook(daemon.home / "spool", 1, "claude", claude("SessionStart", "s1", source="startup"))
        daemon.wait_for("/api/sessions", lambda page: page["items"])
        yield daemon


def put(daemon: Daemon, data: bytes, token: str | None = None) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token or daemon.token}", "Content-Type": "audio/ogg"}
    return fetch(daemon.url, "PUT", "/api/blobs", data, headers)


def test_a_file_is_stored_once_and_named_by_its_digest(daemon: Daemon) -> None:
    assert put(daemon, DATA) == (200, {"sha256": DIGEST, "size": len(DATA)})
    assert put(daemon, DATA)[0] == 200
    assert put(daemon, b"")[0] == 422
    assert put(daemon, bytes(10 * 1024 * 1024 + 1))[0] == 413
    operate = daemon.cli("token", "create", "bot", "--scope", "operate").out.strip()
    assert put(daemon, DATA, operate)[0] == 403
    headers = {"Authorization": f"Bearer {daemon.token}", "Origin": "https://evil.example"}
    assert fetch(daemon.url, "PUT", "/api/blobs", DATA, headers)[0] == 403


def test_a_message_names_a_stored_file(daemon: Daemon) -> None:
    put(daemon, DATA)
    body = {"session": "s1", "message_type": "voice", "payload": {"sha256": DIGEST, "name": "note.ogg"}}
    status, answer = daemon.request("POST", "/api/messages", body)
    assert status == 202, answer
    shown = daemon.request("GET", f"/api/messages/{answer['id']}")[1]
    assert (shown["message_type"], shown["content"]) == ("voice", "A voice message:")
    for payload in (None, {"sha256": "0" * 64}, {"path": "/etc/passwd"}, {"url": "http://169.254.169.254/"}):
        status, problem = daemon.request("POST", "/api/messages", {**body, "payload": payload})
        assert (status, "PUT /api/blobs" in problem["detail"]) == (422, True)


def test_the_command_line_sends_a_file(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "plan.pdf"
    path.write_bytes(DATA)
    said = daemon.cli("send", "s1", "please read this", "--file", str(path), "--json")
    assert said.code == 0, said.err
    event = daemon.request("GET", f"/api/events/{said.json['id']}")[1]
    assert event["payload"]["payload"] == {"sha256": DIGEST, "name": "plan.pdf"}
    assert event["payload"]["message_type"] == "file"


def voice(name: str = "note.ogg", type: str = "voice") -> SessionMessage:
    payload = f'{{"content": "hi", "message_type": "{type}", "payload": {{"sha256": "{DIGEST}", "name": "{name}"}}}}'
    event = Event(1, "evt_1", "session:s", 1, "message", "message.queued", "2026-01-31T12:00:00Z", 0, "{}", payload)
    return SessionMessage("s", "hi", 1, 1, event)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("note.ogg", "-note.ogg"),
        ("../../.ssh/authorized_keys", "-authorized_keys"),
        ("a b;$(rm).sh", "-a_b_rm_.sh"),
        ("..", ""),
        ("", ""),
    ],
)
def test_a_name_cannot_leave_its_folder(given: str, kept: str) -> None:
    assert file_name(voice(given).event, DIGEST) == DIGEST[:16] + kept


async def test_the_agent_gets_a_path_that_only_its_user_can_read(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db", keep=True)
    await store.blobs.put(DIGEST, DATA)
    transcriber = [sys.executable, "-c", "import sys; print(sys.argv[1][-8:])", "{path}"]
    files = MessageFiles(store.blobs, tmp_path / "files", transcriber)
    message = await files.attach(voice())
    path = tmp_path / "files" / f"{DIGEST[:16]}-note.ogg"
    assert message.text == f"hi\nFile: {path}\nTranscript:\nnote.ogg"
    assert path.read_bytes() == DATA
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert (await files.attach(voice())).text == message.text
    assert (await files.attach(voice(type="file"))).text == f"hi\nFile: {path}"
    gone = MessageFiles(store.blobs, tmp_path / "other")
    text = voice().event.payload_json.replace(DIGEST, "0" * 64)
    event = Event(1, "evt_1", "session:s", 1, "message", "message.queued", "2026-01-31T12:00:00Z", 0, "{}", text)
    assert "no longer stored" in (await gone.attach(SessionMessage("s", "hi", 1, 1, event))).text
    await store.close()


@pytest.mark.parametrize("code", ["import sys; sys.exit(3)", "raise SystemExit('no')"])
async def test_a_transcriber_that_fails_leaves_the_message_without_a_transcript(tmp_path: Path, code: str) -> None:
    assert await transcribe([sys.executable, "-c", code], tmp_path / "x") == ""
    assert await transcribe([str(tmp_path / "missing")], tmp_path / "x") == ""


async def test_a_transcript_is_cleaned_and_limited(tmp_path: Path) -> None:
    endless = "import sys\nwhile True: sys.stdout.write('a' * 1000)"
    assert len(await transcribe([sys.executable, "-c", endless], tmp_path / "x")) == 16 * 1024
    assert await transcribe([sys.executable, "-c", r"print('\x1b[31mred\x07')"], tmp_path / "x") == "red"
