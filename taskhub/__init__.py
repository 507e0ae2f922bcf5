"""TaskHub: a hub in front of MCP servers that turns each tool call into a durable task.

One package a room; imports point down, in the order of docs/dev/architecture.md.
"""
