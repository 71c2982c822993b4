"""The fast path is chosen only where it was seen to work, and does its work alone."""

from __future__ import annotations

import os
import shutil
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from holdfast.agents.receiver import program
from receiving import PYTHON, Receiver, silent


@pytest.fixture
def alone(fast: list[str], tmp_path: Path) -> Receiver:
    """Without Python to leave the work to."""
    made = Receiver(tmp_path / "home", [*fast[:-2], "/nowhere", "/nowhere"])
    (made.home / "spool").mkdir(parents=True, mode=0o700)
    return made


def test_the_fast_path_does_the_ordinary_work_alone(alone: Receiver) -> None:
    assert silent(alone("--agent", "claude", "Stop", stdin=b"{}"))
    assert silent(alone("--agent", "codex", "--home", str(alone.home), "notify", '{"a": 1}', env={}))
    assert silent(alone("--agent", "codex", '{"a": "ü"}'))
    env = {**alone.env, "TMUX": "/tmp/tmux-0/default,1,2", "TMUX_PANE": "%1"}
    assert silent(alone("--agent", "gemini", stdin=b"x" * 3_000_000, env=env))
    assert [(h["event"], h["cut"], h["pane"]) for h, _ in alone.records()] == [
        ("Stop", None, None), ("notify", None, None), (None, None, None), (None, "size", "%1")
    ]  # fmt: skip
    assert [body for _, body in alone.records()][:3] == [b"{}", b'{"a": 1}', '{"a": "ü"}'.encode()]


def test_choosing_compiles_what_the_receiver_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy: compiled files beside the source are shared by all tests."""
    for path in Path(PYTHON[-1]).parent.glob("*.p[yl]"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(program.receiver, "__file__", str(tmp_path / "receiver.py"))
    program.find_program()
    assert Path(cache_from_source(str(tmp_path / "intake.py"))).exists()


@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "HOME"])
def test_the_fast_path_finds_the_usual_home(alone: Receiver, tmp_path: Path, variable: str) -> None:
    usual = tmp_path / ("holdfast" if variable == "XDG_STATE_HOME" else ".local/state/holdfast")
    (usual / "spool").mkdir(parents=True)
    assert silent(alone("--agent", "claude", stdin=b"{}", env={variable: str(tmp_path)}))
    assert len(Receiver(usual).records()) == 1


@pytest.mark.parametrize("options", ["-w", "-Mstrict -Mwarnings", "-CSDA"])
def test_perl_options_of_the_user_change_nothing(alone: Receiver, fast: list[str], options: str) -> None:
    alone.command = fast
    raw = bytes(range(256))
    env = {**alone.env, "PERL5OPT": options, "PERL_UNICODE": "SDA"}
    assert silent(alone("--agent", "claude", stdin=raw, env=env))
    assert [body for _, body in alone.records()] == [raw]


def test_both_forms_write_the_same_header(alone: Receiver, tmp_path: Path) -> None:
    env = {**alone.env, "TMUX": "/tmp/tmux-0/default,1,2", "TMUX_PANE": "%1"}
    for made in (alone, Receiver(alone.home)):
        assert silent(made("--agent", "claude", "Stop", stdin=b"{}", env=env, cwd=tmp_path))
    first, second = ([*header.items()] for header, _ in alone.records())
    changing = {"id", "received_at", "pid"}
    assert [(k, v) for k, v in first if k not in changing] == [(k, v) for k, v in second if k not in changing]
    assert [k for k, _ in first] == [k for k, _ in second]


@pytest.mark.parametrize("fault", ["missing", "numbers", "words", "silent"])
def test_a_fast_path_that_does_not_work_here_is_not_chosen(
    fast: list[str], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert program.find_program() == fast
    if fault == "numbers":  # getpid instead of fsync: what is said to be synced is not
        monkeypatch.setattr(program, "CALLS", dict.fromkeys(program.CALLS, "39,228,231"))
    elif fault == "words":
        perl = tmp_path / "perl"
        perl.write_text(f'#!/bin/sh\necho hello\nexec {program.PERL} "$@"\n')
        perl.chmod(0o700)
        monkeypatch.setattr(program, "PERL", str(perl))
    else:
        monkeypatch.setattr(program, "PERL", "/nowhere" if fault == "missing" else "/bin/true")
    assert program.find_program() == PYTHON


def test_on_other_systems_python_is_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program.platform, "system", lambda: "Darwin")
    assert program.find_program("/usr/bin/python3")[:3] == ["/usr/bin/python3", "-I", "-S"]
    assert os.path.exists(program.find_program()[-1])
