"""The table of the methods of 2025-11-25, 2025-06-18 and 2025-03-26, and how a request is checked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from taskhub.domain.sessions.writes import set_log_level
from taskhub.protocol.envelope import Envelope, result_reply
from taskhub.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply
from taskhub.protocol.lines import LOG_LEVELS
from taskhub.protocol.revision import Handler, Methods, Revision
from taskhub.protocol.revisions.v2025_11_25 import lists, offers, sessions, shown, streams, tasks, toolcall, wire
from taskhub.protocol.revisions.v2025_11_25.sep_1686 import PROFILE
from taskhub.protocol.revisions.v2025_11_25.wire import OLDER, VERSION, Request


async def check(hub: Hub, incoming: Incoming, envelope: Envelope) -> Request:
    """The request with its session. Raises -32601 for a method that the session's version does not have."""
    session = None if envelope.method == "initialize" else await sessions.session_of(hub, incoming)
    version = VERSION if session is None else session.version
    if envelope.method not in METHODS[version]:
        raise WireError(METHOD_NOT_FOUND, f"Method not found: {envelope.method[:128]}")
    assert envelope.id is not None  # `dispatch` passes no notifications
    return Request(
        version=version,
        id=envelope.id,
        method=envelope.method,
        params=envelope.params,
        meta=envelope.meta,
        session=session,
        principal=incoming.principal,
        incoming=incoming,
    )


async def ping(hub: Hub, request: Request) -> Reply:
    """The empty result, exactly `{}` (B25-23)."""
    return result_reply(request.id, b"{}")


async def set_level(hub: Hub, request: Request) -> Reply:
    """Set the lowest level of the log lines that this session gets (B25-24)."""
    level = request.params.get("level")
    if level not in LOG_LEVELS:
        raise WireError(INVALID_PARAMS, f"level must be one of {', '.join(LOG_LEVELS)}")
    await hub.lanes.run(set_log_level, request.on.id, level)
    return result_reply(request.id, b"{}")


_EVERY: Final[Mapping[str, Handler[Request]]] = {
    "initialize": sessions.initialize,
    "ping": ping,
    "logging/setLevel": set_level,
    "tools/list": lists.list_tools,
    "tools/call": toolcall.call,
    "prompts/list": lists.list_prompts,
    "prompts/get": offers.get_prompt,
    "resources/list": lists.list_resources,
    "resources/templates/list": lists.list_templates,
    "resources/read": offers.read_resource,
    "resources/subscribe": offers.subscribe,
    "resources/unsubscribe": offers.unsubscribe,
    "completion/complete": offers.complete,
}
METHODS: Final[Methods[Request]] = MappingProxyType(
    {
        VERSION: MappingProxyType(
            {
                **_EVERY,
                "tools/call": toolcall.call_or_task,
                "tasks/get": tasks.get,
                "tasks/result": tasks.result,
                "tasks/list": tasks.list_tasks,
                "tasks/cancel": tasks.cancel,
                "tasks/delete": tasks.of_profile,
            }
        ),
        **{
            version: MappingProxyType(
                {
                    **_EVERY,
                    "tasks/list": tasks.list_tasks,
                    **dict.fromkeys(("tasks/get", "tasks/result", "tasks/delete"), tasks.of_profile),
                }
            )
            for version in OLDER
        },
    }
)
REVISION: Final[Revision[Request]] = Revision(
    methods=METHODS,
    check=check,
    notified=sessions.notified,
    responded=sessions.responded,
    shown=shown.wire_view,
    speaks=wire.speaks,
    verbs=MappingProxyType({"GET": streams.listen, "DELETE": sessions.end}),
    status_of=wire.status_of,
    statuses_sent_as_200=wire.STATUSES_SENT_AS_200,
    profiles=(PROFILE,),
)
