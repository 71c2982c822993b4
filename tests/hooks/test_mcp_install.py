"""`holdfast mcp install`: one entry in each CLI's file, a token of its own, and everything undone to the byte."""

from __future__ import annotations

import json
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon, Said, run_cli
from holdfast.agents.install import jsonc
from installing import snapshot
from mcp_clients import over_stdio

FILES = {"claude": ".claude.json", "codex": ".codex/config.toml", "gemini": ".gemini/settings.json"}
CONTENTS = {
    "claude": ("{}", '{\n  "numStartups": 3,\n  "mcpServers": {"other": {"command": "x"}}\n}\n', '{"a":1}'),
    "codex": ("", 'model = "gpt-5"\n\n[mcp_servers.other]\ncommand = "x" # mine\n', "# only a comment"),
    "gemini": ("{}", '{\r\n\t// mine\r\n\t"theme": "dark",\r\n}\r\n', '{"mcpServers": {}}'),
}


class Shell:
    """A home of a person with three CLIs."""

    def __init__(self, folder: Path) -> None:
        self.home, self.state = folder / "you", folder / "state"
        for name in (".claude", ".codex", ".gemini"):
            (self.home / name).mkdir(parents=True)
        self.env = {
            "HOME": str(self.home), "PATH": str(folder / "bin"), "XDG_CONFIG_HOME": str(self.home / ".config"),
            "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "GEMINI_CLI_HOME": "",
        }  # fmt: skip

    def __call__(self, *arguments: str) -> Said:
        return run_cli(self.state, *arguments, env=self.env, cwd=self.home)

    def entry(self, name: str) -> Mapping[str, Any]:
        """The entry of the server in the file of a CLI."""
        text = (self.home / FILES[name]).read_text()
        if name == "codex":
            return tomllib.loads(text)["mcp_servers"]["holdfast"]
        return jsonc.parse(text).value["mcpServers"]["holdfast"]

    def token(self, name: str) -> tuple[str, str, str]:
        path = self.state / f"mcp-{name}.token"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        text, id, scope = path.read_text().split()
        return text, id, scope

    def active(self) -> dict[str, str]:
        items = self("token", "list", "--json").json["items"]
        return {item["name"]: item["scope"] for item in items if item["revoked_at"] is None}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize("kind", range(3))
def test_install_and_uninstall_leave_the_files_as_they_were(shell: Shell, kind: int) -> None:
    for name, contents in CONTENTS.items():
        (shell.home / FILES[name]).write_bytes(contents[kind].encode())
    before = snapshot(shell.home)
    dry = shell("mcp", "install", "--dry-run")
    assert (dry.code, "Nothing was changed" in dry.out) == (0, True)
    assert snapshot(shell.home) == before
    assert not shell.state.exists()

    said = shell("mcp", "install")
    assert said.code == 0, said
    for name in FILES:
        entry = shell.entry(name)
        assert entry["args"] == ["-m", "holdfast", "mcp", "--agent", name]
        assert entry["env"] == {"HOLDFAST_HOME": str(shell.state)}
        text, _, scope = shell.token(name)
        assert scope == "read"
        assert text not in (shell.home / FILES[name]).read_text()
        assert text not in said.out
    assert shell("mcp", "install").out.count("already installed") == 3
    assert shell.active() == {f"mcp-{name}": "read" for name in FILES}

    assert shell("mcp", "uninstall").code == 0
    assert snapshot(shell.home) == before
    assert shell.active() == {}
    assert shell("mcp", "uninstall").out == "The MCP server was not installed.\n"


def test_a_file_that_did_not_exist_is_removed_again(shell: Shell) -> None:
    before = snapshot(shell.home)
    assert shell("mcp", "install", "--agent", "claude").code == 0
    assert shell.entry("claude")["type"] == "stdio"
    shell("mcp", "uninstall")
    assert snapshot(shell.home) == before


@pytest.mark.parametrize("order", [("hooks", "mcp"), ("mcp", "hooks")])
def test_hooks_and_the_server_can_be_removed_in_any_order(shell: Shell, order: tuple[str, str]) -> None:
    (shell.home / FILES["gemini"]).write_text('{"theme": "dark"}')
    before = (shell.home / FILES["gemini"]).read_text()
    assert shell("hooks", "install", "--agent", "gemini").code == 0
    assert shell("mcp", "install", "--agent", "gemini").code == 0
    for name in order:
        assert shell(name, "uninstall", "--agent", "gemini").code == 0
    assert json.loads((shell.home / FILES["gemini"]).read_text()) == json.loads(before)


@pytest.mark.parametrize("name", FILES)
def test_changes_of_others_after_install_survive(shell: Shell, name: str) -> None:
    path = shell.home / FILES[name]
    path.write_text(CONTENTS[name][1].replace("// mine", "").replace(",\r\n}", "\r\n}"))
    shell("mcp", "install", "--agent", name)
    text = path.read_text()
    changed = text + "\n[features]\nx = true\n" if name == "codex" else text.rstrip()[:-1] + ', "new": 1}'
    path.write_text(changed)
    assert shell("mcp", "uninstall", "--agent", name).code == 0
    left = path.read_text()
    assert "--agent" not in left
    assert ("features" if name == "codex" else '"new": 1') in left


@pytest.mark.parametrize("name", FILES)
def test_a_server_of_the_same_name_that_is_not_ours_is_kept(shell: Shell, name: str) -> None:
    text = (
        '[mcp_servers.holdfast]\ncommand = "mine"\n'
        if name == "codex"
        else '{"mcpServers": {"holdfast": {"command": "mine"}}}'
    )
    (shell.home / FILES[name]).write_text(text)
    said = shell("mcp", "install", "--agent", name)
    assert said.code == 1
    assert "was not added by Holdfast" in said.out
    assert shell("mcp", "uninstall", "--agent", name).code == 0
    assert (shell.home / FILES[name]).read_text() == text


def test_a_cli_without_support_and_an_unknown_scope_are_refused(shell: Shell) -> None:
    assert shell("mcp", "install", "--agent", "cursor").code == 2
    said = shell("mcp", "install", "--allow", "king")
    assert (said.code, "scope 'king' is unknown" in said.err) == (2, True)
    assert not shell.state.exists()


async def test_the_installed_command_serves_with_its_own_token(shell: Shell) -> None:
    with Daemon(shell.state, env=shell.env) as daemon:
        shell("mcp", "install", "--agent", "claude")
        first = shell.token("claude")
        async with over_stdio(daemon, "--agent", "claude") as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert "dlq_inspect" in names
            assert "dlq_reprocess" not in names
        assert (
            "Scopes: operate,message." in shell("mcp", "install", "--agent", "claude", "--allow", "operate,message").out
        )
        assert shell.active() == {"mcp-claude": "operate,message"}
        async with over_stdio(daemon, "--agent", "claude") as client:
            assert "dlq_reprocess" in {tool.name for tool in (await client.list_tools()).tools}
        daemon.wait_for("/api/status", lambda answer: daemon.request("GET", "/api/status", token=first[0])[0] == 401)
        shell("mcp", "uninstall")
        said = daemon.cli("mcp", "--agent", "claude", input='{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        assert "run: holdfast mcp install" in said.json["error"]["message"]
