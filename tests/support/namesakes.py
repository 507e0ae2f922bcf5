"""Three servers: `seen`, `hidden`, which offers the same names, and `apart`, which offers others."""

from __future__ import annotations

from typing import Final

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

NEVER: Final = {"taskhub/task": "never"}


def _server(name: str, *tools: str, prompts: tuple[str, ...], scheme: str) -> MCPServer:
    made = MCPServer(name, version="1.0.0", log_level="WARNING")

    def says() -> str:
        return f"said by {name}"

    def about(what: str) -> str:
        return f"{name} about {what}"

    for tool in tools:
        made.tool(name=tool, annotations=ToolAnnotations(read_only_hint=True), meta=NEVER, structured_output=False)(
            says
        )
    for prompt in prompts:
        made.prompt(name=prompt)(says)
    made.resource(f"{scheme}://one", name="one")(says)
    made.resource(f"{scheme}://about/{{what}}", name="about")(about)
    return made


seen: Final = _server("seen", "look", "peer", prompts=("tell", "say"), scheme="sake")
hidden: Final = _server("hidden", "look", "gaze", prompts=("tell", "whisper"), scheme="sake")
hidden.resource("sake://about/secrets", name="secrets")(lambda: "secrets of hidden")
apart: Final = _server("apart", "stare", prompts=("shout",), scheme="other")
