"""A tool whose calls are tasks, and that says to whom it was sent: a server behind a hub that is a server itself."""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer

server: MCPServer[Any] = MCPServer("greeter")


@server.tool(meta={"taskhub/task": "always"}, structured_output=False)
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"
