"""MCP servers of Codex: tables `[mcp_servers.NAME]` in `config.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.agents.codex import config_toml
from holdfast.agents.codex.install import HOOKS_JSON
from holdfast.agents.install.environment import Environment
from holdfast.agents.install.files import BOM, Refused, decode
from holdfast.agents.install.hook_config import HookFile
from holdfast.agents.install.mcp_config import SERVER, check_foreign, is_own_server, server_entry
from holdfast.domain.json_value import JsonObject, object_in

TABLE = ("mcp_servers", SERVER)


@dataclass(frozen=True, slots=True)
class CodexMcpConfig:
    def file(self, environment: Environment, project: bool) -> HookFile:
        path = HOOKS_JSON.path(environment, project).with_name("config.toml")
        entry = server_entry(environment, "codex")
        return HookFile(path, lambda raw, _: _edit(path, raw, entry), lambda raw: _edit(path, raw, None))


def _edit(path: Path, raw: bytes | None, entry: JsonObject | None) -> bytes | None:
    text = decode(path, raw)
    body = text.removeprefix(BOM)
    try:
        servers = object_in(config_toml.load(body), TABLE[0])
        if entry is not None:
            check_foreign(servers)
        elif not is_own_server(servers.get(SERVER)):
            return raw
        changed = config_toml.set_table(body, TABLE, entry)
    except Refused as error:
        raise Refused(f"{path}: {error.message}; file not changed") from None
    return raw if changed == body else (text[: len(text) - len(body)] + changed).encode()


MCP = CodexMcpConfig()
