"""The console's socket. It carries hints, never data: the page fetches what changed through its
ordinary, permission-checked view."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.db import close_old_connections

from taskhub.core.errors import Unavailable
from taskhub.core.records import Person
from taskhub.domain.clients.principals import person_of_session
from taskhub.lib.lanes import Crowded, Lanes

MOST_WAITING: Final = 1_000
"""How many sockets of one process may wait for the check of their session."""
PATIENCE_SECONDS: Final = 15.0
"""How long one of them waits for a lane."""
BEAT_SECONDS: Final = 0.5
BEAT_SECONDS_EACH: Final = 0.02
MOST_BEAT_SECONDS: Final = 15.0
"""The least time between two fetches of a page: half a second; with more than 25 sockets 20 ms for each of them,
so that all pages together fetch 50 times a second; 15 seconds at most."""
STRANGER: Final = 4401
LATER: Final = 1013
"""Codes to close with: no session of a member, and "try again later" (RFC 6455, registry)."""


class HintConsumer(AsyncJsonWebsocketConsumer):
    """`/ws/hints`: `{"hints": [topic, ...]}`, and `{"resync": true}` once on connecting. Where many are connected, with
    `beat`: the milliseconds between two fetches of a page, which picks its own moment in them."""

    listening = 0
    """Sockets of this process that were let in."""
    groups_joined: tuple[str, ...] = ()

    def __init__(self, *, lanes: Lanes) -> None:
        super().__init__()
        self.lanes = lanes

    async def connect(self) -> None:
        """Accept people with a membership. Others are closed with 4401, or with 1013 while it cannot be looked up."""
        person = await self._person_or_close()
        if person is None:
            return
        self.groups_joined = ("consoles", f"tenant.{person.tenant_id}", f"person.{person.user_id}")
        for group in self.groups_joined:
            await self.channel_layer.group_add(group, self.channel_name)
        await self.accept()
        HintConsumer.listening += 1
        await self._tell({"resync": True})

    async def disconnect(self, code: int) -> None:
        """Leave the groups."""
        if self.groups_joined:
            HintConsumer.listening -= 1
        for group in self.groups_joined:
            await self.channel_layer.group_discard(group, self.channel_name)

    async def standing(self, message: dict[str, Any]) -> None:
        """A session of this person ended: perhaps the one that this socket came with."""
        await self._person_or_close()

    async def _person_or_close(self) -> Person | None:
        key = self.scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
        try:
            look = partial(_person, key)
            person = await self.lanes.run_soon(look, seconds=PATIENCE_SECONDS, most=MOST_WAITING) if key else None
        except (Crowded, Unavailable):
            await self.close(code=LATER)
            return None
        if person is None:
            await self.close(code=STRANGER)
        return person

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        """Nothing is expected from the browser."""

    async def hints(self, message: dict[str, Any]) -> None:
        """Group message to socket."""
        topics = message["topics"]
        # One of the lost hints may have said that this session ended.
        if "resync" in topics and await self._person_or_close() is None:
            return
        await self._tell({"resync": True} if "resync" in topics else {"hints": topics})

    async def _tell(self, news: dict[str, Any]) -> None:
        beat = min(HintConsumer.listening * BEAT_SECONDS_EACH, MOST_BEAT_SECONDS)
        await self.send_json({**news, "beat": round(1_000 * beat)} if beat > BEAT_SECONDS else news)


def _person(session_key: str) -> Person | None:
    close_old_connections()  # as at the start of each request: a connection that broke meanwhile is replaced
    return person_of_session(session_key)


class NoSuchSocket(AsyncJsonWebsocketConsumer):
    """Closes sockets of any other path. Without it a request for one, which anybody can send, logs a traceback."""

    async def connect(self) -> None:
        """Close."""
        await self.close()
