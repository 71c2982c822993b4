"""The status of each CLI as its files show it; for Codex also whether it trusts the hooks."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from holdfast.agents.codex.trust import trust_hash
from holdfast.agents.install.environment import Environment
from holdfast.agents.install.idle_hooks import IdleHooks
from holdfast.home import Home
from holdfast.testing.clock import ManualClock
from installing import AGENTS, make_environment, make_installer, only


def state(environment: Environment, name: str, project: bool = False) -> tuple[str, str | None]:
    found = only(make_installer(environment, project).status(), name)
    return found.state, found.detail


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "codex"])
def test_not_found_then_installed_then_not_installed(tmp_path: Path, name: str) -> None:
    environment = make_environment(tmp_path)
    assert state(environment, name) == ("not found", None)
    make_installer(environment).install([name])
    assert state(environment, name) == ("installed", None)
    make_installer(environment).uninstall([name])
    assert state(environment, name) == ("not found", None)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / name
    program.write_text("")
    program.chmod(0o755)
    assert state(environment, name) == ("not installed", None)


@pytest.mark.parametrize("mine", ['{\n  // mine\n  "hooks": {}\n}\n', '{"hooks": {},}\n'])
@pytest.mark.parametrize(("name", "file"), [("claude", ".claude/settings.json"), ("codex", ".codex/hooks.json")])
def test_a_file_that_its_own_cli_ignores_is_reported(tmp_path: Path, name: str, file: str, mine: str) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / file
    path.parent.mkdir(parents=True)
    path.write_text(mine)
    assert state(environment, name)[0] == "not installed"
    notes = only(make_installer(environment).install([name]), name).notes
    found, detail = state(environment, name)
    assert (found, "comments or trailing commas" in (detail or "")) == ("unreadable", True)
    assert any("comments or trailing commas" in note for note in notes)
    make_installer(environment).uninstall([name])
    assert path.read_text() == mine


@pytest.mark.parametrize(
    ("name", "file", "setting", "said"),
    [
        ("claude", ".claude/settings.json", {"disableAllHooks": True}, "disableAllHooks"),
        ("gemini", ".gemini/settings.json", {"hooksConfig": {"enabled": False}}, "hooksConfig.enabled"),
        ("gemini", ".gemini/settings.json", {"hooksConfig": {"disabled": ["holdfast"]}}, "hooksConfig.disabled"),
        ("qwen", ".qwen/settings.json", {"disableAllHooks": True}, "disableAllHooks"),
        ("copilot", ".copilot/hooks/holdfast.json", {"disableAllHooks": True}, "disableAllHooks"),
    ],
)
def test_a_switch_that_is_off_is_named(tmp_path: Path, name: str, file: str, setting: dict, said: str) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / file
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(setting))
    answer = only(make_installer(environment).install([name]), name)
    found, detail = state(environment, name)
    assert found == "disabled by setting"
    assert said in (detail or "")
    assert any(said in note for note in answer.notes)


def test_a_missing_event_and_an_unreadable_file_are_reported(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    make_installer(environment).install(["claude"])
    path = environment.home / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    del settings["hooks"]["Stop"]
    path.write_text(json.dumps(settings))
    assert state(environment, "claude") == ("installed", "hooks missing for Stop; run: holdfast hooks install")
    path.write_text("{")
    assert state(environment, "claude")[0] == "unreadable"


def test_an_interpreter_that_is_gone_is_stale(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    make_installer(environment).install(["claude"])
    path = environment.home / ".claude" / "settings.json"
    path.write_text(path.read_text().replace(environment.python, "/gone/python"))
    assert state(environment, "claude") == ("stale path", "/gone/python does not exist; run: holdfast hooks install")


def trust(environment: Environment, path: Path, but: str | None = None) -> None:
    """What Codex writes when the user trusts the hooks."""
    config = environment.home / ".codex" / "config.toml"
    raw = path.read_text()
    hooks = (json.loads(raw) if path.suffix == ".json" else tomllib.loads(raw))["hooks"]
    lines = []
    for event, groups in hooks.items():
        for at, group in enumerate(groups if isinstance(groups, list) else []):
            for place, handler in enumerate(group["hooks"]):
                name = "".join(f"_{c.lower()}" if c.isupper() else c for c in event).lstrip("_")
                hashed = trust_hash(event, group.get("matcher"), handler) if event != but else "sha256:00"
                lines.append(f'[hooks.state."{path}:{name}:{at}:{place}"]\ntrusted_hash = "{hashed}"\n')
    config.write_text(config.read_text() + "\n" + "\n".join(lines))


def test_codex_hooks_are_untrusted_until_the_user_trusts_them(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    answer = only(make_installer(environment).install(["codex"]), "codex")
    found, detail = state(environment, "codex")
    assert found == "installed but not trusted"
    assert "/hooks" in (detail or "")
    assert answer.notes == [detail]
    path = environment.home / ".codex" / "hooks.json"
    assert "trusted_hash" not in (environment.home / ".codex" / "config.toml").read_text()
    trust(environment, path)
    assert state(environment, "codex") == ("installed", None)
    moved = make_environment(tmp_path, installation="two")
    make_installer(moved).install(["codex"])
    assert state(moved, "codex")[0] == "installed but not trusted"


def test_one_hook_that_is_not_trusted_is_named(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    make_installer(environment).install(["codex"])
    trust(environment, environment.home / ".codex" / "hooks.json", but="Stop")
    found, detail = state(environment, "codex")
    assert found == "installed but not trusted"
    assert "trust Stop" in (detail or "")
    assert "UserPromptSubmit" not in (detail or "")


def test_codex_with_its_hooks_switched_off(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    config = environment.home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text("[features]\nhooks = false\n")
    make_installer(environment).install(["codex"])
    assert state(environment, "codex")[0] == "disabled by setting"


def test_with_hooks_in_config_toml_ours_are_added_there(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    config = environment.home / ".codex" / "config.toml"
    config.parent.mkdir()
    before = '# mine\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "say" # aloud\n'
    config.write_text(before)
    make_installer(environment).install(["codex"])
    assert not config.with_name("hooks.json").exists()
    assert [group["hooks"][0]["command"] for group in tomllib.loads(config.read_text())["hooks"]["Stop"]] == [
        "say", environment.command_line("codex"),
    ]  # fmt: skip
    assert state(environment, "codex")[0] == "installed but not trusted"
    trust(environment, config)
    assert state(environment, "codex")[0] == "installed"
    make_installer(environment).uninstall(["codex"])
    assert config.read_text().startswith(before)
    assert environment.receiver not in config.read_text()


def test_a_foreign_notify_stays_and_is_mentioned(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    config = environment.home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text('notify = ["terminal-notifier"]\n')
    answer = only(make_installer(environment).install(["codex"]), "codex")
    assert config.read_text() == 'notify = ["terminal-notifier"]\n'
    assert [file.path for file in answer.files] == [str(config.with_name("hooks.json"))]
    assert any("starts another program" in note for note in answer.notes)


def test_with_an_unreadable_config_codex_is_not_changed(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    config = environment.home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text("model = ")
    answer = only(make_installer(environment).install(["codex"]), "codex")
    assert str(config) in answer.error
    assert not config.with_name("hooks.json").exists()
    assert state(environment, "codex")[0] == "unreadable"


def test_the_hash_is_the_one_codex_computes() -> None:
    """Of {"event_name":"session_start","hooks":[{"async":false,"command":"x","timeout":10,"type":"command"}]}."""
    handler = {"type": "command", "command": "x", "timeout": 10}
    assert trust_hash("SessionStart", None, handler) == (
        "sha256:6082c2796f7800926122a30c013c388ff274c127f3a45996af3eda1887df1c04"
    )
    assert trust_hash("SessionStart", "", handler) != trust_hash("SessionStart", None, handler)
    assert trust_hash("Stop", "", handler) == trust_hash("Stop", None, handler)
    assert trust_hash("SessionEnd", None, handler) == trust_hash("SessionEnd", None, {**handler, "timeout": 3})


def test_the_daemon_warns_of_hooks_that_their_agent_does_not_run(tmp_path: Path) -> None:
    environment, clock = make_environment(tmp_path), ManualClock()
    idle = IdleHooks(Home(environment.home / "state"), clock, lambda: environment)
    assert idle.warnings() == []
    (environment.home / ".codex").mkdir()
    make_installer(environment).install(["codex"])
    assert idle.warnings() == [], "read at most once a minute"
    clock.advance(61)
    (warning,) = idle.warnings()
    assert warning.startswith("the hooks of codex are installed but not trusted: start codex, type /hooks")
