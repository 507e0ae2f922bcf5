"""The lean handler, which serves `/mcp` and its mounts without Django's ASGI handler.

Django's ASGI handler costs three thread hops and two asyncio tasks per request: with an empty view it
serves about 1,600 requests a second, uvicorn alone 35,000. For these paths the guard has already read
and limited the body and checked Host and Origin, so the lean handler makes Django's request object,
calls the async django-ninja view in the running loop and sends the result. Every other path goes
through all of Django (`api.pages`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import StreamingHttpResponse
from django.urls import resolve

from taskhub.api.endpoint import Whole, headers_of
from taskhub.api.guard import App, Receive, Scope, Send
from taskhub.core.errors import Unavailable
from taskhub.lib.throttle import Throttle
from taskhub.protocol.dispatch import failure, too_large
from taskhub.protocol.envelope import JSON, refusal
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply

logger = logging.getLogger(__name__)


class LeanRequest(ASGIRequest):
    """Django's request object. Django's own initialization, which copies every header, runs only when an attribute that
    is not set here is read for the first time. Most requests to `/mcp` never need it, and it would take a tenth of
    their time."""

    def __init__(self, scope: Scope, body: bytes) -> None:
        self.scope = scope
        self.method = scope["method"]
        self.body_bytes = body
        # The value of `body`. Without it, Django would compare the length with the limit for forms of the console.
        self._body = body

    def __getattr__(self, name: str) -> Any:
        if "META" in self.__dict__:
            raise AttributeError(name)
        super().__init__(self.scope, BytesIO(self.body_bytes))
        return getattr(self, name)


class Lean:
    """The ASGI application that serves `path` and the hub's mounts below it, and hands other requests to `rest`."""

    def __init__(self, rest: App, hub: Hub, path: str = "/mcp") -> None:
        self.rest = rest
        self.hub = hub
        self.path = path
        self._mounts = {path: "", **{f"{path}/{mount}": mount for mount in hub.mounts}}
        self._view: Any = None
        self._throttle = Throttle(10.0)
        self.streaming = 0
        """The number of open streams."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to `path` or a mount; pass on every other one, WebSockets too."""
        mount = self._mounts.get(scope["path"]) if scope["type"] == "http" else None
        if mount is None and scope["type"] == "http" and scope["path"].startswith(f"{self.path}/"):
            # The 404 is JSON, because a client of /mcp must never get HTML.
            await send_whole(Reply(refusal("Not found"), status=404, headers=JSON), send)
            return
        if mount is None:
            await self.rest(scope, receive, send)
            return
        if self._view is None:
            self._view = resolve(self.path).func
        if scope["method"] not in ("POST", "GET", "DELETE"):
            scope = {**scope, "method": "GET", "verb": scope["method"]}  # the view reads `verb`, and refuses it in JSON
        message = await receive()
        body: bytes = message["body"]

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        request: Any = LeanRequest(scope, body)
        request.hub, request.mount, request.gone = self.hub, mount, gone
        try:
            response = await self._view(request)
        except asyncio.CancelledError:
            return  # the client has disconnected, so the view's work was cancelled
        except Exception as error:  # noqa: BLE001 - `failure` logs it
            headers, _ = headers_of(scope["headers"])
            response = Whole(failure(self.hub, error, body=body, headers=headers, mount=mount))
        if isinstance(response, Whole):
            await send_whole(response.reply, send)
        elif isinstance(response, StreamingHttpResponse):
            self.streaming += 1
            try:
                await self._stream(response, gone, send)
            finally:
                self.streaming -= 1
        else:
            await send_whole(Reply(response.content, response.status_code, dict(response.items())), send)

    def too_large(self, scope: Scope, why: str, head: bytes, tail: bytes) -> Reply | None:
        """The answer to a request of these paths whose body is too large, from the two ends of the body that the guard
        kept; `None` for another path."""
        mount = self._mounts.get(scope["path"])
        if mount is None:
            return None
        headers, _ = headers_of(scope["headers"])
        return too_large(self.hub, why, head=head, tail=tail, headers=headers, mount=mount)

    async def _stream(self, response: StreamingHttpResponse, gone: Any, send: Send) -> None:
        """Send each frame as soon as it is made. If the client leaves, the iterator of the frames is closed at once."""
        await send({"type": "http.response.start", "status": response.status_code, "headers": _raw(response.headers)})
        frames: Any = response.streaming_content

        async def pump() -> None:
            try:
                async for frame in frames:
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                await response._iterator.aclose()  # type: ignore[attr-defined]  # of an async generator

        pumping, leaving = asyncio.ensure_future(pump()), asyncio.ensure_future(gone())
        try:
            await asyncio.wait({pumping, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not pumping.done():
                pumping.cancel()
            try:
                await pumping
            except asyncio.CancelledError:
                pass
            except Unavailable as error:
                if self._throttle():
                    logger.warning("a stream and others ended early: %s", error)
            except Exception:
                # The status line has been sent, so the error can only be logged, and the stream ended.
                logger.exception("a stream failed")


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]


async def send_whole(reply: Reply, send: Send) -> None:
    """Send an answer in one piece."""
    headers = [*_raw(reply.headers), (b"content-length", str(len(reply.body)).encode())]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
