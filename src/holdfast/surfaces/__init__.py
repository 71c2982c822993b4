"""REST, command line, MCP and web page. They call only operations and ingress."""
