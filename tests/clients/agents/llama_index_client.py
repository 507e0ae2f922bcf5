"""llama-index: the function tools of McpToolSpec, with the client's default time-out of 30 s. A session for each call.

python tests/clients/agents/llama_index_client.py URL TOKEN SECONDS
"""

from __future__ import annotations

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from model import Arguments, script, steps


async def main(url: str, token: str, seconds: float) -> None:
    client = BasicMCPClient(url, headers={"Authorization": f"Bearer {token}"})
    tools = {tool.metadata.name: tool for tool in await McpToolSpec(client).to_tool_list_async()}

    async def call(tool: str, arguments: Arguments) -> str:
        output = await tools[tool].acall(**arguments)
        result = output.raw_output
        return "\n".join(block.text for block in result.content if block.type == "text")

    await steps("llama-index", tools, call, seconds=seconds)


script("llama-index-tools-mcp", main)
