"""The console's WebSocket. It carries hints, never data: the page fetches what changed through its ordinary view, which
checks permissions."""

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
"""How many sockets of one process may wait at a time for the check of their session."""
PATIENCE_SECONDS: Final = 15.0
"""Seconds that the check of one socket's session waits for a lane, before the socket is closed with 1013."""
BEAT_SECONDS: Final = 0.5
BEAT_SECONDS_EACH: Final = 0.02
MOST_BEAT_SECONDS: Final = 15.0
"""A page fetches at most once in each beat. A beat lasts 0.5 s; with more than 25 sockets in the process it lasts 20 ms
for each socket, but 15 s at most. So up to 750 pages together fetch at most 50 times a second."""
STRANGER: Final = 4401
LATER: Final = 1013
"""WebSocket close codes: 4401 if the browser is not signed in as a member, 1013 for "try again later" (IANA
registry)."""


class HintConsumer(AsyncJsonWebsocketConsumer):
    """The WebSocket `/ws/hints`. It sends `{"hints": [topic, ...]}`, and `{"resync": true}` on connecting and after
    hints were lost. With many sockets a message also has `beat`, in milliseconds: the page fetches at a random moment
    within that time."""

    listening = 0
    """How many accepted sockets this process has."""
    groups_joined: tuple[str, ...] = ()

    def __init__(self, *, lanes: Lanes) -> None:
        super().__init__()
        self.lanes = lanes

    async def connect(self) -> None:
        """Accept people with a membership. Close with 4401 for anybody else, or with 1013 if the session cannot be
        looked up now."""
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
        """Leave the channel groups."""
        if self.groups_joined:
            HintConsumer.listening -= 1
        for group in self.groups_joined:
            await self.channel_layer.group_discard(group, self.channel_name)

    async def standing(self, message: dict[str, Any]) -> None:
        """Called when a session of this person has ended. Closes the socket if that was the socket's own session."""
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
        """Ignore messages from the browser."""

    async def hints(self, message: dict[str, Any]) -> None:
        """Send the topics of a group message to the browser."""
        topics = message["topics"]
        # One of the lost hints may have said that the socket's session ended.
        if "resync" in topics and await self._person_or_close() is None:
            return
        await self._tell({"resync": True} if "resync" in topics else {"hints": topics})

    async def _tell(self, news: dict[str, Any]) -> None:
        beat = min(HintConsumer.listening * BEAT_SECONDS_EACH, MOST_BEAT_SECONDS)
        await self.send_json({**news, "beat": round(1_000 * beat)} if beat > BEAT_SECONDS else news)


def _person(session_key: str) -> Person | None:
    close_old_connections()  # as Django does at the start of each request: replaces a broken connection
    return person_of_session(session_key)


class NoSuchSocket(AsyncJsonWebsocketConsumer):
    """Closes sockets of unknown paths. Without it, such a request, which anybody can send, would log a traceback."""

    async def connect(self) -> None:
        """Close the socket."""
        await self.close()
