"""Receives clicks in Slack over a WebSocket that the hub opens (Socket Mode), so that Slack needs no access to the hub.

Slack sends each click to one of the app's connections. The click is acknowledged when the decision is stored. Without
an acknowledgement, Slack tells the person that the click failed, and they click again.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from taskhub.lib.throttle import Throttle
from taskhub.notify.slack.sending import Slack, client
from taskhub.notify.slack.writing import APPROVE, REASON, REJECT

CONNECT_SECONDS: Final = 30.0
"""Seconds in which Slack has to accept a connection."""
LOOK_SECONDS: Final = 5.0
"""Seconds between two checks whether the connection still works."""
LOST_SECONDS: Final = 60.0
"""A connection that has been broken for this many seconds is given up, and another one is made."""
AT_ONCE: Final = 20
"""The most clicks that one worker handles at a time. Further clicks are not acknowledged, and fail in Slack."""

TOLD_SECONDS: Final = 60.0
"""The least time between two log entries that say the same."""

logger = logging.getLogger(__name__)
_told: dict[str, Throttle] = {}


@dataclass(frozen=True, slots=True)
class Press:
    """A click on a button, or (with a `reason`) the dialog that such a click opened, as it was sent. `account` is
    `team:user`."""

    what: str
    card: str
    account: str = field(repr=False)
    trigger: str = field(repr=False)
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a click. `problem` is shown in the dialog, beside the reason; empty for none. `after` is called
    when the click has been acknowledged."""

    problem: str = ""
    after: Callable[[], Awaitable[None]] | None = None


Handler = Callable[[Press], Awaitable[Reply]]


class Listener:
    """One connection to Slack, from one event loop."""

    def __init__(self, slack: Slack, handle: Handler) -> None:
        """`handle` handles a click. If it raises, the click is not acknowledged."""
        self._slack, self._handle = slack, handle
        self._busy = 0

    async def run(self) -> None:
        """Receive clicks until the connection is lost for good, or this is cancelled."""
        web = client(self._slack)
        quiet = logging.getLogger(f"{__name__}.sdk")
        quiet.addFilter(_brief)
        socket = SocketModeClient(self._slack.app_token, logger=quiet, web_client=web)
        socket.socket_mode_request_listeners.append(self._hear)  # type: ignore[arg-type]  # of the base class
        try:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    socket.wss_uri = await socket.issue_new_wss_url()
                    await socket.connect()  # type: ignore[no-untyped-call]  # it has no types
            except (TimeoutError, SlackClientError, aiohttp.ClientError, OSError) as error:
                logger.warning("Slack gives no connection for clicks: %s", _why(error))
                await asyncio.sleep(LOOK_SECONDS)
                return
            logger.info("connected to Slack")
            lost = 0.0
            while lost < LOST_SECONDS:
                await asyncio.sleep(LOOK_SECONDS)
                lost = 0.0 if await socket.is_connected() else lost + LOOK_SECONDS
            logger.warning("the connection to Slack is lost: another one is made")
        finally:
            await socket.close()  # type: ignore[no-untyped-call]  # it has no types
            # The client cancels its tasks and does not wait for them, so they would outlive the loop.
            tasks = (socket.message_processor, socket.current_session_monitor, socket.message_receiver)
            await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)

    async def _hear(self, socket: SocketModeClient, request: SocketModeRequest) -> None:
        press = pressed(request.type, request.payload)
        if press is None:
            await socket.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
            return
        if self._busy >= AT_ONCE:
            logger.warning("a click in Slack was not taken: %d are under way", self._busy)
            return
        self._busy += 1
        try:
            reply = await self._handle(press)
            payload = None
            if reply.problem:
                payload = {"response_action": "errors", "errors": {REASON: reply.problem}}
            await socket.send_socket_mode_response(SocketModeResponse(request.envelope_id, payload))
            if reply.after is not None:
                await reply.after()
        finally:
            self._busy -= 1


def pressed(kind: str, payload: Any) -> Press | None:
    """The click in a request from Slack; `None` if the request is not about one of the hub's buttons."""
    if kind != "interactive" or not isinstance(payload, dict):
        return None
    user = _member(payload, "user")
    team = user.get("team_id") or _member(payload, "team").get("id")
    account = f"{team}:{user.get('id')}"
    trigger = str(payload.get("trigger_id", ""))
    if payload.get("type") == "view_submission":
        view = _member(payload, "view")
        values = _member(_member(_member(view, "state"), "values"), REASON)
        reason = _member(values, REASON).get("value")
        if view.get("callback_id") != REJECT:
            return None
        return Press(REJECT, str(view.get("private_metadata", "")), account, trigger, str(reason or ""))
    actions = payload.get("actions")
    if payload.get("type") != "block_actions" or not isinstance(actions, list) or not actions:
        return None
    action = actions[0] if isinstance(actions[0], dict) else {}
    if action.get("action_id") not in (APPROVE, REJECT):
        return None
    return Press(str(action["action_id"]), str(action.get("value", "")), account, trigger)


def _member(of: dict[str, Any], name: str) -> dict[str, Any]:
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS:g} s"
    response = getattr(error, "response", None)
    data = getattr(response, "data", None)
    return str(data.get("error")) if isinstance(data, dict) else type(error).__name__


def _brief(record: logging.LogRecord) -> bool:
    """A filter for log records. It cuts off tracebacks and the addresses of connections, which would let anybody in.
    Returns whether to log the record: a message that repeats while Slack is away is logged once in `TOLD_SECONDS`."""
    record.msg, record.args = re.split("[(:]", str(record.msg), maxsplit=1)[0].strip(), None
    record.exc_info = record.exc_text = None
    return record.levelno >= logging.WARNING and _told.setdefault(record.msg, Throttle(TOLD_SECONDS))()
