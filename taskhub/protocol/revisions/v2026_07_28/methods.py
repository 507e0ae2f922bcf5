"""The methods of 2026-07-28: how a request is checked, `server/discover`, `tools/call`, and the table of all
methods."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from taskhub.core.names import TASKS_EXTENSION
from taskhub.core.records import TaskMode
from taskhub.protocol import calls
from taskhub.protocol.envelope import Envelope
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply, Stream
from taskhub.protocol.plain.tools import is_hub_tool
from taskhub.protocol.revision import Handler, Revision
from taskhub.protocol.revisions.v2026_07_28 import VERSION, listen, lists, offers, tasks
from taskhub.protocol.stateless import rounds
from taskhub.protocol.stateless.request import Request, checked_request, responded
from taskhub.protocol.stateless.shapes import reply

NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Methods that need `Mcp-Name`, and the parameter it repeats (B26-22)."""


async def check(hub: Hub, incoming: Incoming, envelope: Envelope) -> Request:
    """The checked request of an envelope. Raises `WireError` for the first check that fails."""
    return checked(envelope, incoming, hub.versions)


def checked(envelope: Envelope, incoming: Incoming, versions: tuple[str, ...]) -> Request:
    """What `check` returns, for a hub that serves these `versions`."""
    # Published clients (fastmcp-tasks 4.1) send no Mcp-Name with tasks/*, so the header may be missing for these
    # methods. A value that differs from the body is refused, as it is for all methods.
    nameless = envelope.method.startswith("tasks/")
    return checked_request(envelope, incoming, known=KNOWN, named=NAMED, versions=versions, nameless=nameless)


async def notified(hub: Hub, incoming: Incoming, envelope: Envelope) -> None:
    """Accepted without effect: the revision defines no client notification over HTTP (B26-06, B26-82)."""


async def discover(hub: Hub, request: Request) -> Reply:
    """The server's versions and capabilities (B26-42, B26-43, T26-01, T26-02)."""
    found = {
        "supportedVersions": list(hub.versions),
        "capabilities": {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "completions": {},
            "logging": {},
            "extensions": {TASKS_EXTENSION: {}},
        },
        "ttlMs": lists.TTL_MS,
        "cacheScope": "private",
    }
    return reply(hub, request, found)


WORDING: Final = rounds.Wording(VERSION, round="input_required", handle=tasks.created, asks_in_task=False)


async def call_tool(hub: Hub, request: Request) -> Reply | Stream:
    """A handle, if the request declares the tasks extension; questions that come before the handle are asked in rounds,
    not in the task (T26-47). Without the extension the caller waits for the result, or gets -32021 if the tool requires
    a task (T26-05)."""
    declared = tasks.declares_tasks(request.capabilities)
    if not declared and is_hub_tool(request.params):
        return await rounds.hub_tool(hub, request, WORDING)
    calls.need_scope(request.principal, "tasks:call")
    tool, arguments = await rounds.wanted(hub, request)
    if tool.mode is TaskMode.REQUIRED:
        tasks.need_tasks(request.capabilities)
    return await rounds.answered(hub, request, tool, arguments, WORDING, handle=declared)


_METHODS: Final[Mapping[str, Handler[Request]]] = MappingProxyType(
    {
        "server/discover": discover,
        "tools/list": lists.list_tools,
        "tools/call": call_tool,
        "prompts/list": lists.list_prompts,
        "prompts/get": offers.get_prompt,
        "resources/list": lists.list_resources,
        "resources/templates/list": lists.list_templates,
        "resources/read": offers.read_resource,
        "completion/complete": offers.complete,
        "subscriptions/listen": listen.listen,
        "tasks/get": tasks.get,
        "tasks/update": tasks.update,
        "tasks/cancel": tasks.cancel,
    }
)
KNOWN: Final = frozenset(_METHODS)
REVISION: Final[Revision[Request]] = Revision(
    methods=MappingProxyType({VERSION: _METHODS}),
    check=check,
    notified=notified,
    responded=responded,
    shown=tasks.wire_view,
)
