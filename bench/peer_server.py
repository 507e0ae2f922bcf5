"""The peer under test: FastMCP 4 with the tasks extension, Docket on Redis.

An ASGI application for `uvicorn peer_server:app`; everything that varies comes from
the environment:

  PEER_REDIS_URL     the Docket backend (required)
  PEER_CONCURRENCY   10: tasks that this process's worker runs at a time
  PEER_TOKEN         require this bearer token when set
  PEER_JSON          0: answer text/event-stream; 1: application/json
  PEER_POLL_MS       1000: the advertised pollIntervalMs

FastMCP starts a Docket worker in every process that serves the application, and no
setting switches it off. With PEER_CONCURRENCY=0 that worker finds no free slot and
never takes a task, so one web process with 0 beside one
`python -m fastmcp_tasks.worker_cli worker peer_server.py` with the default is
exactly one web and one worker process.
"""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta

from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

token = os.environ.get("PEER_TOKEN")
mcp = FastMCP(
    "bench-peer",
    auth=StaticTokenVerifier({token: {"client_id": "bench", "scopes": []}}) if token else None,
)
mcp.add_extension(
    TasksExtension(
        url=os.environ["PEER_REDIS_URL"],
        concurrency=int(os.environ.get("PEER_CONCURRENCY", "10")),
    )
)

always_a_task = TaskConfig(
    mode="required",
    poll_interval=timedelta(milliseconds=int(os.environ.get("PEER_POLL_MS", "1000"))),
)


@mcp.tool(task=always_a_task)
async def echo(text: str) -> str:
    """Return the text unchanged."""
    return text


@mcp.tool(task=always_a_task)
async def sleep(seconds: float) -> str:
    """Sleep that many seconds, then say so."""
    await asyncio.sleep(seconds)
    return f"slept {seconds}"


app = mcp.http_app(
    path="/mcp",
    stateless_http=True,
    json_response=os.environ.get("PEER_JSON") == "1",
)
