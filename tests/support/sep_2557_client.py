"""A client of SEP-2557 as somebody might have written it from the proposal: it declares nothing about
tasks, takes one when it is given one, answers in `tasks/get`, and echoes the latest `requestState`.

It knows nothing of the server but its address, and checks all that comes back.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import httpx2

from tests.protocol import schema_2557
from tests.support.hub import wait_until
from tests.support.transcript import Transcript

WIRE: Final = "2026-07-28"
PREFIX: Final = "io.modelcontextprotocol/"
NAMED: Final = {"tools/call": "name", "tasks/get": "taskId", "tasks/cancel": "taskId"}
ASKABLE: Final[dict[str, Any]] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""What this client can be asked. Of tasks it says nothing: there is nothing to say."""

_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    status: int
    headers: httpx2.Headers
    messages: tuple[dict[str, Any], ...]

    @property
    def result(self) -> dict[str, Any]:
        """The result; fails when the answer is an error."""
        assert self.messages, f"{self.status} and nothing"
        assert "result" in self.messages[-1], self.messages[-1]
        found: dict[str, Any] = self.messages[-1]["result"]
        return found

    @property
    def refusal(self) -> tuple[int, int]:
        """HTTP status and error code; fails when the answer is a result."""
        assert "error" in self.messages[-1], self.messages[-1]
        return self.status, self.messages[-1]["error"]["code"]

    @property
    def reason(self) -> str:
        """What the error says."""
        assert "error" in self.messages[-1], self.messages[-1]
        return str(self.messages[-1]["error"]["message"])


class Historical:
    """One caller with one token. `states` holds the latest `requestState` of each task."""

    def __init__(
        self, base: str, token: str | None, path: str = "/mcp/sep-2557", transcript: Transcript | None = None
    ) -> None:
        self.transcript = transcript
        self.url = base + path
        self.token = token
        self.states: dict[str, str] = {}
        self.received: list[dict[str, Any]] = []
        self._ids = itertools.count(1)
        self._http = httpx2.Client(timeout=httpx2.Timeout(20.0), trust_env=False, verify=_NO_TLS)

    def __enter__(self) -> Historical:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._http.close()

    def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, caps: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """A well-formed request."""
        meta = {
            PREFIX + "protocolVersion": WIRE,
            PREFIX + "clientInfo": {"name": "historical", "version": "1"},
            PREFIX + "clientCapabilities": dict(ASKABLE if caps is None else caps),
        }
        body = {"_meta": meta, **(params or {})}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": body}

    def headers(self, message: Mapping[str, Any], changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """The headers that belong to `message`; a `None` in `changes` leaves that header out."""
        found: dict[str, str | None] = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": WIRE,
            "mcp-method": str(message.get("method", "")),
            "mcp-name": (message.get("params") or {}).get(NAMED.get(str(message.get("method")), "")),
            "authorization": None if self.token is None else f"Bearer {self.token}",
            **(changes or {}),
        }
        return {key: value for key, value in found.items() if isinstance(value, str)}

    def send(self, message: Mapping[str, Any], headers: Mapping[str, str | None] | None = None) -> Answer:
        """Send a message that may be anything, and check what comes back."""
        sent = self.headers(message, headers)
        if self.transcript is not None:
            self.transcript.sent("POST", httpx2.URL(self.url).path, sent, message)
        response = self._http.post(self.url, content=json.dumps(message).encode(), headers=sent)
        assert "mcp-session-id" not in response.headers
        messages = tuple(_messages(response))
        if self.transcript is not None:
            kind = response.headers.get("content-type", "").partition(";")[0]
            self.transcript.received(response.status_code, kind, list(messages), response.headers)
        for found in messages:
            self._take(str(message.get("method", "")), message.get("id"), found)
        return Answer(response.status_code, response.headers, messages)

    def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        caps: Mapping[str, Any] | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Answer:
        """Send one request and read its whole answer."""
        return self.send(self.request(method, params, caps=caps), headers)

    def tool(self, name: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Answer:
        """`tools/call`. `params` in `more` adds to the parameters."""
        return self.call(
            "tools/call", {"name": name, "arguments": dict(arguments or {}), **more.pop("params", {})}, **more
        )

    def create(self, name: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The new task that a call was answered with."""
        found = self.tool(name, arguments, **more).result
        assert found["resultType"] == "task", found
        task: dict[str, Any] = found["task"]
        return task

    def get(self, task_id: str, responses: Mapping[str, Any] | None = None, **params: Any) -> Answer:
        """`tasks/get`, with answers if there are any, echoing the latest `requestState`."""
        return self.call("tasks/get", self._about(task_id, responses, params))

    def cancel(self, task_id: str, **params: Any) -> Answer:
        """`tasks/cancel`, likewise."""
        return self.call("tasks/cancel", self._about(task_id, None, params))

    def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        """The task as soon as it shows one of the statuses."""

        def look() -> dict[str, Any] | None:
            found = self.get(task_id).result
            return found if found["status"] in statuses else None

        return wait_until(look, f"{task_id} to be {' or '.join(statuses)}", 15.0)

    @contextlib.contextmanager
    def listen(self, *task_ids: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The messages of a subscription to these tasks; leaving the block closes it."""
        message = self.request("subscriptions/listen", {"notifications": {"taskIds": list(task_ids)}})
        with self._http.stream("POST", self.url, json=message, headers=self.headers(message)) as response:
            assert response.status_code == 200, response.read()
            yield self._stream(response, message["id"])

    def _stream(self, response: httpx2.Response, id: object) -> Iterator[dict[str, Any]]:
        for line in response.iter_lines():
            if line.startswith("data: "):
                found: dict[str, Any] = json.loads(line.removeprefix("data: "))
                self._take("subscriptions/listen", id, found)
                yield found

    def _about(self, task_id: str, responses: Mapping[str, Any] | None, params: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"taskId": task_id}
        if task_id in self.states:
            found["requestState"] = self.states[task_id]
        if responses is not None:
            found["inputResponses"] = dict(responses)
        # A `None` leaves the field out.
        return {key: value for key, value in {**found, **params}.items() if value is not None}

    def _take(self, method: str, id: object, message: dict[str, Any]) -> None:
        schema_2557.check_message(method, id, message)
        self.received.append(message)
        for body in (message.get("result") or {}, (message.get("result") or {}).get("task"), message.get("params")):
            if isinstance(body, dict) and "taskId" in body:
                self.states[body["taskId"]] = body["requestState"]


def _messages(response: httpx2.Response) -> Iterator[dict[str, Any]]:
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        for line in response.text.split("\n"):
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))
    elif response.content:
        yield response.json()


def accept(**content: Any) -> dict[str, Any]:
    """The answer of somebody who fills in a form."""
    return {"action": "accept", "content": content}
