"""Strands Agents: an MCPClient, called as an agent's tool would.

python tests/clients/agents/strands_client.py URL TOKEN SECONDS
"""

from __future__ import annotations

from typing import Any

from mcp_types import ElicitResult
from model import ANSWERS, Arguments, script, steps
from strands.tools.mcp import MCPClient


async def elicit(context: Any, params: Any) -> ElicitResult:
    asked = params.requested_schema["properties"]
    return ElicitResult(action="accept", content={key: ANSWERS[key] for key in asked})


async def main(url: str, token: str, seconds: float) -> None:
    with MCPClient(url=url, headers={"Authorization": f"Bearer {token}"}, elicitation_callback=elicit) as client:
        tools = {tool.tool_name: tool for tool in client.list_tools_sync()}

        async def call(tool: str, arguments: Arguments) -> str:
            use = {"toolUseId": "1", "name": tool, "input": arguments}
            found = [event async for event in tools[tool].stream(use, {})]
            return "\n".join(block["text"] for block in found[-1]["tool_result"]["content"] if "text" in block)

        await steps("strands", tools, call, seconds=seconds, elicits=True)


script("Strands Agents", main)
