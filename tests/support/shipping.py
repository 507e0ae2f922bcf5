"""A server whose tool does something and takes its time to say so: `shipping.py FILE` as a command, `shipping.py FILE
PORT` over HTTP. FILE has a line for each run that began; a run ends when there is a file FILE.go."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

LEDGER = Path(sys.argv[1])
server = MCPServer("shipping")


@server.tool(structured_output=False)
async def ship(order: str) -> str:
    """Ship an order."""
    with LEDGER.open("a") as ledger:
        ledger.write(f"{order}\n")
    while not LEDGER.with_suffix(".go").exists():  # noqa: ASYNC110 - it is made by another process
        await asyncio.sleep(0.05)
    return f"shipped {order}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def order_state(order: str, verbose: bool = False) -> dict[str, str]:
    """Where an order is."""
    known = order in LEDGER.read_text().split()
    return {"order": order, "state": "shipped" if known else "open"}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run()
