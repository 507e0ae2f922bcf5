"""Serves `/api/v1/` without Django's ASGI handler, as `api.asgi` serves `/mcp`: a request that waits for a decision
holds no thread. The guard has read and limited the body and checked Host and Origin."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any, Final

from django.http import HttpResponse
from django.urls import Resolver404, resolve

from taskhub.api.approvals import refusal, refused
from taskhub.api.asgi import LeanRequest, send_whole
from taskhub.api.guard import App, Receive, Scope, Send
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply

logger = logging.getLogger(__name__)

PREFIX: Final = "/api/v1/"


class Rest:
    """The ASGI application that serves paths below `PREFIX`, and hands other requests to `rest`."""

    def __init__(self, rest: App, hub: Hub) -> None:
        self.rest = rest
        self.hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request below `PREFIX`; pass on every other one, WebSockets too."""
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self.rest(scope, receive, send)
            return
        body: bytes = (await receive())["body"]

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        request: Any = LeanRequest(scope, body)
        request.hub, request.gone = self.hub, gone
        try:
            response = await self._response(request)
        except asyncio.CancelledError:
            return  # the client has disconnected
        except Exception as error:  # noqa: BLE001 - the client is told in JSON, and it is logged
            response = _told(request, error)
        await send_whole(Reply(response.content, response.status_code, dict(response.items())), send)

    async def _response(self, request: Any) -> HttpResponse:
        try:
            view, args, kwargs = resolve(request.scope["path"])
        except Resolver404:
            return refusal(404, "not_found", "There is nothing here.")
        found = view(request, *args, **kwargs)
        response: HttpResponse = await found if inspect.isawaitable(found) else found
        return response


def _told(request: Any, error: Exception) -> HttpResponse:
    try:
        return refused(request, error)
    except Exception:
        logger.exception("a request of the API failed")
        return refusal(500, "internal", "Internal error")
