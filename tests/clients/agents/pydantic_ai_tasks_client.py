"""Pydantic AI where it speaks tasks: an MCPToolset with `prefer_tasks`, its default, called as an agent's run would.

On FastMCP 4 its extra `mcp-tasks` brings the tasks extension of 2026-07-28; on FastMCP 3 it makes tasks of 2025-11-25.
No model sees a task: the call returns when the task has ended. Nor does an agent ever cancel one: that is done here by
the handle that FastMCP has for it.

python tests/clients/agents/pydantic_ai_tasks_client.py URL TOKEN SECONDS
"""

from __future__ import annotations

import json
from typing import Any

from model import ANSWERS, Arguments, script, task_steps
from pydantic_ai import RunContext, RunUsage
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.test import TestModel

try:
    from fastmcp_tasks import call_tool_task
except ImportError:  # FastMCP 3
    call_tool_task = None


async def elicit(message: str, kind: Any, params: Any, context: Any) -> Arguments:
    asked = params.requestedSchema if call_tool_task is None else params.requested_schema
    return {key: ANSWERS[key] for key in asked["properties"]}


async def main(url: str, token: str, seconds: float) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with MCPToolset(url, headers=headers, elicitation_handler=elicit) as toolset:
        run = RunContext(deps=None, model=TestModel(), usage=RunUsage())

        async def call(tool: str, arguments: Arguments) -> str:
            tools = await toolset.get_tools(run)
            found = await toolset.call_tool(tool, arguments, run, tools[tool])
            return found if isinstance(found, str) else json.dumps(found)

        async def begin(tool: str, arguments: Arguments) -> Any:
            if call_tool_task is None:
                return await toolset.client.call_tool(tool, arguments, task=True)
            return await call_tool_task(toolset.client, tool, arguments)

        names = await toolset.get_tools(run)
        declares = call_tool_task is not None  # FastMCP 3 only asks for a task with each call
        await task_steps("pydantic-tasks", names, call, begin, seconds=seconds, declares=declares)


script("Pydantic AI with tasks", main)
