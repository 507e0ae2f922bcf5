"""The demo server: an ordinary MCP server that imports the SDK and nothing of TaskHub."""
