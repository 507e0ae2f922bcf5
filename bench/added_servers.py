"""The server of `bench/added.py`, and a proxy of it, both FastMCP.

What it is, comes from the environment:

  ADDED_TOOL      the name of its one tool, which returns its text (required)
  ADDED_TARGET    unset: the server itself; an http URL: a proxy of the server there;
                  `stdio`: a proxy of the command that this file is

`uvicorn added_servers:app` serves it over HTTP, `python added_servers.py` on standard
input and output.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

tool = os.environ["ADDED_TOOL"]
target = os.environ.get("ADDED_TARGET", "")


def echo(text: str) -> str:
    """Return the text unchanged."""
    return text


if not target:
    mcp = FastMCP("added")
    mcp.tool(echo, name=tool)
elif target == "stdio":
    command = StdioTransport(sys.executable, [str(Path(__file__).resolve())], env={"ADDED_TOOL": tool})
    mcp = create_proxy(command, name="proxy")
else:
    mcp = create_proxy(target, name="proxy")

if __name__ == "__main__":
    mcp.run(show_banner=False)
else:
    app = mcp.http_app(path="/mcp", stateless_http=True, json_response=True)
