"""Fixtures that only answer: content tools, prompts, resources, completion, progress and logs."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Final

from mcp.server import MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.tools import Tool
from mcp_types import (
    AudioContent,
    CallToolResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)
from pydantic import Field

from .fixture_common import NEVER, PNG, PNG_BASE64, WAV_BASE64, Ctx, ask, field, form

# What the suite calls "about 50 ms" between two messages of one call.
PAUSE_SECONDS: Final = 0.05

JSON_SCHEMA_2020_12: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _text_resource(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def _image() -> ImageContent:
    return ImageContent(data=PNG_BASE64, mime_type="image/png")


def test_simple_text() -> str:
    """Return one line of text."""
    return "This is a simple text response for testing."


def json_schema_2020_12_tool(
    name: str | None = None,
    address: dict[str, Any] | None = None,
    contactMethod: str | None = None,
    phone: str | None = None,
    email: str | None = None,
) -> str:
    """Take arguments described with JSON Schema 2020-12 keywords."""
    given = {"name": name, "address": address, "contactMethod": contactMethod, "phone": phone, "email": email}
    return f"Received: {json.dumps({key: value for key, value in given.items() if value is not None})}"


def first_tools() -> list[Tool]:
    """Tools handed to the server's constructor, which lists them before all decorated ones.

    `test_simple_text` must be the first tool of all, because a scenario calls whatever comes
    first with no arguments; and only here can a schema be set that no signature produces.
    """
    simple = Tool.from_function(test_simple_text, meta=NEVER, structured_output=False)
    schema = Tool.from_function(json_schema_2020_12_tool, meta=NEVER, structured_output=False)
    return [simple, schema.model_copy(update={"parameters": JSON_SCHEMA_2020_12})]


def register(server: MCPServer[Any]) -> None:
    _register_content(server)
    _register_messages(server)
    _register_resources(server)
    _register_prompts(server)


def _register_content(server: MCPServer[Any]) -> None:
    @server.tool(meta=NEVER)
    def test_image_content() -> list[ImageContent]:
        """Return one image."""
        return [_image()]

    @server.tool(meta=NEVER)
    def test_audio_content() -> list[AudioContent]:
        """Return one sound."""
        return [AudioContent(data=WAV_BASE64, mime_type="audio/wav")]

    @server.tool(meta=NEVER)
    def test_embedded_resource() -> list[EmbeddedResource]:
        """Return one embedded resource."""
        return [_text_resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]

    @server.tool(meta=NEVER)
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        """Return text, an image and a resource in one result."""
        data = json.dumps({"test": "data", "value": 123}, separators=(",", ":"))
        return [
            TextContent(text="Multiple content types test:"),
            _image(),
            _text_resource("test://mixed-content-resource", "application/json", data),
        ]

    @server.tool(meta=NEVER)
    def test_error_handling() -> CallToolResult:
        """Return a tool error."""
        # Not a ToolError: the SDK would put "Error executing tool ..." before the text.
        text = "This tool intentionally returns an error for testing"
        return CallToolResult(content=[TextContent(text=text)], is_error=True)

    @server.tool(meta=NEVER, structured_output=False)
    def test_custom_header(
        value: Annotated[
            str, Field(description="Also sent as a header.", json_schema_extra={"x-mcp-header": "Fixture-Value"})
        ],
    ) -> str:
        """Take an argument that is mirrored into a request header."""
        return f"Received: {value}"

    @server.tool(meta=NEVER, structured_output=False)
    def greet(name: str) -> str:
        """Greet somebody, never as a task."""
        return f"Hello, {name}!"


def _register_messages(server: MCPServer[Any]) -> None:
    @server.tool(meta=NEVER, structured_output=False)
    async def test_tool_with_progress(ctx: Ctx) -> str:
        """Report progress three times."""
        for progress in (0, 50, 100):
            await ctx.report_progress(progress, 100, f"Completed step {progress} of 100")
            await asyncio.sleep(PAUSE_SECONDS)
        return "Progress test completed"

    @server.tool(meta=NEVER, structured_output=False)
    async def test_tool_with_logging(ctx: Ctx) -> str:
        """Write three log messages."""
        for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.log("info", message)
            await asyncio.sleep(PAUSE_SECONDS)
        return "Logging test completed"

    @server.tool(meta=NEVER, structured_output=False)
    async def test_logging_tool(ctx: Ctx) -> str:
        """Try to log at several levels; without an opt-in nothing may arrive."""
        await ctx.log("info", "An informational message")
        await ctx.log("error", "An error message")
        return "Logged"

    @server.tool(meta=NEVER, structured_output=False)
    async def test_reconnection(ctx: Ctx) -> str:
        """Close the stream of this call before the result is there."""
        await ctx.close_sse_stream()
        # Long enough that the result cannot ride on the closing stream.
        await asyncio.sleep(2 * PAUSE_SECONDS)
        return "Reconnection test completed"


def _register_resources(server: MCPServer[Any]) -> None:
    @server.resource(
        "test://static-text", name="static-text", description="A static text resource", mime_type="text/plain"
    )
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource(
        "test://static-binary", name="static-binary", description="A static image resource", mime_type="image/png"
    )
    def static_binary() -> bytes:
        return PNG

    @server.resource(
        "test://watched-resource",
        name="watched-resource",
        description="A resource to subscribe to",
        mime_type="text/plain",
    )
    def watched_resource() -> str:
        return "This is the content of the watched resource."

    @server.resource(
        "test://template/{id}/data",
        name="template-data",
        description="Data for any id",
        mime_type="application/json",
    )
    def template_data(id: str) -> str:
        data = {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}
        return json.dumps(data, separators=(",", ":"))


def _register_prompts(server: MCPServer[Any]) -> None:
    @server.prompt()
    def test_simple_prompt() -> str:
        """A prompt without arguments."""
        return "This is a simple prompt for testing."

    @server.prompt()
    def test_prompt_with_arguments(
        arg1: Annotated[str, Field(description="The first argument")],
        arg2: Annotated[str, Field(description="The second argument")],
    ) -> str:
        """A prompt with two arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt()
    def test_prompt_with_embedded_resource(
        resourceUri: Annotated[str, Field(description="The resource to embed")],
    ) -> list[UserMessage]:
        """A prompt with an embedded resource."""
        resource = _text_resource(resourceUri, "text/plain", "Embedded resource content for testing.")
        return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """A prompt with an image."""
        return [UserMessage(_image()), UserMessage("Please analyze the image above.")]

    @server.prompt()
    def test_input_required_result_prompt(ctx: Ctx) -> str | InputRequiredResult:
        """A prompt that needs an answer first."""
        context = field(ctx, "user_context", "context", str)
        if context is None:
            question = form("What context should the prompt use?", {"context": {"type": "string"}})
            return ask(user_context=question)
        return f"Use this context: {context}"

    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        _context: CompletionContext | None,
    ) -> Completion | None:
        if not isinstance(ref, PromptReference) or ref.name != "test_prompt_with_arguments":
            return None
        values = [word for word in ("test", "testing", "tested", "paris", "park") if word.startswith(argument.value)]
        return Completion(values=values, total=len(values), has_more=False)

    # The SDK's decorator carries no types.
    server.completion()(complete)  # type: ignore[no-untyped-call]
