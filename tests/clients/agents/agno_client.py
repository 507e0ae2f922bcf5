"""agno: the functions of MCPTools, with its default time-out of 10 s.

python tests/clients/agents/agno_client.py URL TOKEN SECONDS
"""

from __future__ import annotations

from agno.tools.mcp import MCPTools
from agno.tools.mcp.params import StreamableHTTPClientParams
from model import Arguments, script, steps


async def main(url: str, token: str, seconds: float) -> None:
    params = StreamableHTTPClientParams(url=url, headers={"Authorization": f"Bearer {token}"})
    async with MCPTools(server_params=params, transport="streamable-http") as tools:

        async def call(tool: str, arguments: Arguments) -> str:
            entrypoint = tools.functions[tool].entrypoint
            assert entrypoint is not None
            return str((await entrypoint(**arguments)).content)

        await steps("agno", tools.functions, call, seconds=seconds)


script("agno", main)
