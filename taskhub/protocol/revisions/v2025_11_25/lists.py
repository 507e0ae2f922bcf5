"""The lists: tools, prompts, resources, templates (B25-27)."""

from __future__ import annotations

from typing import Any, Final

from taskhub.core.records import OfferRecord
from taskhub.core.versions import Version
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.plain.callers import caller_of
from taskhub.protocol.plain.tools import with_hub_tools
from taskhub.protocol.revisions.v2025_11_25 import mapping
from taskhub.protocol.revisions.v2025_11_25.wire import Request
from taskhub.protocol.wire.lists import described, listing

LATER: Final[dict[str, frozenset[str]]] = {
    Version.MCP_2025_03_26: frozenset({"title", "_meta", "icons"}),
    Version.MCP_2025_06_18: frozenset({"icons"}),
}
"""By version, the members of prompts and resources that only later versions have."""


def wire_prompt(prompt: OfferRecord, version: str) -> dict[str, Any]:
    """A prompt as its server describes it, under the name we expose."""
    return described(prompt, LATER.get(version, ()))


def wire_resource(resource: OfferRecord, version: str) -> dict[str, Any]:
    """A resource or a template, with the members that this version has."""
    later = LATER.get(version, ())
    return {key: value for key, value in resource.definition.items() if key not in later}


_profile_tools = listing("tools/list profile", "tools", lambda found: found.plain_tools, mapping.wire_tool)
_all_tools = listing("tools/list", "tools", lambda found: found.tools, mapping.wire_tool)
_plain_tools = listing("tools/list plain", "tools", lambda found: found.plain_tools, mapping.plain_tool)
_tools_and_ours = listing("tools/list ours", "tools", with_hub_tools, mapping.plain_tool)


async def list_tools(hub: Hub, request: Request) -> Reply:
    """The tools that this session's client can call. Tools that require a task are among them only if the client
    declares tasks; the hub's own tools only if it does not."""
    if mapping.declares_tasks(request.on.client_capabilities, request.version):
        return await _all_tools(hub, request)
    if not mapping.makes_plain_calls(request.on):
        return await _profile_tools(hub, request)
    caller = await caller_of(hub, request.incoming, request.on.client_info)
    return await (_tools_and_ours if caller.settings.tools else _plain_tools)(hub, request)


list_prompts = listing("prompts/list", "prompts", lambda found: found.prompts, wire_prompt)
list_resources = listing("resources/list", "resources", lambda found: found.resources, wire_resource)
list_templates = listing("resources/templates/list", "resourceTemplates", lambda found: found.templates, wire_resource)
