"""Runs Django for every path except `/mcp` (pages, health, sign-ins), in a fixed number of lanes.

Django's ASGI handler gives each request a thread of its own, which opens and keeps a database connection:
three hundred anonymous requests took all connections of Postgres. Here a request runs through all of
Django, with all middleware, in one of a few lanes. The event loop reads the request and sends the response,
so that a peer that reads slowly does not occupy a lane.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO

from django.core import signals
from django.core.handlers.asgi import ASGIRequest, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import set_script_prefix

from taskhub.api.guard import Receive, Scope, Send
from taskhub.core.errors import Unavailable
from taskhub.lib.lanes import Crowded, Lanes

logger = logging.getLogger(__name__)

MOST_WAITING = 1_000
"""The most requests in one process that wait for a lane or run in one."""
PATIENCE_SECONDS = 15.0
"""The most seconds that a request waits for a lane."""
HURRY_SECONDS = 1.5
"""The most seconds that a request to a path of `hurried` may take, the wait for a lane included."""
BLOCK_BYTES = 65_536
"""The size of the parts in which a streamed response is made and sent."""

View = Callable[[HttpRequest], HttpResponse]
Refusal = Callable[[HttpRequest, Exception], HttpResponse]


@dataclass(slots=True)
class _Answer:
    """A response to be sent: first `body`, then, if the response is streamed, the parts of `more`."""

    response: HttpResponseBase
    body: bytes
    more: Iterator[bytes] | None


class Pages(BaseHandler):
    """The ASGI application for HTTP requests except those of `/mcp`.

    `at_once`: by path, views that need neither the database nor Django's middleware, and run in the event loop however
    busy the lanes are. `hurried`: by path, views that answer if the path's own view has not answered within
    `HURRY_SECONDS`. `refused(request, error)` makes the response if no lane took the request; `error` says why.
    """

    def __init__(
        self, lanes: Lanes, *, at_once: Mapping[str, View], hurried: Mapping[str, View], refused: Refusal
    ) -> None:
        super().__init__()
        self.lanes = lanes
        self.at_once = at_once
        self.hurried = hurried
        self.refused = refused
        self.load_middleware()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request in a lane, or with 503 if no lane begins it in time."""
        body: bytes = (await receive())["body"]  # the whole body: the guard has read it
        try:
            request = ASGIRequest(scope, BytesIO(body))
        except UnicodeDecodeError:
            await _send(_Answer(HttpResponse(status=400), b"", None), send)
            return
        if scope["path"] in self.at_once:
            response = self.at_once[scope["path"]](request)
            await _send(_Answer(response, response.content, None), send)
            return
        # In a copy of the context, so that no other request sees the context variables that this one sets.
        call = partial(contextvars.copy_context().run, self._answer, scope, request)
        answering = asyncio.ensure_future(self.lanes.run_soon(call, seconds=PATIENCE_SECONDS, most=MOST_WAITING))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            hurried = self.hurried.get(scope["path"])
            patience = None if hurried is None else HURRY_SECONDS
            await asyncio.wait({answering, leaving}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                if hurried is not None and not leaving.done():
                    response = hurried(request)
                    await _send(_Answer(response, response.content, None), send)
                return
            try:
                answer = answering.result()
            except (Crowded, Unavailable) as error:
                response = self.refused(request, error)
                answer = _Answer(response, response.content, None)
            await self._stream(request, answer, leaving, send)
        finally:
            answering.cancel()  # a waiting request is not run any more; a running view runs to its end
            leaving.cancel()
            request.close()

    async def _stream(self, request: HttpRequest, answer: _Answer, leaving: asyncio.Future[None], send: Send) -> None:
        more = answer.more
        try:
            await _send(answer, send)
            while more is not None and not leaving.done():
                block, over = await self.lanes.run(_block, more)
                await send({"type": "http.response.body", "body": block, "more_body": not over})
                more = None if over else more
        except Unavailable as error:
            # The status line has been sent. The body ends early, so that the client notices that it is incomplete.
            logger.warning("%s ended in the middle: %s", request.path, error)
        finally:
            if answer.more is not None:
                await asyncio.shield(self.lanes.run_surely(answer.response.close))

    def _answer(self, scope: Scope, request: ASGIRequest) -> _Answer:
        """Run the request through all of Django, from `request_started` to the response. Called in a lane."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        response: HttpResponseBase = self.get_response(request)
        response._handler_class = self.__class__  # type: ignore[attr-defined]  # the sender of request_finished
        if isinstance(response, StreamingHttpResponse):
            parts: Iterator[bytes] = iter(response)
            body, over = _block(parts)
            if not over:
                return _Answer(response, body, parts)
        else:
            body = response.content  # type: ignore[attr-defined]  # all others are HttpResponse
        response.close()
        return _Answer(response, body, None)


def _block(parts: Iterator[bytes]) -> tuple[bytes, bool]:
    """The next part of a streamed response, and whether it is the last."""
    block = bytearray()
    for part in parts:
        block += part
        if len(block) >= BLOCK_BYTES:
            return bytes(block), False
    return bytes(block), True


async def _send(answer: _Answer, send: Send) -> None:
    response = answer.response
    headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    headers += [
        (b"set-cookie", cookie.output(header="").strip().encode("ascii")) for cookie in response.cookies.values()
    ]
    whole = answer.more is None and response.status_code not in (204, 304)
    if whole and not response.has_header("Content-Length"):
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": answer.more is not None})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
