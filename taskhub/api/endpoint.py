"""`/mcp` as a django-ninja operation: it authenticates a request, hands it to `protocol` and returns the answer."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import Router

from taskhub.api.auth import Unauthorized, authenticate, challenge, scope_challenge
from taskhub.core.errors import TaskHubError, Unavailable
from taskhub.core.records import Principal
from taskhub.domain.audit.record import record_denial
from taskhub.protocol.calls import ScopeMissing, actor_of
from taskhub.protocol.dispatch import error_reply, failure, handle, not_spoken
from taskhub.protocol.incoming import Incoming, Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from taskhub.protocol.hub import Hub

router = Router()


class McpRequest(HttpRequest):
    """The request as the lean handler (`api.asgi`) makes it."""

    hub: Hub
    mount: str
    body_bytes: bytes
    gone: Callable[[], Awaitable[None]]
    scope: dict[str, Any]


class Whole(HttpResponseBase):
    """A reply that the lean handler sends as it is. Converting it to a Django response and back would take as long as
    most methods."""

    def __init__(self, reply: Reply) -> None:  # does not initialize the base class, of which nothing is used
        self.reply = reply


@router.api_operation(["POST", "GET", "DELETE"], "", auth=None, include_in_schema=False)
async def mcp(request: HttpRequest) -> HttpResponse | StreamingHttpResponse | Whole:
    """Answer a JSON-RPC message of an MCP client (POST), open a stream of its session (GET), or end the session
    (DELETE)."""
    lean = cast("McpRequest", request)
    headers, repeated = headers_of(lean.scope["headers"])
    client, lanes = lean.scope.get("client"), lean.hub.lanes
    address = client[0] if client else ""

    async def caller() -> Principal:
        return await authenticate(
            headers.get("authorization"),
            request=lean,
            lanes=lanes,
            anonymous=settings.TASKHUB_ANONYMOUS,
            repeated="authorization" in repeated,
        )

    async def valid() -> bool:
        try:
            return (await caller()).context_id == principal.context_id
        except Unauthorized:
            return False

    verb = lean.scope.get("verb", lean.scope["method"])
    if verb != "POST" and not ("mcp-session-id" in headers and verb in ("GET", "DELETE")):
        return Whole(not_spoken())  # the answer is the same for any caller, so no token is needed
    try:
        principal = await caller()
        lean.hub.admit(principal, address, len(lean.body_bytes))
    except Unauthorized as error:
        return challenge(error, lean)
    except TaskHubError as error:  # the client is over its rate limits, or the database is away
        return Whole(failure(lean.hub, error, body=lean.body_bytes, headers=headers, mount=lean.mount))
    incoming = Incoming(
        body=lean.body_bytes,
        headers=headers,
        repeated=repeated,
        principal=principal,
        address=address,
        gone=lean.gone,
        valid=valid,
        verb=verb,
        mount=lean.mount,
    )
    try:
        answer = await handle(lean.hub, incoming)
    except ScopeMissing as error:
        refused = response_of(error_reply(error.id, error))
        version = headers.get("mcp-protocol-version")
        await deny_on_record(lean, incoming, error.scope)
        return scope_challenge(refused, error.scope, lean, granted=principal.scopes, version=version)
    if isinstance(answer, Reply):
        return Whole(answer)
    response = StreamingHttpResponse(answer.frames, content_type="text/event-stream", headers=answer.headers)
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


async def deny_on_record(lean: McpRequest, incoming: Incoming, scope: str) -> None:
    """Record the refusal in the audit log, at most once a minute for each client and scope."""
    principal = incoming.principal
    if cache.add(f"denied:{principal.context_id}:{scope}", True, timeout=60):
        what = f"{incoming.verb} {lean.path}"
        with contextlib.suppress(Unavailable):  # the call is refused even if that cannot be recorded
            await lean.hub.lanes.run(
                functools.partial(
                    record_denial, tenant_id=principal.tenant_id, what=what, lacking=scope, actor=actor_of(incoming)
                )
            )


def response_of(reply: Reply) -> HttpResponse:
    """The reply as a Django response."""
    response = HttpResponse(reply.body, status=reply.status, headers=reply.headers or None)
    if not reply.headers:
        del response["Content-Type"]
    return response


def headers_of(raw: list[tuple[bytes, bytes]]) -> tuple[dict[str, str], frozenset[str]]:
    """The headers by lower-case name, with trimmed values, and the names that came more than once (B26-23)."""
    found: dict[str, str] = {}
    repeated: set[str] = set()
    for name_bytes, value in raw:
        name, text = name_bytes.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        if name in found:
            repeated.add(name)
            if name == "accept":  # a list header, which may be sent in parts (RFC 9110, 5.3)
                text = f"{found[name]}, {text}"
        found[name] = text
    return found, frozenset(repeated)
