"""The lists: tools, prompts, resources, templates. No query while the catalogue is cached: a page is
encoded once and kept until the catalogue changes (B26-44..47)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from taskhub.core.names import META_SERVER
from taskhub.core.records import OfferRecord, ToolRecord
from taskhub.domain.catalogue.view import Catalogue
from taskhub.lib import jsonx
from taskhub.protocol import calls, pages
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.replies import result_reply
from taskhub.protocol.revisions.v2026_07_28.ext_tasks.methods import declares_tasks
from taskhub.protocol.revisions.v2026_07_28.wire import VERSION, Request

TTL_MS = 60_000


def wire_tool(tool: ToolRecord) -> dict[str, Any]:
    """A tool as its server describes it, under the name we expose, without what this revision
    does not have (T26-56)."""
    definition = {key: value for key, value in tool.definition.items() if key != "execution"}
    return {**definition, "name": tool.exposed_name}


def wire_prompt(prompt: OfferRecord) -> dict[str, Any]:
    """A prompt as its server describes it, under the name we expose."""
    return {**prompt.definition, "name": prompt.exposed_name}


def wire_resource(resource: OfferRecord) -> dict[str, Any]:
    """A resource or a template, verbatim."""
    return resource.definition


def _list(
    purpose: str, member: str, items: Callable[[Catalogue], Sequence[Any]], shape: Callable[[Any], dict[str, Any]]
) -> Callable[[Hub, Request], Awaitable[Reply]]:
    """A list method: its result holds a page of `items` in `member`, each in this revision's `shape`. `purpose`
    names the list, and is what its cursors are good for."""

    async def answer(hub: Hub, request: Request) -> Reply:
        found = await calls.tools_of(hub, request.principal.tenant_id)
        start = pages.start_of(hub, purpose, found.tenant_id, request.params.get("cursor"))
        page = hub.pages.page(VERSION, purpose, found, start, lambda: encoded(hub, found, start))
        return result_reply(request.id, page)

    def encoded(hub: Hub, found: Catalogue, start: int) -> bytes:
        page = pages.page_at(hub, purpose, found.tenant_id, items(found), start)
        result: dict[str, Any] = {
            "resultType": "complete",
            member: [shape(item) for item in page.items],
            "ttlMs": TTL_MS,
            "cacheScope": "private",
            "_meta": {META_SERVER: hub.server_info},
        }
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        return jsonx.encode(result)

    return answer


_all_tools = _list("tools/list", "tools", lambda found: found.tools, wire_tool)
_plain_tools = _list("tools/list plain", "tools", lambda found: found.plain_tools, wire_tool)


def list_tools(hub: Hub, request: Request) -> Awaitable[Reply]:
    """The tools that this request could call: those that require a task only if it declares the extension."""
    return (_all_tools if declares_tasks(request.capabilities) else _plain_tools)(hub, request)


list_prompts = _list("prompts/list", "prompts", lambda found: found.prompts, wire_prompt)
list_resources = _list("resources/list", "resources", lambda found: found.resources, wire_resource)
list_templates = _list("resources/templates/list", "resourceTemplates", lambda found: found.templates, wire_resource)
