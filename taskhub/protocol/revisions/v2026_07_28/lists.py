"""The lists: tools, prompts, resources, templates, and how long they may be kept (B26-44..47)."""

from __future__ import annotations

from typing import Any

from taskhub.core.records import OfferRecord, ToolRecord
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.plain.callers import caller_of
from taskhub.protocol.plain.interim import relaxed
from taskhub.protocol.plain.tools import HubTool, with_hub_tools
from taskhub.protocol.revisions.v2026_07_28.tasks import declares_tasks
from taskhub.protocol.stateless.request import Request
from taskhub.protocol.stateless.shapes import head, wire_tool
from taskhub.protocol.wire.lists import described, listing

TTL_MS = 60_000


def wire_prompt(prompt: OfferRecord, version: str) -> dict[str, Any]:
    """A prompt as its server describes it, under the name we expose."""
    return described(prompt)


def wire_resource(resource: OfferRecord, version: str) -> dict[str, Any]:
    """A resource or a template, verbatim."""
    return resource.definition


def _head(hub: Hub) -> dict[str, Any]:
    return {**head(hub), "ttlMs": TTL_MS, "cacheScope": "private"}


def _plain_tool(tool: ToolRecord | HubTool, version: str) -> dict[str, Any]:
    """A tool for a client without tasks: a hub tool, or any other with an `outputSchema` that accepts an interim
    result."""
    if isinstance(tool, HubTool):
        return tool.definition
    return relaxed(wire_tool(tool, version))


_all_tools = listing("tools/list", "tools", lambda found: found.tools, wire_tool, _head)
_plain_tools = listing("tools/list plain", "tools", lambda found: found.plain_tools, _plain_tool, _head)
_tools_and_ours = listing("tools/list ours", "tools", with_hub_tools, _plain_tool, _head)


async def list_tools(hub: Hub, request: Request) -> Reply:
    """The tools that this request's client can call. Tools that require a task are among them only if the request
    declares the tasks extension; the hub's own tools only if it does not."""
    if declares_tasks(request.capabilities):
        return await _all_tools(hub, request)
    caller = await caller_of(hub, request.incoming, request.client_info)
    return await (_tools_and_ours if caller.settings.tools else _plain_tools)(hub, request)


list_prompts = listing("prompts/list", "prompts", lambda found: found.prompts, wire_prompt, _head)
list_resources = listing("resources/list", "resources", lambda found: found.resources, wire_resource, _head)
list_templates = listing(
    "resources/templates/list", "resourceTemplates", lambda found: found.templates, wire_resource, _head
)
