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
"""Sockets that wait to be let in, in one process."""
PATIENCE_SECONDS: Final = 15.0
"""How long one of them waits for a lane."""
BEAT_SECONDS: Final = 0.5
BEAT_SECONDS_EACH: Final = 0.02
MOST_BEAT_SECONDS: Final = 15.0
"""Between two looks of a page: half a second, and with more than 25 of them so much for each that all together look
fifty times a second, whatever happens."""
STRANGER: Final = 4401
LATER: Final = 1013
"""Codes to close with: nobody we know, and "try again later" (RFC 6455, registry)."""


class HintConsumer(AsyncJsonWebsocketConsumer):
    """`/ws/hints`: `{"hints": [topic, ...]}`, and `{"resync": true}` once on connecting; where many look, with `beat`:
    so many milliseconds are to lie between two looks of a page, which spreads its own over them."""

    listening = 0
    """Sockets of this process that were let in."""
    groups_joined: tuple[str, ...] = ()

    def __init__(self, *, lanes: Lanes) -> None:
        super().__init__()
        self.lanes = lanes

    async def connect(self) -> None:
        """Only people with a membership; others are closed with 4401, or 1013 while nobody can tell."""
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
        # What was missed may have been that this session ended.
        if "resync" in topics and await self._person_or_close() is None:
            return
        await self._tell({"resync": True} if "resync" in topics else {"hints": topics})

    async def _tell(self, news: dict[str, Any]) -> None:
        beat = min(HintConsumer.listening * BEAT_SECONDS_EACH, MOST_BEAT_SECONDS)
        await self.send_json({**news, "beat": round(1_000 * beat)} if beat > BEAT_SECONDS else news)


def _person(session_key: str) -> Person | None:
    close_old_connections()  # as each request begins: one that broke meanwhile is replaced
    return person_of_session(session_key)


class NoSuchSocket(AsyncJsonWebsocketConsumer):
    """Refuses a path that is none of ours: anybody can ask for one, so it may not cost a traceback."""

    async def connect(self) -> None:
        """Closes."""
        await self.close()
