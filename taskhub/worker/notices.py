"""Delivers notices to webhooks, beside the tasks of a worker."""

from __future__ import annotations

from typing import Final

from taskhub.domain.notices.outbox import Delivered, Taken, end_delivery, take_notices
from taskhub.lib.lanes import Lanes
from taskhub.notify.webhooks.sending import Message, Sender
from taskhub.worker.outgoing import Outgoing

AT_ONCE: Final = 50
"""Deliveries that one worker makes at a time."""

_SEALED: Final = "Its address or secret was encrypted under another SECRET_KEY: give it its address, and a new secret"


class Notices(Outgoing[Taken]):
    """Messages to webhooks."""

    at_once = AT_ONCE

    def __init__(self, lanes: Lanes, sender: Sender) -> None:
        super().__init__(lanes)
        self._sender = sender

    async def close(self) -> None:
        """Stop, and close all connections."""
        await super().close()
        await self._sender.close()

    def _take(self, most: int) -> list[Taken]:
        return take_notices(most)

    def _store(self, taken: Taken, outcome: Delivered) -> None:
        end_delivery(taken, outcome)

    def _id(self, taken: Taken) -> str:
        return taken.public_id

    async def _send(self, taken: Taken) -> Delivered:
        if not taken.url or not taken.secrets:
            return Delivered(ok=False, problem=_SEALED)
        message = Message(taken.public_id, taken.body, taken.number, taken.url, taken.secrets)
        answer = await self._sender.send(message)
        return Delivered(
            ok=not answer.problem,
            status=answer.status,
            answer=answer.text,
            problem=answer.problem,
            gone=answer.gone,
            later=answer.later,
        )
