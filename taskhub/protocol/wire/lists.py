"""The lists of the catalogue, in pages. No query while it is cached: a page is encoded once for each version and kept
until the catalogue changes (B25-27, B26-44..47)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final

from taskhub.core.records import OfferRecord, ToolRecord
from taskhub.domain.catalogue.view import Catalogue
from taskhub.lib import jsonx
from taskhub.protocol.envelope import result_reply
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.revision import Request
from taskhub.protocol.wire import cursors

PAGE: Final = 100


def described(item: ToolRecord | OfferRecord, without: Collection[str] = ()) -> dict[str, Any]:
    """A tool or a prompt as its server describes it, under the name we expose."""
    return {**{key: value for key, value in item.definition.items() if key not in without}, "name": item.exposed_name}


def digests(found: Catalogue) -> dict[str, str]:
    """By the notification that tells of its changes, the state of each list (B25-28, B26-70)."""
    return {
        "notifications/tools/list_changed": found.digest,
        "notifications/prompts/list_changed": found.prompts_digest,
        "notifications/resources/list_changed": found.resources_digest,
    }


def listing(
    purpose: str,
    member: str,
    items: Callable[[Catalogue], Sequence[Any]],
    shape: Callable[[Any, str], dict[str, Any]],
    head: Callable[[Hub], dict[str, Any]] = lambda hub: {},
) -> Callable[[Hub, Request], Awaitable[Reply]]:
    """A list method: its result is `head` with a page of `items` in `member`, each in the `shape` of the version that
    asks. `purpose` names the list, and is what its cursors are good for."""

    async def answer(hub: Hub, request: Request) -> Reply:
        found, version = await hub.catalogue(request.principal.tenant_id), request.version
        start = cursors.opened(hub, purpose, found.tenant_id, request.params.get("cursor")) or 0
        page = hub.pages.page(version, purpose, found, start, lambda: encoded(hub, found, start, version))
        return result_reply(request.id, page)

    def encoded(hub: Hub, found: Catalogue, start: int, version: str) -> bytes:
        everything, end = items(found), start + PAGE
        result = {**head(hub), member: [shape(item, version) for item in everything[start:end]]}
        if len(everything) > end:
            result["nextCursor"] = cursors.signed(hub, purpose, found.tenant_id, end)
        return jsonx.encode(result)

    return answer
