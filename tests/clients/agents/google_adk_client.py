"""Google ADK: the tools of an McpToolset, with its default time-outs.

python tests/clients/agents/google_adk_client.py URL TOKEN SECONDS
"""

from __future__ import annotations

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.sessions import InMemorySessionService
from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from google.adk.tools.tool_context import ToolContext
from mcp_types import ElicitResult
from model import ANSWERS, Arguments, script, steps


async def elicit(context: Any, params: Any) -> ElicitResult:
    asked = params.requested_schema["properties"]
    return ElicitResult(action="accept", content={key: ANSWERS[key] for key in asked})


async def main(url: str, token: str, seconds: float) -> None:
    params = StreamableHTTPConnectionParams(url=url, headers={"Authorization": f"Bearer {token}"})
    toolset = McpToolset(connection_params=params, elicitation_callback=elicit)
    sessions = InMemorySessionService()
    context = InvocationContext(
        session_service=sessions,
        invocation_id="1",
        agent=LlmAgent(name="agent"),
        session=await sessions.create_session(app_name="app", user_id="user"),
    )
    tools = {tool.name: tool for tool in await toolset.get_tools()}

    async def call(tool: str, arguments: Arguments) -> str:
        found = await tools[tool].run_async(args=arguments, tool_context=ToolContext(context))
        if set(found) == {"error"}:
            return str(found["error"])
        return "\n".join(block["text"] for block in found["content"] if block["type"] == "text")

    try:
        await steps("google-adk", tools, call, seconds=seconds, elicits=True)
    finally:
        await toolset.close()


script("Google ADK", main)
