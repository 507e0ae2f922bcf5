"""The lists: tools, prompts, resources, templates, and how long they may be kept (B26-44..47)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from taskhub.core.records import OfferRecord
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
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


_all_tools = listing("tools/list", "tools", lambda found: found.tools, wire_tool, _head)
_plain_tools = listing("tools/list plain", "tools", lambda found: found.plain_tools, wire_tool, _head)


def list_tools(hub: Hub, request: Request) -> Awaitable[Reply]:
    """The tools that this request could call. Tools that require a task are included only if it declares the
    extension."""
    return (_all_tools if declares_tasks(request.capabilities) else _plain_tools)(hub, request)


list_prompts = listing("prompts/list", "prompts", lambda found: found.prompts, wire_prompt, _head)
list_resources = listing("resources/list", "resources", lambda found: found.resources, wire_resource, _head)
list_templates = listing(
    "resources/templates/list", "resourceTemplates", lambda found: found.templates, wire_resource, _head
)
