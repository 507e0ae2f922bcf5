"""A small, strict MCP client of 2026-07-28: it sends what it is told and checks all that comes back."""

from __future__ import annotations

import contextlib
import itertools
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

import httpx2

from tests.protocol import schema
from tests.support.hub import wait_for_status
from tests.support.transcript import Transcript

VERSION: Final = "2026-07-28"
EXTENSION: Final = "io.modelcontextprotocol/tasks"
PREFIX: Final = "io.modelcontextprotocol/"
NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
NONE: Final[dict[str, Any]] = {}
TASKS: Final[dict[str, Any]] = {"extensions": {EXTENSION: {}}}
FORMS: Final[dict[str, Any]] = {"elicitation": {}}
EVERYTHING: Final[dict[str, Any]] = {**TASKS, "elicitation": {}, "sampling": {}, "roots": {}}
WITHOUT_TASKS: Final[dict[str, Any]] = {"elicitation": {}, "sampling": {}, "roots": {}}
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
# Never used: a client of its own would read all certificate authorities for nothing.
PATIENCE: Final = 20.0
"""No answer takes longer than this many seconds."""
TERMINAL: Final = ("completed", "failed", "cancelled")


@dataclass(frozen=True)
class Answer:
    """One HTTP answer. `messages` holds the JSON-RPC messages in it: one, or those of a stream."""

    status: int
    headers: httpx2.Headers
    body: bytes
    messages: tuple[dict[str, Any], ...] = field(default=())

    @property
    def streamed(self) -> bool:
        """Whether it came as an event stream."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def result(self) -> dict[str, Any]:
        """The result; fails when the answer is an error."""
        last = self.messages[-1]
        assert "result" in last, last
        found: dict[str, Any] = last["result"]
        return found

    @property
    def error(self) -> dict[str, Any]:
        """The error object; fails when the answer is a result."""
        last = self.messages[-1]
        assert "error" in last, last
        found: dict[str, Any] = last["error"]
        return found

    @property
    def refusal(self) -> tuple[int, int]:
        """HTTP status and error code."""
        return self.status, self.error["code"]

    @property
    def notifications(self) -> list[dict[str, Any]]:
        """What came before the response."""
        return list(self.messages[:-1])

    @property
    def text(self) -> str:
        """The text of the first content block."""
        found: str = self.result["content"][0]["text"]
        return found


class Frames:
    """An open event stream, message by message; each is checked as it comes."""

    def __init__(self, response: httpx2.Response, id: str | int, method: str) -> None:
        self.response = response
        self._id, self._method = id, method
        self._lines = response.iter_lines()

    def next(self) -> dict[str, Any]:
        """The next message. Fails after the client's read timeout, or when the stream is over."""
        found = next(self._messages(), None)
        assert found is not None, "the stream ended"
        return found

    def rest(self) -> list[dict[str, Any]]:
        """Everything until the server ends the stream."""
        return list(self._messages())

    def _messages(self) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + PATIENCE
        for line in self._lines:
            # Keep-alives hold the read timeout off for ever.
            assert time.monotonic() < deadline, f"nothing but keep-alives for {PATIENCE:g} s"
            if line.startswith("data: "):
                message: dict[str, Any] = json.loads(line.removeprefix("data: "))
                schema.check_message(self._method, self._id, message, streamed=True)
                yield message
            else:
                # B26-08: one message per data line, comments as keep-alive, no event ids.
                assert line in ("", "event: message") or line.startswith(":"), line


class Client:
    """One caller with one token. Close it, or use it as a context manager."""

    def __init__(
        self, base: str, token: str | None, transcript: Transcript | None = None, tls: ssl.SSLContext = _NO_TLS
    ) -> None:
        self.base = base
        self.token = token
        self.transcript = transcript
        self._ids = itertools.count(1)
        self._http = httpx2.Client(timeout=httpx2.Timeout(15.0), trust_env=False, verify=tls)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections."""
        self._http.close()

    def message(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        caps: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        id: str | int | None = None,
    ) -> dict[str, Any]:
        """A well-formed request. A `None` in `meta` leaves that key out."""
        full = {
            PREFIX + "protocolVersion": VERSION,
            PREFIX + "clientInfo": {"name": "tests", "version": "1"},
            PREFIX + "clientCapabilities": dict(caps or {}),
            **(meta or {}),
        }
        return {
            "jsonrpc": "2.0",
            "id": next(self._ids) if id is None else id,
            "method": method,
            "params": {**(params or {}), "_meta": {key: value for key, value in full.items() if value is not None}},
        }

    def headers(
        self, message: Mapping[str, Any], changes: Mapping[str, str | None] | None = None, name: str | None = None
    ) -> dict[str, str]:
        """The headers that belong to `message`; a `None` in `changes` leaves that header out."""
        method = str(message.get("method", ""))
        found: dict[str, str | None] = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": method,
        }
        if self.token is not None:
            found["authorization"] = f"Bearer {self.token}"
        named = name if name is not None else (message.get("params") or {}).get(NAMED.get(method, ""))
        if isinstance(named, str):
            found["mcp-name"] = named
        found.update({key.lower(): value for key, value in (changes or {}).items()})
        return {key: value for key, value in found.items() if value is not None}

    def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        caps: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        headers: Mapping[str, str | None] | None = None,
        id: str | int | None = None,
    ) -> Answer:
        """Send one request and read its whole answer."""
        message = self.message(method, params, caps=caps, meta=meta, id=id)
        return self.send(message, self.headers(message, headers, name))

    def send(self, message: Mapping[str, Any], headers: Mapping[str, str] | list[tuple[str, str]]) -> Answer:
        """Send a message that may be anything, with headers that may be anything."""
        return self.post(
            json.dumps(message).encode(), headers, method=str(message.get("method", "")), id=message.get("id")
        )

    def post(
        self,
        body: bytes,
        headers: Mapping[str, str] | list[tuple[str, str]],
        *,
        method: str = "",
        id: object = None,
    ) -> Answer:
        """Send bytes."""
        deadline = time.monotonic() + PATIENCE
        if self.transcript is not None:
            self.transcript.sent("POST", "/mcp", dict(headers), json.loads(body))
        with self._http.stream("POST", f"{self.base}/mcp", content=body, headers=headers) as response:
            received = b""
            for chunk in response.iter_bytes():
                received += chunk
                assert time.monotonic() < deadline, f"no answer within {PATIENCE:g} s, only {received!r}"
        found = Answer(response.status_code, response.headers, received, tuple(_messages(response.headers, received)))
        schema.check_headers(response.status_code, response.headers)
        if self.transcript is not None:
            kind = response.headers.get("content-type", "").partition(";")[0]
            self.transcript.received(found.status, kind, list(found.messages), response.headers)
        for place, message in enumerate(found.messages):
            schema.check_message(method, id, message, streamed=found.streamed)
            assert ("method" not in message) == (place == len(found.messages) - 1), "the response comes last"
        return found

    @contextlib.contextmanager
    def stream(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        caps: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        id: str | int | None = None,
    ) -> Iterator[Frames]:
        """Send one request whose answer is an event stream; leaving the block closes it."""
        message = self.message(method, params, caps=caps, meta=meta, id=id)
        request = self._http.build_request("POST", f"{self.base}/mcp", json=message, headers=self.headers(message))
        response = self._http.send(request, stream=True)
        try:
            schema.check_headers(response.status_code, response.headers)
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream"), response.read()
            frames = Frames(response, message["id"], method)  # named: dropped, it would close the stream
            yield frames
        finally:
            response.close()

    # The same in the words of the protocol.

    def tool(self, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Answer:
        """`tools/call`. `params` in `more` adds to the parameters."""
        params = {"name": tool, "arguments": dict(arguments or {}), **more.pop("params", {})}
        return self.call("tools/call", params, **more)

    def create(self, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> str:
        """The id of a new task."""
        more.setdefault("caps", EVERYTHING)
        found = self.tool(tool, arguments, **more).result
        assert found["resultType"] == "task", found
        task_id: str = found["taskId"]
        return task_id

    def get(self, task_id: str, **more: Any) -> Answer:
        """`tasks/get`."""
        more.setdefault("caps", TASKS)
        return self.call("tasks/get", {"taskId": task_id}, **more)

    def update(self, task_id: str, responses: Any, **more: Any) -> Answer:
        """`tasks/update`."""
        more.setdefault("caps", TASKS)
        return self.call("tasks/update", {"taskId": task_id, "inputResponses": responses}, **more)

    def cancel(self, task_id: str, **more: Any) -> Answer:
        """`tasks/cancel`."""
        more.setdefault("caps", TASKS)
        return self.call("tasks/cancel", {"taskId": task_id}, **more)

    def until(self, task_id: str, *statuses: str, seconds: float = 15.0) -> dict[str, Any]:
        """The task as soon as it shows one of the statuses."""
        return wait_for_status(lambda: self.get(task_id).result, task_id, statuses, seconds)


def _messages(headers: httpx2.Headers, body: bytes) -> Iterator[dict[str, Any]]:
    if headers.get("content-type", "").startswith("text/event-stream"):
        for line in body.decode().split("\n"):
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))
    elif body:
        yield json.loads(body)


def accept(**content: Any) -> dict[str, Any]:
    """The answer of somebody who fills in a form."""
    return {"action": "accept", "content": content}
