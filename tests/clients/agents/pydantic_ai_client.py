"""Pydantic AI: an MCPToolset, called as an agent's run would.

python tests/clients/agents/pydantic_ai_client.py URL TOKEN SECONDS
"""

from __future__ import annotations

import json
from typing import Any

from model import ANSWERS, Arguments, script, steps
from pydantic_ai import RunContext, RunUsage
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.test import TestModel


async def elicit(message: str, kind: Any, params: Any, context: Any) -> Arguments:
    return {key: ANSWERS[key] for key in params.requested_schema["properties"]}


async def main(url: str, token: str, seconds: float) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with MCPToolset(url, headers=headers, elicitation_handler=elicit) as toolset:
        run = RunContext(deps=None, model=TestModel(), usage=RunUsage())

        async def call(tool: str, arguments: Arguments) -> str:
            tools = await toolset.get_tools(run)
            found = await toolset.call_tool(tool, arguments, run, tools[tool])
            return found if isinstance(found, str) else json.dumps(found)

        await steps("pydantic", await toolset.get_tools(run), call, seconds=seconds, elicits=True)


script("Pydantic AI", main)
