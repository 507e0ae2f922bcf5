"""CrewAI: the tools of an MCPServerAdapter, run as a crew's agent would.

python tests/clients/agents/crewai_client.py URL TOKEN SECONDS
"""

from __future__ import annotations

import asyncio
import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["OTEL_SDK_DISABLED"] = "true"

from crewai_tools import MCPServerAdapter
from model import Arguments, script, steps


async def main(url: str, token: str, seconds: float) -> None:
    params = {"url": url, "transport": "streamable-http", "headers": {"Authorization": f"Bearer {token}"}}
    with MCPServerAdapter(params) as found:
        tools = {tool.name: tool for tool in found}

        async def call(tool: str, arguments: Arguments) -> str:
            return str(await asyncio.to_thread(tools[tool].run, **arguments))

        await steps("crewai", tools, call, seconds=seconds)


script("CrewAI", main)
