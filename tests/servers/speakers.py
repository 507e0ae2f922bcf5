"""Clients of three kinds: of 2026-07-28 with the tasks extension, of 2025-11-25 that calls tools as tasks, and one that
knows no tasks (2025-06-18). They speak to a hub and to a server alike, and give what came as it came."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.servers.transports import Message, Transport

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
CAPABILITIES: Final[dict[str, Any]] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
RELATED: Final = f"{PREFIX}related-task"
HOSTED: Final[dict[str, Any]] = {
    "list": {},
    "cancel": {},
    "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}},
}
LISTS: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
SECONDS: Final = 40.0
"""No call takes longer."""
CANCELLED: Final = "the task is cancelled"
ENDED: Final = ("completed", "failed", "cancelled")

Answers = Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]
"""How a person, or a model, answers what a server asks: by the method of its request, made from the params."""


class Refused(Exception):
    """A JSON-RPC error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.error = error


@dataclass
class Said:
    """What a call came to, and what was asked before."""

    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    seconds: float = 0.0
    """How long it took."""


def accept(**content: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The answer of somebody who fills in a form; of somebody who opened a page, without content."""
    return lambda params: {"action": "accept", **({"content": content} if params.get("mode") != "url" else {})}


ANSWERS: Final[Answers] = {
    "elicitation/create": lambda params: {"action": "decline"},
    "sampling/createMessage": lambda params: {
        "role": "assistant",
        "content": {"type": "text", "text": "In short."},
        "model": "m",
        "stopReason": "endTurn",
    },
    "roots/list": lambda params: {"roots": [{"uri": "file:///srv/data", "name": "data"}]},
}


class Speaker:
    """One client with one connection. Use it as a context manager."""

    def __init__(self, transport: Transport, version: str, *, tasks: bool = False, deaf: bool = False) -> None:
        """`tasks`: whether it calls tools as tasks where it may. `deaf`: declares nothing that a server may ask."""
        self.version, self.tasks = version, tasks
        self.modern = version >= "2026"
        self.capabilities: dict[str, Any] = {} if deaf else dict(CAPABILITIES)
        if tasks and self.modern:
            self.capabilities["extensions"] = {EXTENSION: {}}
        elif tasks:
            self.capabilities["tasks"] = HOSTED
        if self.modern is False and version < "2025-06":
            self.capabilities.pop("elicitation", None)
        self.server: dict[str, Any] = {}
        """What the server says of itself."""
        self.notifications: list[Message] = []
        self.support: dict[str, str] = {}
        """Whether its tools run as tasks, by name, as they were listed."""
        self._transport = transport
        self._ids = itertools.count(1)
        self._waiting: dict[object, asyncio.Future[Message]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._answers: Answers = ANSWERS
        self._said = Said()
        self._hosted: dict[str, dict[str, Any]] = {}
        """The answers to what was asked with `params.task`, by the ids of the tasks that were made of it."""

    async def __aenter__(self) -> Speaker:
        await self._transport.open(self._heard)
        try:
            if self.modern:
                self.server = await self.request("server/discover")
            else:
                about = {"name": "matrix", "version": "1"}
                params = {
                    "protocolVersion": self.version,
                    "capabilities": self.capabilities,
                    "clientInfo": about,
                }
                self.server = await self.request("initialize", params)
                self.version = self.server["protocolVersion"]
                await self.notify("notifications/initialized")
        except BaseException:
            await self._transport.close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._answering:
            task.cancel()
        await self._transport.close()

    # Messages ----------------------------------------------------------------------------------

    def _heard(self, message: Message | None) -> None:
        if message is None:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the server ended the connection"))
        elif "method" in message and "id" in message:
            answering = asyncio.create_task(self._answer(message))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)
        elif "method" in message:
            self.notifications.append(message)
        elif (found := self._waiting.pop(message.get("id"), None)) is not None and not found.done():
            found.set_result(message)

    async def _answer(self, message: Message) -> None:
        if message["method"] == "ping":
            body: dict[str, Any] = {"result": {}}
        elif (answer := self._answers.get(message["method"])) is not None:
            params = message.get("params") or {}
            if message["method"] != "roots/list":  # which servers ask whenever they like
                self._said.asked.append((message["method"], params))
            body = {"result": self._host(answer(params)) if "task" in params else answer(params)}
        elif (task := str((message.get("params") or {}).get("taskId"))) in self._hosted:
            body = {"result": self._told(message["method"], task)}
        else:
            body = {"error": {"code": -32601, "message": "Method not found"}}
        await self._transport.send({"jsonrpc": "2.0", "id": message["id"], **body}, self._headers("", {}))

    def _host(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Keep an answer until it is fetched; the task that is told at once."""
        task = f"hosted-{next(self._ids)}"
        self._hosted[task] = {**answer, "_meta": {RELATED: {"taskId": task}}}
        return {"task": {**self._told("tasks/get", task), "status": "working"}}

    def _told(self, method: str, task: str) -> dict[str, Any]:
        if method == "tasks/result":
            return self._hosted[task]
        at = datetime.datetime.now(datetime.UTC).isoformat()
        return {"taskId": task, "status": "completed", "createdAt": at, "lastUpdatedAt": at, "ttl": None}

    def _headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        if method == "initialize":
            return {}
        found = {"mcp-protocol-version": self.version}
        if self.modern:
            found["mcp-method"] = method
            if isinstance(named := params.get(NAMED.get(method, "")), str):
                found["mcp-name"] = named
        return found

    def _message(self, method: str, params: Mapping[str, Any] | None) -> Message:
        full = dict(params or {})
        if self.modern:
            full["_meta"] = {
                **full.get("_meta", {}),
                PREFIX + "protocolVersion": self.version,
                PREFIX + "clientInfo": {"name": "matrix", "version": "1"},
                PREFIX + "clientCapabilities": self.capabilities,
            }
        return {"jsonrpc": "2.0", "method": method, **({"params": full} if full else {})}

    async def begin(
        self, method: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[object, asyncio.Future[Message]]:
        """Send a request; its id, and what will have the answer."""
        message = {**self._message(method, params), "id": next(self._ids)}
        waiting = self._waiting[message["id"]] = asyncio.get_running_loop().create_future()
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # somebody may have left
        await self._transport.send(message, {**self._headers(method, message.get("params", {})), **(headers or {})})
        return message["id"], waiting

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The result of a request. Raises `Refused`, `TimeoutError`, `ConnectionError`."""
        _, waiting = await self.begin(method, params, headers)
        async with asyncio.timeout(SECONDS):
            message = await waiting
        if "error" in message:
            raise Refused(message["error"])
        found: dict[str, Any] = message["result"]
        return found

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        message = self._message(method, params)
        await self._transport.send(message, self._headers(method, message.get("params", {})))

    # What users do -------------------------------------------------------------------------------

    async def listed(self, method: str) -> list[dict[str, Any]]:
        """All pages of a list; an empty one where the server has none."""
        found: list[dict[str, Any]] = []
        cursor: dict[str, Any] = {}
        while True:
            try:
                page = await self.request(method, cursor)
            except Refused as error:
                if error.error.get("code") == -32601:
                    return []
                raise
            found += page[LISTS[method]]
            if not page.get("nextCursor"):
                break
            cursor = {"cursor": page["nextCursor"]}
        if method == "tools/list":
            self.support = {tool["name"]: (tool.get("execution") or {}).get("taskSupport", "") for tool in found}
            self._mirrored = {tool["name"]: _mirrored(tool) for tool in found}
        return found

    async def call(self, tool: str, arguments: Mapping[str, Any], answers: Answers | None = None) -> Said:
        """Call a tool to its end, whatever it asks on its way."""
        self._answers = {**ANSWERS, **(answers or {})}
        said = self._said = Said()
        began = time.monotonic()
        params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)}
        headers = self._parameters(tool, arguments)
        try:
            if self.modern:
                said.result = await self._modern(params, headers)
            elif self.tasks and self.support.get(tool) in ("optional", "required"):
                task = (await self.request("tools/call", {**params, "task": {"ttl": 600_000}}))["task"]
                said.result = await self.request("tasks/result", {"taskId": task["taskId"]})
            else:
                said.result = await self.request("tools/call", params)
        except Refused as error:
            said.error = error.error
        said.seconds = time.monotonic() - began
        return said

    def _parameters(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        """The headers that mirror arguments (2026-07-28)."""
        if not self.modern:
            return {}
        named = self._mirrored.get(tool, {})
        return {f"mcp-param-{header}": str(arguments[name]) for name, header in named.items() if name in arguments}

    async def _modern(self, params: dict[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        found = await self.request("tools/call", params, headers)
        while found.get("resultType") == "input_required":
            again = {"inputResponses": self._responses(found.get("inputRequests") or {})}
            if "requestState" in found:
                again["requestState"] = found["requestState"]
            found = await self.request("tools/call", {**params, **again}, headers)
        if found.get("resultType") != "task":
            return found
        async with asyncio.timeout(SECONDS):
            return await self._ended(found["taskId"])

    async def _ended(self, task_id: str) -> dict[str, Any]:
        given: set[str] = set()
        while (task := await self.request("tasks/get", {"taskId": task_id}))["status"] not in ENDED:
            asked = {key: value for key, value in (task.get("inputRequests") or {}).items() if key not in given}
            if task["status"] == "input_required" and asked:
                given |= set(asked)
                responses = self._responses(asked)
                await self.request("tasks/update", {"taskId": task_id, "inputResponses": responses})
            else:
                await asyncio.sleep(min(task.get("pollIntervalMs") or 500, 500) / 1000)
        if task["status"] == "completed":
            result: dict[str, Any] = task["result"]
            return result
        raise Refused(
            task.get("error") or {"code": 0, "message": CANCELLED if task["status"] == "cancelled" else "failed"}
        )

    def _responses(self, requests: Mapping[str, Message]) -> dict[str, Any]:
        found = {}
        for key, request in requests.items():
            if request["method"] != "roots/list":
                self._said.asked.append((request["method"], request.get("params") or {}))
            found[key] = self._answers[request["method"]](request.get("params") or {})
        return found

    async def cancelled(self, tool: str, arguments: Mapping[str, Any], seconds: float) -> str:
        """Call a tool, cancel it after so many seconds in the way of its version, and say what came of it: the status
        of a task, `left` where nothing was answered, else the answer."""
        self._answers = ANSWERS
        params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)}
        if self.tasks and not self.modern and self.support.get(tool) in ("optional", "required"):
            task = (await self.request("tools/call", {**params, "task": {"ttl": 600_000}}))["task"]
            await asyncio.sleep(seconds)
            return str((await self.request("tasks/cancel", {"taskId": task["taskId"]}))["status"])
        request_id, waiting = await self.begin("tools/call", params, self._parameters(tool, arguments))
        done, _ = await asyncio.wait([waiting], timeout=seconds)
        if done and (waiting.result().get("result") or {}).get("resultType") == "task":
            task_id = waiting.result()["result"]["taskId"]
            await asyncio.sleep(seconds)
            await self.request("tasks/cancel", {"taskId": task_id})
            try:
                await self._ended(task_id)
            except Refused as error:
                return "cancelled" if error.error["message"] == CANCELLED else str(error)
            return "completed although it was cancelled"
        if done:
            return f"answered before it was cancelled: {waiting.result()}"
        await self.notify("notifications/cancelled", {"requestId": request_id, "reason": "enough"})
        await self._transport.leave(request_id)
        return "left"


def _mirrored(tool: dict[str, Any]) -> dict[str, str]:
    properties = (tool.get("inputSchema") or {}).get("properties") or {}
    return {
        name: schema["x-mcp-header"]
        for name, schema in properties.items()
        if isinstance(schema, dict) and "x-mcp-header" in schema
    }
