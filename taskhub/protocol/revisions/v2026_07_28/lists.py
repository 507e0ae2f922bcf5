"""Prompts and resources. TaskHub offers none of its own and does not pass on those of the servers
behind it yet, so the lists are empty and nothing can be read; both are declared, because both
are answered (B26-43, B26-44, B26-50)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from taskhub.lib import jsonx
from taskhub.protocol.envelope import result_message
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.revisions.v2026_07_28.wire import META_SERVER, Request

TTL_MS = 60_000


def empty_list(member: str) -> Callable[[Hub, Request], Awaitable[Reply]]:
    """A list method whose list, `member`, is empty. No cursor was ever given out, so none is valid."""

    async def answer(hub: Hub, request: Request) -> Reply:
        if "cursor" in request.params:
            raise WireError(INVALID_PARAMS, "Invalid cursor: list again from the first page")
        result = {
            "resultType": "complete",
            member: [],
            "ttlMs": TTL_MS,
            "cacheScope": "private",
            "_meta": {META_SERVER: hub.server_info},
        }
        return Reply(result_message(request.id, jsonx.encode(result)), headers={"Content-Type": "application/json"})

    return answer


async def read_resource(hub: Hub, request: Request) -> Reply:
    """-32602 with the uri: there is none (B26-50)."""
    uri = request.params.get("uri")
    if not isinstance(uri, str):
        raise WireError(INVALID_PARAMS, "uri must be a string")
    raise WireError(INVALID_PARAMS, "Resource not found", {"uri": uri})


async def get_prompt(hub: Hub, request: Request) -> Reply:
    """-32602: there is none."""
    name = request.params.get("name")
    raise WireError(INVALID_PARAMS, f"Unknown prompt: {str(name)[:128]}")
