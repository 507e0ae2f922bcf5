"""The public FastMCP 4 client with its tasks extension, unmodified, against a running TaskHub.

    python tests/clients/fastmcp_client.py URL TOKEN

Runs in an environment of its own (FastMCP pins other versions than we do); prints one line per
call and exits non-zero if anything differs from what a user would expect.
"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from fastmcp_tasks import call_tool_task


async def confirm(message, response_type, params, context):
    """The client's own person says yes."""
    print("asked:", message)
    return ElicitResult(action="accept", content={"confirm": True})


async def main(url: str, token: str) -> None:
    """Call, wait, answer, cancel."""
    transport = StreamableHttpTransport(url, headers={"Authorization": f"Bearer {token}"})
    async with Client(transport, elicitation_handler=confirm) as client:
        names = {tool.name for tool in await client.list_tools()}
        assert {"countdown", "word_count", "deploy"} <= names, names

        counted = await client.call_tool("word_count", {"text": "a b a"})
        assert counted.structured_content["words"] == 3, counted
        print("word_count:", counted.structured_content["words"])

        done = await client.call_tool("countdown", {"seconds": 1, "steps": 2})
        assert done.structured_content["steps"] == 2, done
        print("countdown:", done.structured_content)

        deployed = await client.call_tool("deploy", {"service": "web", "version": "1.4.2", "environment": "staging"})
        assert not deployed.is_error, deployed
        print("deploy:", deployed.content[0].text[:80])

        task = await call_tool_task(client, "countdown", {"seconds": 60, "steps": 60})
        await task.cancel()
        try:
            await asyncio.wait_for(task.result(), 10)
        except ToolError as error:
            print("cancelled:", error)
        else:
            raise AssertionError("a cancelled task gave a result")

        try:
            await client.call_tool("fail", {"kind": "tool_error"})
        except ToolError as error:
            print("tool error:", error)
        else:
            raise AssertionError("a failing tool did not fail")
    print("FastMCP: all as expected")


asyncio.run(main(*sys.argv[1:3]))
