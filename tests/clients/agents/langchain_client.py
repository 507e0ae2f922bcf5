"""langchain-mcp-adapters: the tools of a MultiServerMCPClient, which makes a session for each call.

python tests/clients/agents/langchain_client.py URL TOKEN SECONDS
"""

from __future__ import annotations

import json
from typing import Any

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import ElicitResult
from model import ANSWERS, Arguments, script, steps


async def elicit(context: Any, params: Any, *more: Any) -> ElicitResult:
    asked = params.requestedSchema["properties"]
    return ElicitResult(action="accept", content={key: ANSWERS[key] for key in asked})


async def main(url: str, token: str, seconds: float) -> None:
    connection = {"transport": "streamable_http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}
    client = MultiServerMCPClient({"hub": connection}, callbacks=Callbacks(on_elicitation=elicit))
    tools = {tool.name: tool for tool in await client.get_tools()}

    async def call(tool: str, arguments: Arguments) -> str:
        content = await tools[tool].ainvoke(arguments)
        if isinstance(content, str):
            return content
        return "\n".join(block["text"] if block.get("type") == "text" else json.dumps(block) for block in content)

    await steps("langchain", tools, call, seconds=seconds, elicits=True)


script("langchain-mcp-adapters", main)
