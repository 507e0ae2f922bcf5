"""A command that tells what it was given: `python -m tests.upstream.telltale_server`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer

server: MCPServer[Any] = MCPServer("telltale", log_level="CRITICAL")


@server.tool(structured_output=False)
async def given(ctx: Context[Any, Any]) -> str:
    """Its directory and whether it has its key; the key itself is told wherever a tool can tell something."""
    key = os.environ.get("GIVEN_KEY", "")
    print("my key is", key, file=sys.stderr, flush=True)
    await ctx.info(f"my key is {key}")
    await ctx.report_progress(1, 2, f"my key is {key}")
    return f"{Path.cwd()} {len(key)}"


@server.tool(structured_output=False)
async def fail() -> str:
    """An error that quotes the key."""
    raise MCPError(-32001, f"refused {os.environ['GIVEN_KEY']}", {"key": os.environ["GIVEN_KEY"]})


if __name__ == "__main__":
    server.run("stdio")
