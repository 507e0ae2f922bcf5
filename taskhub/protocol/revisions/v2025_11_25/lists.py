"""The lists: tools, prompts, resources, templates (B25-27). A page is encoded once for each version and
kept until the catalogue changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from taskhub.core.records import OfferRecord
from taskhub.core.versions import Version
from taskhub.domain.catalogue.view import Catalogue
from taskhub.lib import jsonx
from taskhub.protocol import calls, pages
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.replies import result_reply
from taskhub.protocol.revisions.v2025_11_25 import mapping
from taskhub.protocol.revisions.v2025_11_25.wire import Request

LATER: Final[dict[str, frozenset[str]]] = {
    Version.MCP_2025_03_26: frozenset({"title", "_meta", "icons"}),
    Version.MCP_2025_06_18: frozenset({"icons"}),
}
"""Members of prompts and resources that a version does not have yet."""


def wire_prompt(prompt: OfferRecord, version: str) -> dict[str, Any]:
    """A prompt as its server describes it, under the name we expose."""
    return {**_known(prompt.definition, version), "name": prompt.exposed_name}


def wire_resource(resource: OfferRecord, version: str) -> dict[str, Any]:
    """A resource or a template."""
    return _known(resource.definition, version)


def _known(definition: dict[str, Any], version: str) -> dict[str, Any]:
    later = LATER.get(version, frozenset())
    return {key: value for key, value in definition.items() if key not in later}


def _list(
    purpose: str, member: str, items: Callable[[Catalogue], Sequence[Any]], shape: Callable[[Any, str], dict[str, Any]]
) -> Callable[[Hub, Request], Awaitable[Reply]]:
    """A list in pages; `purpose` names it, and is what its cursors are good for."""

    async def answer(hub: Hub, request: Request) -> Reply:
        found = await calls.tools_of(hub, request.principal.tenant_id)
        start = pages.start_of(hub, purpose, found.tenant_id, request.params.get("cursor"))
        version = request.version
        page = hub.pages.page(version, purpose, found, start, lambda: encoded(hub, found, start, version))
        return result_reply(request.id, page)

    def encoded(hub: Hub, found: Catalogue, start: int, version: str) -> bytes:
        page = pages.page_at(hub, purpose, found.tenant_id, items(found), start)
        result: dict[str, Any] = {member: [shape(item, version) for item in page.items]}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        return jsonx.encode(result)

    return answer


_all_tools = _list("tools/list", "tools", lambda found: found.tools, mapping.wire_tool)
_plain_tools = _list("tools/list plain", "tools", lambda found: found.plain_tools, mapping.wire_tool)


async def list_tools(hub: Hub, request: Request) -> Reply:
    """The tools that this session's client can call: those that require a task only if it declares tasks."""
    declared = mapping.declares_tasks(request.on.client_capabilities, request.version)
    return await (_all_tools if declared else _plain_tools)(hub, request)


list_prompts = _list("prompts/list", "prompts", lambda found: found.prompts, wire_prompt)
list_resources = _list("resources/list", "resources", lambda found: found.resources, wire_resource)
list_templates = _list("resources/templates/list", "resourceTemplates", lambda found: found.templates, wire_resource)
