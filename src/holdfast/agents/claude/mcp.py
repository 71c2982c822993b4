"""MCP servers of Claude Code: the user's in `.claude.json` beside the config folder, a project's in `.mcp.json`."""

from __future__ import annotations

from pathlib import Path

from holdfast.agents.install.environment import Environment
from holdfast.agents.install.mcp_config import JsonMcpConfig


def _user_file(environment: Environment) -> Path:
    return environment.folder("CLAUDE_CONFIG_DIR", "") / ".claude.json"


MCP = JsonMcpConfig("claude", _user_file, ".mcp.json", {"type": "stdio"})
