"""Messages to and from a server, as they are: by the pipes of a command, by Streamable HTTP, by HTTP+SSE. Nothing here
reads or changes what they say, so that what a server sends can be compared with what a hub makes of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urljoin

import httpx2

Message = dict[str, Any]
MOST_BYTES = 64 * 1024 * 1024
SECONDS = 120.0


class Transport(Protocol):
    """One connection. `heard` is called with each message that comes, and with `None` when no more can come."""

    async def open(self, heard: Callable[[Message | None], None]) -> None:
        """Connect."""

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message; `headers` are for transports that have some."""

    async def leave(self, request_id: object) -> None:
        """Wait no longer for the answer to this request, where that is said by leaving."""

    async def close(self) -> None:
        """End the connection, and the process that it may have."""


class Command:
    """A process that reads and writes a message a line."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Any) -> None:
        self._command, self._env, self._log = command, env, log

    async def open(self, heard: Callable[[Message | None], None]) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
            limit=MOST_BYTES,
            env={**os.environ, **self._env},
            start_new_session=True,
        )
        self._reading = asyncio.create_task(self._read(heard))

    async def _read(self, heard: Callable[[Message | None], None]) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            with contextlib.suppress(ValueError):  # a line of its log
                message = json.loads(line)
                if isinstance(message, dict):
                    heard(message)
        heard(None)

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        await self._process.stdin.drain()

    async def leave(self, request_id: object) -> None:
        pass

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # it, or the browser that it left
        await self._process.wait()
        self._reading.cancel()


async def events(response: httpx2.Response) -> AsyncIterator[dict[str, str]]:
    """The events of a stream, each with the fields that it has."""
    found: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            found[name] = f"{found[name]}\n{value}" if name in found else value
        elif found:
            yield found
            found = {}


class Http:
    """Streamable HTTP, with a session or without."""

    def __init__(self, url: str, token: str = "") -> None:
        self._url = url
        self._headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._posts: dict[object, asyncio.Task[None]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._session = ""

    async def open(self, heard: Callable[[Message | None], None]) -> None:
        self._heard = heard
        self._http = httpx2.AsyncClient(timeout=SECONDS, trust_env=False)

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        posting = asyncio.create_task(self._post(message, {**self._headers, **self._own(), **headers}))
        if "method" not in message or "id" not in message:
            await posting
        else:
            self._posts[message["id"]] = posting
            posting.add_done_callback(lambda _: self._posts.pop(message["id"], None))

    def _own(self) -> dict[str, str]:
        return {"mcp-session-id": self._session} if self._session else {}

    async def _post(self, message: Message, headers: dict[str, str]) -> None:
        wanted = message.get("id") if "method" in message else None
        try:
            async with self._http.stream("POST", self._url, json=message, headers=headers) as response:
                self._session = response.headers.get("mcp-session-id", self._session)
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    answered, last, pause = await self._stream(response, wanted)
                else:
                    body = await response.aread()
                    answered, last, pause = True, "", 0.0
                    self._whole(response.status_code, body, wanted)
            while not answered and last:  # a server may hang up and let its client come back
                await asyncio.sleep(pause)
                again = {**headers, "last-event-id": last}
                async with self._http.stream("GET", self._url, headers=again) as response:
                    answered, last, pause = await self._stream(response, wanted)
            if message.get("method") == "notifications/initialized" and self._session:
                self._listening = asyncio.create_task(self._listen(headers))
            if not answered and wanted is not None:
                self._fail(wanted, "the stream ended without an answer")
        except httpx2.HTTPError as error:
            if wanted is not None:
                self._fail(wanted, f"{type(error).__name__}: {error}")

    def _whole(self, status: int, body: bytes, wanted: object) -> None:
        with contextlib.suppress(ValueError):
            found = json.loads(body)
            if isinstance(found, dict) and found.get("jsonrpc"):
                self._heard({**found, "id": wanted} if found.get("id") is None and "error" in found else found)
                return
        if wanted is not None:
            self._fail(wanted, f"HTTP {status}: {body[:200].decode(errors='replace')}")

    def _fail(self, wanted: object, why: str) -> None:
        self._heard({"jsonrpc": "2.0", "id": wanted, "error": {"code": 0, "message": why}})

    async def _stream(self, response: httpx2.Response, wanted: object) -> tuple[bool, str, float]:
        answered, last, pause = False, "", 1.0
        async for event in events(response):
            last = event.get("id", last)
            pause = int(event["retry"]) / 1000 if event.get("retry", "").isdecimal() else pause
            if not event.get("data"):
                continue
            message = json.loads(event["data"])
            answered = answered or (message.get("id") == wanted and "method" not in message)
            self._heard(message)
        return answered, last, pause

    async def _listen(self, headers: dict[str, str]) -> None:
        """The session's own stream, where a server may ask too."""
        with contextlib.suppress(httpx2.HTTPError):
            async with self._http.stream("GET", self._url, headers={**headers, **self._own()}) as response:
                if response.status_code == 200:
                    await self._stream(response, object())

    async def leave(self, request_id: object) -> None:
        posting = self._posts.get(request_id)
        if posting is not None:
            posting.cancel()

    async def close(self) -> None:
        for task in [*self._posts.values(), *([self._listening] if self._listening else [])]:
            task.cancel()
        await self._http.aclose()


class Sse:
    """HTTP+SSE, as of 2024-11-05: one stream for all that the server says."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self, heard: Callable[[Message | None], None]) -> None:
        self._http = httpx2.AsyncClient(timeout=SECONDS, trust_env=False)
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(heard))
        await self._address

    async def _read(self, heard: Callable[[Message | None], None]) -> None:
        try:
            async with self._http.stream("GET", self._url, headers={"accept": "text/event-stream"}) as response:
                async for event in events(response):
                    if event.get("event") == "endpoint":
                        self._address.set_result(urljoin(self._url, event["data"]))
                    elif event.get("data"):
                        heard(json.loads(event["data"]))
        except httpx2.HTTPError as error:
            if not self._address.done():
                self._address.set_exception(error)
        heard(None)

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        answer = await self._http.post(await self._address, json=message)
        answer.raise_for_status()

    async def leave(self, request_id: object) -> None:
        pass

    async def close(self) -> None:
        self._reading.cancel()
        await self._http.aclose()
