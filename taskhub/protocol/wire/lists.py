"""Lists in pages: the cursors between pages, and the lists of the catalogue.

A cursor is signed, and valid for an hour, for one list and one owner. While the catalogue is cached, its lists need no
query; each page is encoded once for each version of MCP and kept until the catalogue changes (B25-27, B26-44..47).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final

from taskhub.core.records import OfferRecord, ToolRecord
from taskhub.domain.catalogue.view import Catalogue
from taskhub.lib import jsonx
from taskhub.lib.signing import InvalidToken
from taskhub.protocol.envelope import result_reply
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.revision import Request

PAGE: Final = 100
CURSOR_SECONDS: Final = 3_600


def open_cursor(hub: Hub, purpose: str, owner: int, cursor: Any) -> int | None:
    """The place in the list at which the page of a client's `cursor` begins; `None` for the first page. Raises -32602
    if the cursor was not made for this list and owner, or has expired (B26-46, B25-27, T25-26, T1686-14)."""
    if cursor is None:
        return None
    try:
        whose, place = hub.signer.verify(purpose, cursor) if isinstance(cursor, str) else (None, 0)
    except InvalidToken:
        whose, place = None, 0
    if whose != owner:
        raise WireError(INVALID_PARAMS, "Invalid cursor: list again from the first page")
    return int(place)


def sign_cursor(hub: Hub, purpose: str, owner: int, place: int) -> str:
    """The cursor that stands for a place in the list."""
    return hub.signer.sign(purpose, [owner, place], seconds=CURSOR_SECONDS)


def described(item: ToolRecord | OfferRecord, without: Collection[str] = ()) -> dict[str, Any]:
    """A tool or a prompt as its server describes it, under the name that the hub exposes, and without the members
    `without`."""
    return {**{key: value for key, value in item.definition.items() if key not in without}, "name": item.exposed_name}


def digests(found: Catalogue) -> dict[str, str]:
    """The digest of each list, by the notification of its changes (B25-28, B26-70)."""
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
    """The handler of a list method. Its result has the members that `head` returns, and the member named `member` with
    a page of the list that `items` returns, each item as `shape` makes it for the client's version. `purpose` names the
    list: its cursors are valid for no other list."""

    async def answer(hub: Hub, request: Request) -> Reply:
        found, version = await hub.catalogue(request.principal), request.version
        start = open_cursor(hub, purpose, found.tenant_id, request.params.get("cursor")) or 0
        page = hub.pages.page(version, purpose, found, start, lambda: encoded(hub, found, start, version))
        return result_reply(request.id, page)

    def encoded(hub: Hub, found: Catalogue, start: int, version: str) -> bytes:
        everything, end = items(found), start + PAGE
        result = {**head(hub), member: [shape(item, version) for item in everything[start:end]]}
        if len(everything) > end:
            result["nextCursor"] = sign_cursor(hub, purpose, found.tenant_id, end)
        return jsonx.encode(result)

    return answer
