"""MCP servers of Gemini CLI: in `settings.json`, beside the hooks."""

from __future__ import annotations

from holdfast.agents.gemini.install import INSTALL
from holdfast.agents.install.mcp_config import JsonMcpConfig

MCP = JsonMcpConfig("gemini", lambda environment: INSTALL.path(environment, project=False), INSTALL.project_file, {})
