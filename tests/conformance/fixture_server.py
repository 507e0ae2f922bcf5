"""The server that the official conformance suite expects, as an ordinary MCP server.

It is run behind the hub like any other: `--server python:tests.conformance.fixture_server:server`.
"""

from __future__ import annotations

import os
from typing import Any, Final

from mcp.server import MCPServer
from mcp.server.request_state import RequestStateSecurity

from . import fixture_content, fixture_input, fixture_jobs

__all__ = ["server"]

# A fixed key: the SDK's default key lives in one process, and the next round of a call may run
# in another worker or after a restart. It protects nothing but test data.
_STATE_KEY: Final = os.environ.get("TASKHUB_FIXTURE_STATE_KEY", "conformance-fixture-request-state-key")

server: Final[MCPServer[Any]] = MCPServer(
    "taskhub-conformance-fixture",
    title="Conformance fixture",
    version="1.0.0",
    tools=fixture_content.first_tools(),
    request_state_security=RequestStateSecurity(keys=[_STATE_KEY], ttl=24 * 3600),
    log_level="WARNING",
)
for module in (fixture_content, fixture_input, fixture_jobs):
    module.register(server)


if __name__ == "__main__":
    server.run("stdio")
