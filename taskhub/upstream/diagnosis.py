"""Connects to a server one step at a time, so that a person sees at which step it fails."""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx2

from taskhub.core.states import OfferKind
from taskhub.core.versions import BEGUN_BY
from taskhub.domain.catalogue.sync import TOOL
from taskhub.upstream.bounds import PLAIN
from taskhub.upstream.catalogue import Snapshot, take_snapshot
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.refusals import names_metadata
from taskhub.upstream.target import Target, imported

NAME_SECONDS: Final = 5.0
TCP_SECONDS: Final = 5.0
TLS_SECONDS: Final = 5.0
HTTP_SECONDS: Final = 10.0
START_SECONDS: Final = 10.0
IMPORT_SECONDS: Final = 20.0
MCP_SECONDS: Final = 40.0
"""Seconds for agreeing on a revision. Longer than `CONNECT_SECONDS`, because a command may be started twice."""
TOOLS_SECONDS: Final = 30.0
HUNG_SECONDS: Final = 50.0
"""The test is given up if no step has begun or ended for this many seconds, or for 10 seconds more than agreeing on a
revision may take, if that is longer. It may hang because a `python:` server can block the event loop."""
MAX_WORDS: Final = 300

HUNG: Final = "it holds up the thread that it runs in"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """A step that has ended. `says`: the finding or the problem, as text without the server's secrets."""

    name: str
    ok: bool
    seconds: float
    says: str


class _Failed(Exception):
    pass


def diagnosed(target: Target) -> Iterator[Step]:
    """The steps to a connection, each as soon as it has ended. A step that fails is the last one. The steps run in a
    thread of their own, in which the connection is closed after the last step."""
    news: queue.SimpleQueue[Step | str | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            asyncio.run(Diagnosis(target, news.put).run())
        finally:
            news.put(None)

    threading.Thread(target=run, name="diagnosis", daemon=True).start()
    name, seconds = "", max(HUNG_SECONDS, mcp_seconds(target) + 10)
    while True:
        try:
            found = news.get(timeout=seconds)
        except queue.Empty:
            yield Step(name, False, seconds, HUNG)
            return
        if found is None:
            return
        if isinstance(found, Step):
            yield found
        else:
            name = found


def mcp_seconds(target: Target) -> float:
    """Seconds for agreeing on a revision: `MCP_SECONDS`, or more if the server is given more time to connect."""
    return max(MCP_SECONDS, 2 * target.connect_seconds + 10) if target.connect_seconds else MCP_SECONDS


class Diagnosis:
    """The steps to one server. `tell` is called with the name of each step when it begins, and with the step when it
    has ended, in the thread of `run`."""

    def __init__(self, target: Target, tell: Callable[[Step | str], None]) -> None:
        self.target = target
        self.tell = tell

    async def run(self) -> None:
        """Do the steps until one fails, then close the connection."""
        connection = Connection(self.target, Profile())
        try:
            if self.target.unusable:
                self._end("Secrets", False, 0.0, self.target.unusable)
            elif self.target.transport == "http":
                await self._http()
                await self._step("MCP", mcp_seconds(self.target), connection.start(), lambda _: _greeted(connection))
            elif self.target.transport == "stdio":
                await self._command(connection)
            else:
                await self._step("Import", IMPORT_SECONDS, asyncio.to_thread(imported, self.target.target), _is_a)
                await self._step("MCP", mcp_seconds(self.target), connection.start(), lambda _: _greeted(connection))
            if connection.alive:
                await self._step("Tools", TOOLS_SECONDS, _listed(connection), _counted)
        except _Failed:
            pass
        finally:
            await connection.stop()

    async def _http(self) -> None:
        parts = urlsplit(self.target.url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        loop = asyncio.get_running_loop()
        await self._step(
            "Name",
            NAME_SECONDS,
            loop.getaddrinfo(host, port, type=socket.SOCK_STREAM),
            lambda found: f"{host} is {', '.join(dict.fromkeys(str(each[4][0]) for each in found))}",
        )
        await self._step("TCP", TCP_SECONDS, _connected(host, port, None), lambda where: f"connected to {where}")
        if parts.scheme == "https":
            context = httpx2.create_ssl_context()
            await self._step("TLS", TLS_SECONDS, _connected(host, port, context), lambda words: words)
        await self._step("HTTP", HTTP_SECONDS, self._asked(), lambda words: words)

    async def _asked(self) -> str:
        """The HTTP status of the server's answer to a `ping`, or to a request for a stream of HTTP with SSE."""
        headers = {**dict(self.target.headers), **PLAIN, "Accept": "application/json, text/event-stream"}
        method, body = ("GET", None) if self.target.sse else ("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        async with (
            httpx2.AsyncClient(
                transport=httpx2.AsyncHTTPTransport(), timeout=HTTP_SECONDS, event_hooks=self.target.hooks()
            ) as http,
            http.stream(method, self.target.url, json=body, headers=headers) as answer,
        ):
            words = f"HTTP {answer.status_code} {answer.reason_phrase}".strip()
            if answer.status_code in (401, 403) and (bearer := self.target.bearer):
                had = bearer.access is not None and bearer.access.token
                raise _Failed(f"{words}: {'its authorization is refused' if had else 'it has to be authorized'}")
            if answer.status_code == 401 and names_metadata(answer):
                raise _Failed(f"{words}: it wants to be authorized by OAuth, which is set under Authorization")
            if answer.status_code in (401, 403):
                raise _Failed(f"{words}: {'its token is refused' if self.target.headers else 'it wants a token'}")
            return f"{words}: an address elsewhere, which is not followed" if answer.is_redirect else words

    async def _command(self, connection: Connection) -> None:
        await self._step("Program", START_SECONDS, asyncio.to_thread(self.target.program), lambda path: path)
        opened = asyncio.Event()
        connection.on_opened = opened.set
        starting = asyncio.create_task(connection.start())

        async def started() -> None:
            waiting = asyncio.create_task(opened.wait())
            await asyncio.wait({waiting, starting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if not opened.is_set():
                await starting

        await self._step("Start", START_SECONDS, started(), lambda _: "it runs")
        await self._step("MCP", mcp_seconds(self.target), starting, lambda _: _greeted(connection))

    async def _step(self, name: str, seconds: float, work: Awaitable[T], says: Callable[[T], str]) -> T:
        """Do the step `name` and report how it ended. Raises `_Failed` if it fails."""
        self.tell(name)
        since = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                found = await work
        except TimeoutError:
            why = f"no answer within {seconds:.0f} s"
        except _Failed as failed:
            why = str(failed)
        except socket.gaierror as error:
            why = error.strerror or "the name cannot be resolved"
        except ConnectionError as error:
            why = os.strerror(error.errno) if error.errno else "the connection was closed"
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a server's own code may raise anything
            why = self.target.reason(error).removeprefix("Unavailable: ")
        else:
            self._end(name, True, time.monotonic() - since, says(found))
            return found
        self._end(name, False, time.monotonic() - since, why)
        raise _Failed

    def _end(self, name: str, ok: bool, seconds: float, says: str) -> None:
        self.tell(Step(name, ok, seconds, self.target.shown(says)[:MAX_WORDS]))


async def _connected(host: str, port: int, context: ssl.SSLContext | None) -> str:
    """Connect and close. Returns the address, or the version of TLS and until when the certificate is valid."""
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host if context else None)
    try:
        if context is None:
            address = writer.get_extra_info("peername")
            return f"{address[0]} port {address[1]}"
        tls = writer.get_extra_info("ssl_object")
        return f"{tls.version()}, certificate valid until {tls.getpeercert().get('notAfter')}"
    finally:
        writer.close()


def _greeted(connection: Connection) -> str:
    client = connection.client
    assert client is not None
    info = client.server_info
    name = "" if info is None else f", {info.name} {info.version}"
    assert connection.era is not None
    tried = "".join(f"; not by {BEGUN_BY[era]}: {why}" for era, why in connection.tried.items())
    return f"{client.protocol_version} by {BEGUN_BY[connection.era]}{name}{tried}"


def _is_a(found: Any) -> str:
    return f"a {type(found).__name__}"


async def _listed(connection: Connection) -> Snapshot:
    snapshot = await take_snapshot(connection)
    if TOOL in snapshot.unread:
        raise _Failed(snapshot.unread[TOOL])
    return snapshot


def _counted(snapshot: Snapshot) -> str:
    rejected = sum(1 for tool in snapshot.tools if tool.rejected)
    counts = [f"tools: {len(snapshot.tools) - rejected}"]
    counts += [f"rejected: {rejected}"] if rejected else []
    for kind in OfferKind:
        counts.append(f"{kind}s: {sum(1 for offer in snapshot.offers if offer.kind is kind)}")
    return ", ".join(counts)
