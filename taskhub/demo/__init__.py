"""The demo server: an ordinary MCP server that knows the SDK and nothing of TaskHub."""
