"""Slack on this machine: what the hub uses of its published API (Web API and Socket Mode), for one workspace. It
refuses what Slack would refuse: wrong tokens, blocks that are too long or not known, triggers that are too old."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import threading
import warnings
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

TEAM = "T0HUB"
BOT, APP = "xoxb-of-the-bot", "xapp-of-the-app"

Args = dict[str, Any]


@dataclass
class Posted:
    """A message as it stands now, with all that it was."""

    ts: str
    conversation: str
    user: str
    args: Args
    before: list[Args] = field(default_factory=list)

    @property
    def blocks(self) -> list[Args]:
        return list(self.args["blocks"])

    @property
    def text(self) -> str:
        """All that is read in it, one text a line."""
        return "\n".join(texts(self.blocks))

    def buttons(self, card: int = 0) -> list[str]:
        """The ids of the buttons of a card, by its place."""
        return [one["action_id"] for one in self._actions(card)]

    def button(self, action: str, card: int = 0) -> Args:
        return next(one for one in self._actions(card) if one["action_id"] == action)

    def _actions(self, card: int) -> list[Args]:
        return list([block for block in self.blocks if block["type"] == "actions"][card]["elements"])


def texts(of: Any) -> list[str]:
    """The texts in blocks, in reading order, as Slack shows them."""
    if isinstance(of, dict):
        if of.get("type") in ("plain_text", "mrkdwn"):
            return [of["text"].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")]
        return [one for value in of.values() for one in texts(value)]
    return [one for value in of for one in texts(value)] if isinstance(of, list) else []


class Slack:
    """The workspace. `answers(method, arguments)` may answer in its place: an HTTP status with headers and a body."""

    def __init__(self, port: int = 0) -> None:
        self.users: dict[str, str] = {}
        """Each person's id by their e-mail address."""
        self.profiles: dict[str, Args] = {}
        """What Slack shows of people, by their id."""
        self.posted: list[Posted] = []
        self.views: list[Args] = []
        self.calls: list[str] = []
        self.answers: Callable[[str, Args], tuple[int, dict[str, str], Args] | None] = lambda method, args: None
        self.lose: Callable[[str], bool] = lambda method: False
        """Whether the answer to a call that was done gets lost."""
        self.port = 0
        self._sockets: list[web.WebSocketResponse] = []
        self._acks: dict[str, asyncio.Future[Args]] = {}
        self._numbers = itertools.count(1)
        self._triggers: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._start(port))

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/"

    @property
    def connections(self) -> int:
        return len([one for one in self._sockets if not one.closed])

    def person(self, email: str) -> str:
        """Add a person; their id."""
        self.users[email] = f"U{len(self.users):04}ABC"
        return self.users[email]

    def messages_to(self, user: str) -> list[Posted]:
        return [one for one in self.posted if one.user == user]

    def press(
        self, message: Posted, action: str, card: int = 0, *, user: str = "", team: str = TEAM, number: int = 0
    ) -> Args:
        """Click on a button, as its reader or another. Returns what was acknowledged, with its `envelope`."""
        trigger = f"trigger-{next(self._numbers)}"
        self._triggers.add(trigger)
        payload = {
            "type": "block_actions",
            "team": {"id": team},
            "user": {"id": user or message.user, "team_id": team},
            "trigger_id": trigger,
            "container": {"channel_id": message.conversation, "message_ts": message.ts},
            "actions": [{**message.button(action, card), "action_ts": "1"}],
        }
        return self.send(payload, number=number)

    def submit(self, view: Args, reason: str, *, user: str, team: str = TEAM) -> Args:
        """Send the dialog that asks for a reason. Returns what was acknowledged."""
        value = {"type": "plain_text_input", "value": reason or None}
        state = {"values": {"reason": {"reason": value}}}
        member = {"id": user, "team_id": team}
        sent = {**view, "state": state}
        return self.send({"type": "view_submission", "team": {"id": team}, "user": member, "view": sent})

    def send(self, payload: Args, *, number: int = 0) -> Args:
        """Send an interaction over one of the connections, under the envelope `number` if one is given."""
        envelope = f"envelope-{number or next(self._numbers)}"
        ack: Args = self._run(self._interact(envelope, payload))
        return ack

    def hang_up(self) -> None:
        """End all connections."""
        self._run(self._hang_up())

    def close(self) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()  # here, and not in the middle of the next test

    def _run(self, does: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(does, self._loop).result(30)

    async def _start(self, port: int) -> None:
        app = web.Application()
        app.router.add_route("*", "/api/{method}", self._call)
        app.router.add_get("/socket", self._socket)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def _hang_up(self) -> None:
        for one in self._sockets:
            await one.close()
        self._sockets.clear()

    async def _stop(self) -> None:
        await self._hang_up()
        await self._runner.cleanup()
        # What is just being accepted, and what its peer no longer reads, would outlive the loop.
        late = asyncio.all_tasks() - {asyncio.current_task()}
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for transport in list(self._loop._transports.values()):  # type: ignore[attr-defined]  # asyncio's own
            transport.abort()
        for _ in range(5):  # so often does a transport call itself back until its socket is closed
            await asyncio.sleep(0)

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._sockets.append(socket)
        await socket.send_json({"type": "hello", "num_connections": self.connections})
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                told = json.loads(message.data)
                ack = self._acks.pop(told.get("envelope_id", ""), None)
                if ack is not None and not ack.done():
                    ack.set_result(told)
        return socket

    async def _interact(self, envelope: str, payload: Args) -> Args:
        socket = next(one for one in reversed(self._sockets) if not one.closed)
        ack = self._acks[envelope] = asyncio.get_running_loop().create_future()
        sent = {"envelope_id": envelope, "type": "interactive", "accepts_response_payload": True, "payload": payload}
        await socket.send_json(sent)
        return await asyncio.wait_for(ack, 20)

    async def _call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        args: Args = dict(request.query)
        if request.content_type == "application/json":
            args |= await request.json()
        else:
            args |= dict(await request.post())
        self.calls.append(method)
        loop = asyncio.get_running_loop()
        instead = await loop.run_in_executor(None, self.answers, method, args)
        if instead is not None:
            status, headers, body = instead
            return web.json_response(body, status=status, headers=headers)
        wanted = APP if method == "apps.connections.open" else BOT
        if request.headers.get("authorization") != f"Bearer {wanted}":
            return web.json_response({"ok": False, "error": "invalid_auth"})
        known = getattr(self, "_" + method.replace(".", "_").lower(), None)
        body = {"error": "unknown_method"} if known is None else known(args)
        if self.lose(method):
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"ok": "error" not in body, **body})

    def _apps_connections_open(self, args: Args) -> Args:
        return {"url": f"ws://127.0.0.1:{self.port}/socket?ticket={next(self._numbers)}"}

    def _users_lookupbyemail(self, args: Args) -> Args:
        return self._user(self.users.get(args["email"], ""), "users_not_found")

    def _users_info(self, args: Args) -> Args:
        return self._user(args["user"], "user_not_found")

    def _user(self, user: str, error: str) -> Args:
        if user not in self.users.values():
            return {"error": error}
        return {"user": {"id": user, "team_id": TEAM, "deleted": False, "profile": self.profiles.get(user, {})}}

    def _conversations_open(self, args: Args) -> Args:
        user = args["users"]
        return {"channel": {"id": f"D{user[1:]}"}} if user in self.users.values() else {"error": "user_not_found"}

    def _conversations_history(self, args: Args) -> Args:
        found = [one for one in self.posted if one.conversation == args["channel"]]
        messages = [{"ts": one.ts, "metadata": one.args.get("metadata")} for one in reversed(found)]
        return {"messages": messages[: int(args["limit"])]}

    def _chat_postmessage(self, args: Args) -> Args:
        if problem := wrong(args):
            return {"error": problem}
        ts = f"1700000000.{next(self._numbers):06}"
        user = f"U{args['channel'][1:]}"
        self.posted.append(Posted(ts, args["channel"], user, args))
        return {"channel": args["channel"], "ts": ts}

    def _chat_update(self, args: Args) -> Args:
        found = next((one for one in self.posted if (one.ts, one.conversation) == (args["ts"], args["channel"])), None)
        if found is None:
            return {"error": "message_not_found"}
        if problem := wrong(args):
            return {"error": problem}
        found.before.append(found.args)
        found.args = args
        return {"channel": args["channel"], "ts": args["ts"]}

    def _views_open(self, args: Args) -> Args:
        if args["trigger_id"] not in self._triggers:
            return {"error": "invalid_trigger"}
        self._triggers.discard(args["trigger_id"])
        if problem := wrong({"text": "", "blocks": args["view"]["blocks"]}):
            return {"error": problem}
        self.views.append(args["view"])
        return {"view": args["view"]}


BLOCKS = {"section", "context", "actions", "divider", "input"}


def wrong(args: Args) -> str:
    """Why Slack would not take the blocks, or the text; empty if it would."""
    blocks = args["blocks"]
    if len(blocks) > 50 or any(block["type"] not in BLOCKS for block in blocks):
        return "invalid_blocks"
    if len(args["text"]) > 4_000:
        return "msg_too_long"
    for block in blocks:
        for element in block.get("elements", []):
            if element["type"] != "button":
                continue
            if len(element["text"]["text"]) > 75 or len(element.get("value", "")) > 2_000:
                return "invalid_blocks"
            if len(element.get("confirm", {}).get("text", {}).get("text", "")) > 300:
                return "invalid_blocks"
            if len(element.get("url", "")) > 3_000:
                return "invalid_blocks"
        if not all(0 < len(text) <= 3_000 for text in raw(block)):
            return "invalid_blocks"
    return ""


def raw(of: Any) -> list[str]:
    """The texts as they are written in blocks."""
    if isinstance(of, dict):
        if of.get("type") in ("plain_text", "mrkdwn"):
            return [of["text"]]
        return [one for value in of.values() for one in raw(value)]
    return [one for value in of for one in raw(value)] if isinstance(of, list) else []
