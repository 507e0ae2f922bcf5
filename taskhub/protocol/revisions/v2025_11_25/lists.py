"""The lists: tools, prompts, resources, templates (B25-27)."""

from __future__ import annotations

from typing import Any, Final

from taskhub.core.records import OfferRecord
from taskhub.core.versions import Version
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.revisions.v2025_11_25 import mapping
from taskhub.protocol.revisions.v2025_11_25.wire import Request
from taskhub.protocol.wire.lists import described, listing

LATER: Final[dict[str, frozenset[str]]] = {
    Version.MCP_2025_03_26: frozenset({"title", "_meta", "icons"}),
    Version.MCP_2025_06_18: frozenset({"icons"}),
}
"""Members of prompts and resources that came after a version."""


def wire_prompt(prompt: OfferRecord, version: str) -> dict[str, Any]:
    """A prompt as its server describes it, under the name we expose."""
    return described(prompt, LATER.get(version, ()))


def wire_resource(resource: OfferRecord, version: str) -> dict[str, Any]:
    """A resource or a template."""
    later = LATER.get(version, ())
    return {key: value for key, value in resource.definition.items() if key not in later}


_all_tools = listing("tools/list", "tools", lambda found: found.tools, mapping.wire_tool)
_plain_tools = listing("tools/list plain", "tools", lambda found: found.plain_tools, mapping.wire_tool)


async def list_tools(hub: Hub, request: Request) -> Reply:
    """The tools that this session's client can call. Tools that require a task are included only if it declares
    tasks."""
    declared = mapping.declares_tasks(request.on.client_capabilities, request.version)
    return await (_all_tools if declared else _plain_tools)(hub, request)


list_prompts = listing("prompts/list", "prompts", lambda found: found.prompts, wire_prompt)
list_resources = listing("resources/list", "resources", lambda found: found.resources, wire_resource)
list_templates = listing("resources/templates/list", "resourceTemplates", lambda found: found.templates, wire_resource)
