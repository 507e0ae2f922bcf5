"""OpenAI Agents SDK, with its default time-out of 5 s.

python tests/clients/agents/openai_client.py URL TOKEN SECONDS
"""

from __future__ import annotations

from agents.mcp import MCPServerStreamableHttp
from model import Arguments, script, steps


async def main(url: str, token: str, seconds: float) -> None:
    server = MCPServerStreamableHttp({"url": url, "headers": {"Authorization": f"Bearer {token}"}})
    async with server:

        async def call(tool: str, arguments: Arguments) -> str:
            result = await server.call_tool(tool, arguments)
            return "\n".join(block.text for block in result.content if block.type == "text")

        names = [tool.name for tool in await server.list_tools()]
        await steps("openai", names, call, seconds=seconds)


script("OpenAI Agents SDK", main)
