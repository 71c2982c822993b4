"""The MCP server: operator verbs as tools for agents."""
