"""Install twice, then uninstall: every file is restored byte for byte, and entries of others are never changed."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.agents.install import files, jsonc
from holdfast.agents.install.environment import GUARD, is_own, split_line
from holdfast.operations.answers.encode import encode
from installing import AGENTS, FOLDERS, JSON_FILES, make_environment, make_installer, only, snapshot

FOREIGN = {"type": "command", "command": "/usr/bin/say done", "bash": "/usr/bin/say done"}
HOOKS = {
    name: {event: [{"matcher": "Bash", "hooks": [FOREIGN]}] if grouped else [FOREIGN]}
    for name, event, grouped in (
        ("claude", "Stop", True), ("codex", "Stop", True), ("gemini", "AfterAgent", True), ("qwen", "Stop", True),
        ("copilot", "agentStop", False), ("cursor", "stop", False),
    )
}  # fmt: skip


def texts(name: str) -> dict[str, bytes]:
    """Files as people have them."""
    plain = {"version": 1, "model": "opus", "env": {"KEY": "value"}}
    foreign = {**plain, "hooks": {**HOOKS[name], "Other": []}, "last": [1, 2]}
    commented = (
        '// mine\n{\n  /* the model */ "model": "opus", // the best\n'
        f'  "hooks": {json.dumps(HOOKS[name])}, // mine too\n  "last": 1.50 // exact\n  // the end\n}}\n// really\n'
    )
    return {
        "empty": b"",
        "blank": b"\n\n",
        "braces": b"{}",
        "open braces": b"{\n}\n",
        "only a comment": b"{\n  // nothing yet\n}\n",
        "plain": json.dumps(plain, indent=2).encode() + b"\n",
        "one line": json.dumps(plain).encode(),
        "no newline at the end": json.dumps(plain, indent=4).encode(),
        "foreign hooks": json.dumps(foreign, indent=2).encode() + b"\n",
        "comments": commented.encode(),
        "trailing commas": b'{\n  "a": [1, 2,],\n  "hooks": {\n    "Other": [\n    ],\n  },\n}\n',
        "tabs": json.dumps(foreign, indent="\t").encode() + b"\n",
        "CRLF": json.dumps(foreign, indent=2).replace("\n", "\r\n").encode() + b"\r\n",
        "BOM": b"\xef\xbb\xbf" + json.dumps(plain, indent=2).encode(),
        "other letters": '{\n  "größe": "ñ 🙂 \\u00e9"\n}\n'.encode(),
        "empty hooks": b'{\n  "hooks": {}\n}\n',
    }


MATRIX = [(name, kind) for name in JSON_FILES for kind in texts(name)]


@pytest.mark.parametrize(("name", "kind"), MATRIX)
def test_a_file_comes_back_byte_for_byte(tmp_path: Path, name: str, kind: str) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / JSON_FILES[name]
    path.parent.mkdir(parents=True)
    path.write_bytes(texts(name)[kind])
    path.chmod(0o640)
    before = snapshot(environment.home)

    first = only(make_installer(environment).install([name]), name)
    assert (first.result, first.error) == ("changed", None)
    wired = snapshot(environment.home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert only(make_installer(environment).install([name]), name).result == "unchanged"
    assert snapshot(environment.home) == wired
    assert only(make_installer(environment).install([name], tools=True), name).result == "changed"

    assert only(make_installer(environment).uninstall([name]), name).error is None
    assert snapshot(environment.home) == before


@pytest.mark.parametrize(("name", "kind"), MATRIX)
def test_install_only_inserts_in_the_style_of_the_file(tmp_path: Path, name: str, kind: str) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / JSON_FILES[name]
    path.parent.mkdir(parents=True)
    path.write_bytes(texts(name)[kind])
    make_installer(environment).install([name])

    raw = path.read_bytes()
    rest = iter(raw)
    assert all(byte in rest for byte in texts(name)[kind]), "a byte that was there is gone or moved"
    lines = raw.decode("utf-8-sig").splitlines()
    newlines = raw.count(b"\n")
    assert raw.count(b"\r\n") == (newlines if kind == "CRLF" else 0)
    assert raw.startswith(b"\xef\xbb\xbf") == (kind == "BOM")
    if kind == "tabs":
        assert not any(line.startswith(" ") for line in lines)
    if kind == "one line":
        assert newlines == 0


@pytest.mark.parametrize("kind", ["plain", "one line", "foreign hooks", "comments", "tabs", "CRLF", "BOM"])
@pytest.mark.parametrize("name", JSON_FILES)
def test_without_its_record_uninstall_removes_exactly_our_entries(tmp_path: Path, name: str, kind: str) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / JSON_FILES[name]
    path.parent.mkdir(parents=True)
    path.write_bytes(texts(name)[kind])
    make_installer(environment).install([name], tools=True)
    (environment.home / "state" / "installed-hooks.json").unlink()
    make_installer(environment).uninstall([name])
    assert path.read_bytes() == texts(name)[kind]


@pytest.mark.parametrize("name", AGENTS)
def test_files_that_did_not_exist_are_removed_again(tmp_path: Path, name: str) -> None:
    environment = make_environment(tmp_path)
    before = snapshot(environment.home)
    assert only(make_installer(environment).install([name], tools=True), name).result == "changed"
    assert only(make_installer(environment).install([name]), name).result == "unchanged"
    make_installer(environment).uninstall([name])
    assert snapshot(environment.home) == before


@pytest.mark.parametrize("name", AGENTS)
def test_a_project_has_files_of_its_own(tmp_path: Path, name: str) -> None:
    environment = make_environment(tmp_path)
    environment.project.mkdir()
    home, project = snapshot(environment.home), snapshot(environment.project)
    assert only(make_installer(environment, project=True).install([name]), name).result == "changed"
    assert snapshot(environment.home) == home
    assert make_installer(environment, project=True).status([name]).agents[0].state.startswith("installed")
    make_installer(environment, project=True).uninstall([name])
    assert snapshot(environment.project) == project


@pytest.mark.parametrize("name", AGENTS)
def test_a_dry_run_shows_and_changes_nothing(tmp_path: Path, name: str) -> None:
    environment = make_environment(tmp_path)
    before = snapshot(tmp_path)
    answer = only(make_installer(environment).install([name], dry_run=True), name)
    assert answer.result == "changed"
    assert environment.receiver in answer.files[0].diff
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", JSON_FILES)
def test_changes_of_others_after_install_survive_uninstall(tmp_path: Path, name: str) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / JSON_FILES[name]
    path.parent.mkdir(parents=True)
    path.write_bytes(texts(name)["foreign hooks"])
    make_installer(environment).install([name])
    settings = jsonc.parse(path.read_text()).value
    path.write_text(jsonc.rewrite(path.read_text(), {**settings, "theme": "dark"}))
    make_installer(environment).install([name], tools=True)
    make_installer(environment).uninstall([name])
    expected = {**json.loads(texts(name)["foreign hooks"]), "theme": "dark"}
    assert json.loads(path.read_text()) == expected


@pytest.mark.parametrize("name", AGENTS)
def test_a_moved_installation_replaces_its_entries_in_place(tmp_path: Path, name: str) -> None:
    old, new = make_environment(tmp_path, installation="old"), make_environment(tmp_path, installation="new")
    make_installer(old).install([name], tools=True)
    Path(old.receiver).unlink()
    assert make_installer(new).status([name]).agents[0].state == "stale path"
    assert only(make_installer(new).install([name]), name).result == "changed"
    result = make_installer(new).status([name]).agents[0]
    assert result.state.startswith("installed")
    written = "".join(path.read_text() for path in new.home.rglob("*") if path.is_file() and path.suffix != ".bak")
    assert old.receiver not in written
    assert written.count(new.receiver) == (1 if name == "opencode" else len(result.events) + (name == "codex"))
    before = snapshot(make_environment(tmp_path / "other").home)
    make_installer(new).uninstall([name])
    assert snapshot(new.home) == before


def test_tool_events_stay_as_they_are_unless_asked(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)

    def events() -> set[str]:
        return set(make_installer(environment).status(["claude"]).agents[0].events)

    make_installer(environment).install(["claude"])
    lifecycle = events()
    assert "PreToolUse" not in lifecycle
    make_installer(environment).install(["claude"], tools=True)
    assert events() - lifecycle == {"PreToolUse", "PostToolUse", "PostToolUseFailure"}
    make_installer(environment).install(["claude"])
    assert "PreToolUse" in events()
    make_installer(environment).install(["claude"], tools=False)
    assert events() == lifecycle


def test_only_clis_that_are_found_are_changed(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    (environment.home / ".claude").mkdir()
    program = tmp_path / "bin" / "gemini"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    results = {item.agent: item.result for item in make_installer(environment).install().agents}
    assert [name for name, result in results.items() if result == "changed"] == ["claude", "gemini"]
    assert {result for name, result in results.items() if name not in ("claude", "gemini")} == {"not found"}


@pytest.mark.parametrize(
    ("variable", "name", "file"),
    [
        ("CLAUDE_CONFIG_DIR", "claude", "settings.json"),
        ("CODEX_HOME", "codex", "hooks.json"),
        ("GEMINI_CLI_HOME", "gemini", ".gemini/settings.json"),
        ("QWEN_HOME", "qwen", "settings.json"),
        ("COPILOT_HOME", "copilot", "hooks/holdfast.json"),
        ("XDG_CONFIG_HOME", "opencode", "opencode/plugin/holdfast.js"),
    ],
)
def test_a_cli_is_installed_in_the_folder_of_its_variable(tmp_path: Path, variable: str, name: str, file: str) -> None:
    environment = make_environment(tmp_path, {variable: str(tmp_path / "elsewhere")})
    make_installer(environment).install([name])
    assert environment.receiver in (tmp_path / "elsewhere" / file).read_text()
    assert list(environment.home.iterdir()) == [environment.home / "state"]


BAD = [b"{", b'{"a": }', b"[1]", b'{"hooks": 5}', b'{"hooks": {"Stop": 5}}', b"\xff\xfe", b"nul", b"[" * 5000]


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_a_file_that_cannot_be_parsed_is_refused_with_the_reason(tmp_path: Path, text: bytes) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(text)
    (environment.home / ".gemini").mkdir()
    before = snapshot(path.parent)
    answer = make_installer(environment).install()
    result = only(answer, "claude")
    assert result.result == "refused"
    assert str(path) in result.error
    assert "file not changed" in result.error
    assert snapshot(path.parent) == before
    assert only(answer, "gemini").result == "changed"


def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text("{}")
    path.chmod(0o444)
    before = snapshot(environment.home)
    assert "read-only" in only(make_installer(environment).install(["claude"]), "claude").error
    assert snapshot(environment.home) == before


def test_a_link_stays_a_link_and_its_target_is_changed(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    target = tmp_path / "dotfiles" / "claude.json"
    target.parent.mkdir()
    target.write_text('{\n  "model": "opus"\n}\n')
    link = environment.home / ".claude" / "settings.json"
    link.parent.mkdir()
    link.symlink_to(target)
    before = snapshot(tmp_path)
    make_installer(environment).install(["claude"])
    assert link.is_symlink()
    assert environment.receiver in target.read_text()
    assert [path.name for path in target.parent.iterdir()] == ["claude.json"]
    make_installer(environment).uninstall(["claude"])
    assert {name: kept for name, kept in snapshot(tmp_path).items() if "state" not in name} == before


def test_a_broken_link_is_refused(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    link = environment.home / ".claude" / "settings.json"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "gone")
    assert "does not exist" in only(make_installer(environment).install(["claude"]), "claude").error
    assert not (tmp_path / "gone").exists()


def test_a_change_between_reading_and_writing_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text("{}")
    keep = files._keep

    def another_program_writes(kept: Path, raw: bytes) -> Path:
        path.write_text('{"theirs": 1}')
        return keep(kept, raw)

    monkeypatch.setattr(files, "_keep", another_program_writes)
    result = only(make_installer(environment).install(["claude"]), "claude")
    assert "changed by another program" in result.error
    assert path.read_text() == '{"theirs": 1}'
    assert [each.name for each in path.parent.iterdir()] == ["settings.json"]


def test_copies_are_private_and_few(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"env": {"SECRET": "x"}}')
    path.chmod(0o644)
    for number in range(8):
        make_installer(environment).install(["claude"], tools=number % 2 == 0)
    copies = [each for each in path.parent.iterdir() if each.suffix == ".bak"]
    assert 1 <= len(copies) <= files.BACKUPS_MAX + 1
    assert all(stat.S_IMODE(copy.stat().st_mode) == 0o600 for copy in copies)
    make_installer(environment).uninstall(["claude"])
    assert [each.name for each in path.parent.iterdir()] == ["settings.json"]
    assert path.read_text() == '{"env": {"SECRET": "x"}}'


def test_a_diff_shows_no_secret(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{\n  "env": {"API_KEY": "hunter2", "auth_token": "hunter3"}\n}\n')
    answer = make_installer(environment).install(["claude"], dry_run=True)
    assert "hunter" not in json.dumps(encode(answer))


def test_the_owner_of_a_file_stays_its_owner(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    environment = make_environment(tmp_path)
    path = environment.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text("{}")
    os.chown(path, 1234, 1235)
    make_installer(environment).install(["claude"])
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


def test_a_plugin_of_that_name_that_is_not_ours_is_not_touched(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / FOLDERS["opencode"] / "plugin" / "holdfast.js"
    path.parent.mkdir(parents=True)
    path.write_text("export const Mine = 1\n")
    assert "file not changed" in only(make_installer(environment).install(["opencode"]), "opencode").error
    make_installer(environment).uninstall(["opencode"])
    assert path.read_text() == "export const Mine = 1\n"


def test_a_users_script_that_calls_the_receiver_is_not_ours() -> None:
    line = "/usr/bin/python3 -I -S /x/holdfast/agents/receiver/receiver.py --agent claude"
    assert is_own(split_line(line))
    assert is_own([*split_line(line), "--home", "/var/holdfast", "Stop"])
    folder = "/x/holdfast/agents/receiver"
    perl = f"/usr/bin/perl -C0 {folder}/receiver.pl 74,228,231 /x/python {folder}/receiver.py --agent claude"
    assert is_own([*GUARD, *split_line(perl)])
    assert not is_own(split_line(f"/usr/bin/perl -C0 /x/mine.pl 1 {line}"))
    assert not is_own(split_line(f"/home/you/wrapper.sh {line}"))
    for more in (" && say done", "; true", " | tee log", " > log", " Stop; true", " --home /x Stop;"):
        assert not is_own(split_line(line + more)), more
    assert not is_own(split_line(line.replace("holdfast/agents", "other/agents")))


def test_a_path_with_spaces_survives_the_shell(tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "my agents")
    environment = replace(environment, spool_home=str(tmp_path / "my state"))
    words = split_line(environment.command_line("gemini", "Stop"))
    assert words == environment.command("gemini", "Stop")
    assert is_own(words)


def test_an_unusable_home_is_reported_after_the_file_is_written(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    (environment.home / "state").write_text("a file where the home should be")
    result = only(make_installer(environment).install(["claude"]), "claude")
    assert (result.result, result.files[0].path) == ("failed", str(environment.home / ".claude" / "settings.json"))
    assert "state" in result.error
    assert only(make_installer(environment).uninstall(["claude"]), "claude").error is None
    assert environment.receiver not in (environment.home / ".claude" / "settings.json").read_text()
