"""Lists the prompts, resources and templates of a server: verbatim, vetted, each once."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import mcp_types as types
from mcp import ClientSession
from pydantic import RootModel

from taskhub.core.names import MAX_URI
from taskhub.core.records import OfferKind
from taskhub.domain.catalogue.offers import ListedOffer
from taskhub.lib import jsonx
from taskhub.upstream.sieve import UNFIT

MAX_OFFERS = 1_000
"""The most offers of each kind that one server can have."""

MAX_BYTES = 65_536
MAX_NAME = 128

DECLARED_BY: Final = {
    OfferKind.PROMPT: "prompts",
    OfferKind.RESOURCE: "resources",
    OfferKind.TEMPLATE: "resources",
}
"""For each kind, the capability with which a server declares the list."""

_MEMBER: Final = {
    OfferKind.PROMPT: ("prompts", "name"),
    OfferKind.RESOURCE: ("resources", "uri"),
    OfferKind.TEMPLATE: ("resourceTemplates", "uriTemplate"),
}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Verbatim(RootModel[dict[str, Any]]):
    """A result as the server sent it. The SDK has validated it against the server's revision. The SDK's models would
    drop unknown members."""


async def list_offers(session: ClientSession, kind: OfferKind) -> list[ListedOffer]:
    """The offers in all pages of one list, at most `MAX_OFFERS`. Raises `MCPError` or `ValidationError`."""
    found: dict[str, ListedOffer] = {}
    cursor = None
    member, name = _MEMBER[kind]
    while True:
        page = (await session.send_request(_request(kind, cursor), Verbatim)).root
        fit = [(definition, "") for definition in page.get(member, ())]
        for definition, unfit in [*fit, *page.get(UNFIT, ())]:
            item = vetted_offer(kind, definition, name, unfit)
            # A second offer of one name is dropped: clients could not tell the two apart.
            found.setdefault(item.key, item)
        cursor = page.get("nextCursor")
        if cursor is None or len(found) >= MAX_OFFERS:
            return list(found.values())[:MAX_OFFERS]


def _request(kind: OfferKind, cursor: str | None) -> Any:
    params = types.PaginatedRequestParams(cursor=cursor)
    match kind:
        case OfferKind.PROMPT:
            return types.ListPromptsRequest(params=params)
        case OfferKind.RESOURCE:
            return types.ListResourcesRequest(params=params)
        case OfferKind.TEMPLATE:
            return types.ListResourceTemplatesRequest(params=params)


def vetted_offer(kind: OfferKind, definition: Any, name: str, unfit: str = "") -> ListedOffer:
    """An offer's record for the database. If the offer is rejected, clients never see it, and the field `rejected` says
    why. `name`: the member of `definition` with the offer's name or uri. `unfit`: why the SDK would refuse
    `definition`; empty if it would not."""
    definition = jsonx.repaired(definition) if isinstance(definition, dict) else {}
    digest = hashlib.sha256(jsonx.canonical(definition)).hexdigest()
    key = str(definition.get(name, ""))
    fault = _fault(kind, key, definition) or unfit
    if len(key) > MAX_URI or len(key.encode()) > 2 * MAX_URI:
        key = f"{key[:200]}… {digest[:16]}"
    if len(jsonx.encode(definition)) > MAX_BYTES:
        definition = {name: key}  # rejected, and clients never see it, so only the key is stored
    return ListedOffer(kind=kind, key=key, definition=definition, digest=digest, rejected=fault)


def _fault(kind: OfferKind, key: str, definition: dict[str, Any]) -> str:
    limit = MAX_NAME if kind is OfferKind.PROMPT else MAX_URI
    what = "name" if kind is OfferKind.PROMPT else "uri"
    # The bytes are bounded too, because the key is in an index.
    if not key or len(key) > limit or len(key.encode()) > 2 * MAX_URI or not key.isprintable():
        return f"the {what} is not 1 to {limit} printable characters"
    if kind is OfferKind.RESOURCE and _SCHEME.match(key) is None:
        return "the uri has no scheme"
    if len(jsonx.encode(definition)) > MAX_BYTES:
        return f"the definition is larger than {MAX_BYTES} bytes"
    if depth_of(definition) > 32:
        return "the definition is nested deeper than 32"
    return ""


def depth_of(value: Any) -> int:
    """The depth to which arrays and objects are nested; counting stops beyond 64."""
    level, depth = [value], 0
    while level:
        level = [
            item
            for node in level
            if isinstance(node, (dict, list))
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        depth += 1
        if depth > 64:
            break
    return depth
