"""A small, strict client of the 2025 wires: a session, its streams, and answers to the server's requests."""

from __future__ import annotations

import contextlib
import itertools
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import httpx2

from tests.protocol import schema_2025 as schema
from tests.support.client import _NO_TLS, PATIENCE, Answer
from tests.support.hub import wait_for_status
from tests.support.transcript import Transcript

VERSION: Final = "2025-11-25"
FORMS: Final[dict[str, Any]] = {"elicitation": {}}
EVERYTHING: Final[dict[str, Any]] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


@dataclass(frozen=True)
class Event:
    """One event of a stream; a priming event has no message."""

    id: str
    message: dict[str, Any] | None
    retry: int | None = None


class Events:
    """An open stream, event by event; each message is checked as it comes."""

    def __init__(self, response: httpx2.Response, session: SessionClient, method: str, params: Any, id: object) -> None:
        self.response = response
        self.last_id = ""
        self.keep_alives = 0
        self._asked = (session, method, params, id)
        self._lines = response.iter_lines()

    def event(self) -> Event | None:
        """The next event; `None` when the server ended the stream."""
        deadline = time.monotonic() + PATIENCE
        found: dict[str, str] = {}
        for line in self._lines:
            assert time.monotonic() < deadline, f"nothing but keep-alives for {PATIENCE:g} s"
            if line.startswith(":"):
                self.keep_alives += 1
                continue
            if line:
                name, _, value = line.partition(":")
                assert name in ("id", "event", "data", "retry"), line
                assert name not in found, "one line each"
                found[name] = value.removeprefix(" ")
            elif found:
                self.last_id = found.get("id", self.last_id)
                message = json.loads(found["data"]) if found.get("data") else None
                if message is not None:
                    session, method, params, asked_id = self._asked
                    schema.check_message(method, params, session.version, asked_id, message)
                    session._heard(self.response, [message])
                return Event(found.get("id", ""), message, int(found["retry"]) if "retry" in found else None)
        return None

    def next(self) -> dict[str, Any]:
        """The next message."""
        while True:
            found = self.event()
            assert found is not None, "the stream ended"
            if found.message is not None:
                return found.message

    def until(self, method: str) -> dict[str, Any]:
        """The next message of this method; `"response"` for the response. Others are passed over."""
        while True:
            message = self.next()
            if message.get("method", "response") == method:
                return message

    def rest(self) -> list[dict[str, Any]]:
        """Every message until the server ends the stream."""
        found = []
        while (event := self.event()) is not None:
            if event.message is not None:
                found.append(event.message)
        return found


class SessionClient:
    """One session of one caller. `initialize` is sent at once unless `version` is empty."""

    def __init__(
        self,
        base: str,
        token: str | None,
        *,
        version: str = VERSION,
        caps: Mapping[str, Any] | None = None,
        path: str = "/mcp",
        transcript: Transcript | None = None,
        tls: ssl.SSLContext = _NO_TLS,
    ) -> None:
        self.url = base + path
        self.token = token
        self.version = version
        self.session_id: str | None = None
        self._ids = itertools.count(1)
        self.http = httpx2.Client(timeout=httpx2.Timeout(15.0), trust_env=False, verify=tls)
        self.initialized: dict[str, Any] = {}
        self.transcript = transcript
        if version:
            self.initialize(version, caps or {})

    def __enter__(self) -> SessionClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.http.close()

    def initialize(self, version: str, caps: Mapping[str, Any]) -> Answer:
        """`initialize` and `notifications/initialized`."""
        params = {"protocolVersion": version, "capabilities": dict(caps), "clientInfo": {"name": "old", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": "initialize", "params": params}
        answer = self.post(message, {key: value for key, value in self.headers().items() if "version" not in key})
        self.initialized = answer.result
        self.version = answer.result["protocolVersion"]
        self.session_id = answer.headers["mcp-session-id"]
        assert self.notify("notifications/initialized") == 202
        return answer

    def headers(self, **changes: str | None) -> dict[str, str]:
        """What belongs to every request after `initialize`; `None` leaves one out, `_` stands for `-`."""
        found: dict[str, str | None] = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "authorization": f"Bearer {self.token}" if self.token else None,
            "mcp-session-id": self.session_id,
            "mcp-protocol-version": self.version,
        }
        found.update({key.replace("_", "-"): value for key, value in changes.items()})
        return {key: value for key, value in found.items() if value is not None}

    def post(self, message: Any, headers: Mapping[str, str] | None = None) -> Answer:
        """Send anything; read the whole answer."""
        deadline = time.monotonic() + PATIENCE
        content = json.dumps(message).encode()
        sent = headers or self.headers()
        self._told("POST", sent, message)
        with self.http.stream("POST", self.url, content=content, headers=sent) as response:
            received = b""
            for chunk in response.iter_bytes():
                received += chunk
                assert time.monotonic() < deadline, f"no answer within {PATIENCE:g} s, only {received!r}"
        messages = []
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            data = [line[6:] for line in received.decode().split("\n") if line.startswith("data: ")]
            messages += [json.loads(line) for line in data if line]
        elif received:
            messages.append(json.loads(received))
        if isinstance(message, dict):
            for found in messages:
                method, params = str(message.get("method")), message.get("params") or {}
                schema.check_message(method, params, self.version or VERSION, message.get("id"), found)
        self._heard(response, messages)
        return Answer(response.status_code, response.headers, received, tuple(messages))

    def _told(self, verb: str, headers: Mapping[str, str], message: Any) -> None:
        if self.transcript is not None:
            self.transcript.sent(verb, httpx2.URL(self.url).path, headers, message)

    def _heard(self, response: httpx2.Response, messages: list[Any]) -> None:
        if self.transcript is not None:
            kind = response.headers.get("content-type", "").partition(";")[0]
            self.transcript.received(response.status_code, kind, messages, response.headers)

    def request(
        self, method: str, params: Mapping[str, Any] | None = None, id: str | int | None = None
    ) -> dict[str, Any]:
        """A request as it goes over the wire."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": next(self._ids) if id is None else id, "method": method}
        return message if params is None else {**message, "params": dict(params)}

    def call(self, method: str, params: Mapping[str, Any] | None = None, id: str | int | None = None) -> Answer:
        """Send one request and read its whole answer."""
        return self.post(self.request(method, params, id))

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a notification; the HTTP status."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        answer = self.post(message if params is None else {**message, "params": dict(params)})
        assert not answer.body or answer.status != 202
        return answer.status

    def respond(self, request: Mapping[str, Any], result: Any = None, error: Any = None) -> int:
        """Answer a request of the server; the HTTP status."""
        body = {"result": result} if error is None else {"error": error}
        return self.post({"jsonrpc": "2.0", "id": request["id"], **body}).status

    @contextlib.contextmanager
    def open(
        self, method: str, params: Mapping[str, Any] | None = None, id: str | int | None = None
    ) -> Iterator[Events]:
        """Send one request whose answer is a stream; leaving the block closes it."""
        message = self.request(method, params, id)
        with self._stream("POST", message) as response:
            yield Events(response, self, method, params or {}, message["id"])

    @contextlib.contextmanager
    def listen(
        self, last_event_id: str | None = None, of: tuple[str, Any, object] = ("", {}, None)
    ) -> Iterator[Events]:
        """The session's own stream; or, after `last_event_id`, the stream of the request that `of`
        names by its method, params and id."""
        with self._stream("GET", None, last_event_id=last_event_id, accept="text/event-stream") as response:
            yield Events(response, self, *of)

    @contextlib.contextmanager
    def _stream(self, verb: str, message: Any, **headers: str | None) -> Iterator[httpx2.Response]:
        content = None if message is None else json.dumps(message).encode()
        self._told(verb, self.headers(**headers), message)
        request = self.http.build_request(verb, self.url, content=content, headers=self.headers(**headers))
        response = self.http.send(request, stream=True)
        try:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream"), response.read()
            yield response
        finally:
            response.close()

    def delete(self) -> int:
        """End the session."""
        self._told("DELETE", self.headers(), None)
        response = self.http.request("DELETE", self.url, headers=self.headers())
        self._heard(response, [])
        return response.status_code

    # The same in the words of the protocol.

    def tool(self, tool: str, arguments: Mapping[str, Any] | None = None, **params: Any) -> Answer:
        """`tools/call` whose whole answer is read."""
        return self.call("tools/call", {"name": tool, "arguments": dict(arguments or {}), **params})

    def create(self, tool: str, arguments: Mapping[str, Any] | None = None, **task: Any) -> str:
        """The id of a new task."""
        found = self.tool(tool, arguments, task=task).result
        task_id: str = found["task"]["taskId"]
        return task_id

    def get(self, task_id: str) -> Answer:
        """`tasks/get`."""
        return self.call("tasks/get", {"taskId": task_id})

    def until(self, task_id: str, *statuses: str, seconds: float = 15.0) -> dict[str, Any]:
        """The task as soon as it shows one of the statuses."""
        return wait_for_status(lambda: self.get(task_id).result, task_id, statuses, seconds)
