"""The commands themselves, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from daemon import Daemon, Said, run_cli
from holdfast.agents.registry import agent_names
from holdfast.surfaces.cli.hooks import agent_option
from installing import snapshot


class Shell:
    """A home of a person with two CLIs, where nothing else on PATH is found."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project = folder / "you", folder / "project"
        (self.home / ".claude").mkdir(parents=True)
        (self.home / ".codex").mkdir()
        self.project.mkdir()
        self.settings = self.home / ".claude" / "settings.json"
        self.settings.write_text('{\n  // mine\n  "model": "opus"\n}\n')
        self.env = {
            "HOME": str(self.home), "PATH": str(folder / "bin"), "XDG_CONFIG_HOME": str(self.home / ".config"),
            "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "GEMINI_CLI_HOME": "", "QWEN_HOME": "", "COPILOT_HOME": "",
        }  # fmt: skip

    def __call__(self, *arguments: str, home: Path | None = None) -> Said:
        return run_cli(home or self.home / "state", *arguments, env=self.env, cwd=self.project)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_install_shows_what_it_does_and_what_to_do_next(shell: Shell) -> None:
    before = snapshot(shell.home)
    said = shell("hooks", "install", "--dry-run", "--diff")
    assert said.code == 0
    assert f"+++ {shell.settings}" in said.out
    assert "--home" in said.out  # this home is not where the receiver would look by itself
    assert "Nothing was changed (--dry-run)." in said.out
    assert snapshot(shell.home) == before

    said = shell("hooks", "install")
    assert (said.code, said.err) == (0, "")
    assert "claude: installed, 10 events\n  events  SessionStart, " in said.out
    assert f"  file    {shell.settings}\n  backup  {shell.settings}.holdfast-" in said.out
    assert f"  file    {shell.home / '.codex' / 'config.toml'}" in said.out
    assert len(said.out.splitlines()) <= 20, "a summary, not the text of the files"
    assert "receiver" not in said.out
    remaining = said.out.split("Still to do:\n")[1]
    assert "trust" in remaining
    assert "type /hooks" in remaining
    assert "holdfast service install" in remaining
    assert shell("hooks", "install").out.count("already installed") == 2

    said = shell("hooks", "uninstall")
    assert f"claude: removed\n  file    {shell.settings}" in said.out
    assert snapshot(shell.home) == before
    assert shell("hooks", "uninstall").out == "No hooks of Holdfast were installed.\n"


def test_the_service_is_offered_only_if_no_daemon_runs(shell: Shell) -> None:
    with Daemon(shell.home / "state"):
        said = shell("hooks", "install")
        assert said.code == 0
        assert "service install" not in said.out
        assert "trust" in said.out.split("Still to do:\n")[1]


def test_a_refusal_is_printed_and_the_command_fails(shell: Shell) -> None:
    shell.settings.write_text("{")
    said = shell("hooks", "install")
    assert said.code == 1
    assert f"claude: refused\n  error   cannot read {shell.settings}" in said.out
    assert "codex: installed" in said.out
    assert shell.settings.read_text() == "{"


def test_if_no_cli_is_found_the_names_are_listed(tmp_path: Path, shell: Shell) -> None:
    shell.env["HOME"] = shell.env["XDG_CONFIG_HOME"] = str(tmp_path)
    said = shell("hooks", "install")
    assert (said.code, said.out.splitlines()[0][:42]) == (0, "No agent CLI found; looked for claude, cod")


def test_every_answer_is_available_as_json(shell: Shell) -> None:
    answer = shell("hooks", "install", "--agent", "claude", "--tools", "--json").json
    assert [item["agent"] for item in answer["agents"]] == ["claude"]
    assert answer["agents"][0]["files"][0]["path"] == str(shell.settings)
    answer = shell("hooks", "status", "--json").json
    assert answer["daemon"] is False
    claude = answer["agents"][0]
    assert (claude["agent"], claude["last_event_at"]) == ("claude", None)
    assert "PreToolUse" in claude["events"]
    assert answer["agents"][1]["state"] == "not installed"


def test_the_projects_own_file(shell: Shell) -> None:
    (shell.project / ".git").mkdir()
    below = shell.project / "src"
    below.mkdir()
    said = run_cli(shell.home / "state", "hooks", "install", "--project", "--agent", "claude", env=shell.env, cwd=below)
    assert said.code == 0
    assert (shell.project / ".claude" / "settings.local.json").exists()
    assert "SessionEnd" in json.loads((shell.project / ".claude" / "settings.local.json").read_text())["hooks"]


def test_every_agent_of_the_registry_can_be_named() -> None:
    @click.command()
    @agent_option
    def command(names: tuple[str, ...]) -> None: ...

    (option,) = command.params
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == agent_names()


def test_a_daemon_that_was_started_by_hand_is_mentioned(shell: Shell, tmp_path: Path) -> None:
    with Daemon(tmp_path / "running") as daemon:
        assert "started by hand" in shell("service", "install", home=daemon.home).out
    assert "started by hand" not in shell("service", "install", home=daemon.home).out


def test_an_unknown_agent_is_a_usage_error(shell: Shell) -> None:
    assert shell("hooks", "install", "--agent", "clippy").code == 2


def test_status_shows_the_time_of_the_last_event_of_an_agent(shell: Shell, tmp_path: Path) -> None:
    said = shell("hooks", "status")
    assert "No daemon answers" in said.out
    assert "unknown" in said.out
    with Daemon(tmp_path / "running") as daemon:
        event = {
            "type": "hook.agent_stop",
            "source": "hook",
            "stream": "session:claude-1",
            "properties": {"agent": "claude"},
        }
        assert daemon.request("POST", "/api/events", event)[0] == 201
        said = shell("hooks", "status", home=daemon.home)
    rows = {line.split()[0]: line for line in said.out.splitlines()}
    assert " s ago" in rows["claude"]
    assert "none recently" in rows["codex"]


def test_the_service_can_be_installed_too(shell: Shell) -> None:
    said = shell("hooks", "install", "--agent", "claude", "--service")
    unit = shell.home / ".config" / "systemd" / "user" / "holdfast.service"
    assert unit.exists()
    assert "systemctl is not installed" in said.out
    assert "systemctl --user enable --now holdfast.service" in said.out
    assert shell("service", "status", "--json").json["state"] == "installed"
    assert "up to date" in shell("service", "install").out
    assert f"removed: {unit}" in shell("service", "uninstall").out
    assert not unit.exists()
