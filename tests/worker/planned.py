"""A server whose tool can be previewed, by another tool or by a dry run."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any, Final

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import InputRequiredResult, ToolAnnotations

from tests.upstream.servers import HELD_SECONDS, form


@dataclass
class Plans:
    """What the previews say, and what has been called."""

    text: str = "1 pod would be replaced"
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    opened: threading.Event = field(default_factory=threading.Event)
    """Lets `plan_slowly` go on."""

    def reset(self) -> None:
        self.opened.set()
        self.text, self.calls, self.opened = Plans.text, [], threading.Event()

    def of(self, tool: str) -> list[dict[str, Any]]:
        """The arguments of the calls of this tool."""
        return [given for name, given in self.calls if name == tool]


plans: Final = Plans()
READS: Final = ToolAnnotations(read_only_hint=True)
planned: Final[MCPServer[Any]] = MCPServer("planned", log_level="CRITICAL")


@planned.tool(structured_output=False)
def deploy(service: str, dry_run: bool = False) -> str:
    """Deploy a service, or say what that would do."""
    plans.calls.append(("deploy", {"service": service, "dry_run": dry_run}))
    return plans.text if dry_run else "deployed"


@planned.tool(structured_output=False)
def drop(service: str) -> str:
    """Without a dry run."""
    plans.calls.append(("drop", {"service": service}))
    return "dropped"


@planned.tool(structured_output=False, annotations=READS)
def plan(service: str) -> str:
    """Say what `deploy` would do."""
    plans.calls.append(("plan", {"service": service}))
    return plans.text


@planned.tool(structured_output=False)
def plan_and_write() -> str:
    """Does not say that it only reads."""
    plans.calls.append(("plan_and_write", {}))
    return "written"


@planned.tool(structured_output=False, annotations=READS)
async def plan_slowly() -> str:
    """Answer when the test says so."""
    plans.calls.append(("plan_slowly", {}))
    await asyncio.to_thread(plans.opened.wait, HELD_SECONDS)
    return plans.text


@planned.tool(structured_output=False, annotations=READS)
def plan_wrongly() -> str:
    """Report an error."""
    raise ToolError("no such service")


@planned.tool(structured_output=False, annotations=READS)
def plan_nothing() -> str:
    """Fail by the protocol."""
    raise MCPError(code=-32001, message="no such luck")


@planned.tool(structured_output=False, annotations=READS)
def plan_by_asking(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    """Ask what it should do."""
    return InputRequiredResult(input_requests={"word": form("Which one?", {"word": {"type": "string"}})})
