"""The resources and the prompt of the demo server: a page about itself, text files, a prompt for a review."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp_types import (
    Annotations,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from pydantic import Field

MAX_TEXT_BYTES: Final = 256 * 1024
SUFFIXES: Final = frozenset({".md", ".rst", ".txt"})
FILES: Final = "demo://files/{+path}"
ENVIRONMENTS: Final = ("staging", "production")
MOST_SUGGESTED: Final = 20

README: Final = """\
# The demo server

An ordinary MCP server behind TaskHub: every call of one of its tools is a task.

- `word_count` and `hash_files` do real work, `hash_files` with progress for each file.
- `countdown` takes as long as you like, and can be cancelled.
- `deploy` asks before it goes on; for production, people approve it first.
- `survey`, `summarize` and `visit` ask for a form, for your model's help and for a visit to a page.
- `fail` fails, in the way you choose.

`demo://files/{path}` reads a text file of the directory this server may see. `review_deploy` is a prompt that has a
deployment looked at before anybody runs it.
"""


def register(
    server: MCPServer[Any],
    allowed_path: Callable[[str], Path],
    first_files: Callable[[Path, int], Iterator[Path]],
) -> None:
    """Add the resources and the prompt to the server. `allowed_path(path)` returns a path that clients may see, or
    raises `ToolError`; `first_files(directory, limit)` lists files."""

    @server.resource(
        "demo://readme",
        name="readme",
        title="About this demo",
        description="What the tools of this server show.",
        mime_type="text/markdown",
        annotations=Annotations(audience=["user", "assistant"], priority=0.8),
    )
    def readme() -> str:
        return README

    @server.resource(
        FILES,
        name="file",
        title="Text file",
        description="A .md, .rst or .txt file of the directory this server may see, up to 256 KiB.",
        mime_type="text/plain",
    )
    def file(path: str) -> str:
        found = _text_file(path, allowed_path)
        if found is None:
            # The same error for files that are outside, missing or hidden: a difference would tell which files exist.
            raise ResourceNotFoundError(f"{path!r} is no text file this server may show")
        return found.read_text(encoding="utf-8", errors="replace")

    @server.prompt(title="Review a deployment")
    def review_deploy(
        service: Annotated[str, Field(description="The service to deploy.")],
        version: Annotated[str, Field(description="The version that is to run.")],
        environment: Annotated[str, Field(description="staging or production")] = "production",
    ) -> str:
        """Have a deployment thought through before the deploy tool is called."""
        return (
            f"We are about to deploy {service} {version} to {environment}. Before calling the deploy tool, list what"
            " could go wrong, how we would notice within five minutes, and how to go back. End with a clear yes or no."
        )

    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        _context: CompletionContext | None,
    ) -> Completion | None:
        if isinstance(ref, PromptReference):
            values = list(ENVIRONMENTS) if (ref.name, argument.name) == ("review_deploy", "environment") else []
        else:
            values = _text_files(allowed_path, first_files) if ref.uri == FILES else []
        fitting = [value for value in values if value.startswith(argument.value)]
        return Completion(values=fitting[:MOST_SUGGESTED], total=len(fitting), has_more=len(fitting) > MOST_SUGGESTED)

    # The SDK's decorator has no types.
    server.completion()(complete)  # type: ignore[no-untyped-call]


def _text_file(path: str, allowed_path: Callable[[str], Path]) -> Path | None:
    """The path of a text file that may be shown; `None` if it is hidden, because secrets are often in hidden files, too
    large, or no text file."""
    try:
        found = allowed_path(path)
    except ToolError:
        return None
    root = allowed_path(".")
    if any(part.startswith(".") for part in found.relative_to(root).parts) or found.suffix.lower() not in SUFFIXES:
        return None
    return found if found.is_file() and found.stat().st_size <= MAX_TEXT_BYTES else None


def _text_files(allowed_path: Callable[[str], Path], first_files: Callable[[Path, int], Iterator[Path]]) -> list[str]:
    root = allowed_path(".")
    names = (file.relative_to(root).as_posix() for file in first_files(root, 2_000))
    return [name for name in names if _text_file(name, allowed_path) is not None]
