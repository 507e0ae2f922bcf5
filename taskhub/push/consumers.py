"""The console's socket. It carries hints, never data: the page fetches what changed through its
ordinary, permission-checked view."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer

from taskhub.identity.principals import person_of


class HintConsumer(AsyncJsonWebsocketConsumer):
    """`/ws/hints`: `{"hints": [topic, ...]}`, and `{"resync": true}` once on connecting."""

    groups_joined: tuple[str, ...] = ()

    async def connect(self) -> None:
        """Only people with a membership; others are closed with 4401."""
        user = self.scope.get("user")
        person = None
        if user is not None and user.is_authenticated:
            person = await sync_to_async(person_of)(user.pk, user.get_username())
        if person is None:
            await self.close(code=4401)
            return
        self.groups_joined = ("consoles", f"tenant.{person.tenant_id}")
        for group in self.groups_joined:
            await self.channel_layer.group_add(group, self.channel_name)
        await self.accept()
        await self.send_json({"resync": True})

    async def disconnect(self, code: int) -> None:
        """Leave the groups."""
        for group in self.groups_joined:
            await self.channel_layer.group_discard(group, self.channel_name)

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        """Nothing is expected from the browser."""

    async def hints(self, message: dict[str, Any]) -> None:
        """Group message to socket."""
        topics = message["topics"]
        await self.send_json({"resync": True} if "resync" in topics else {"hints": topics})
