"""Messages to people, beside the tasks of a worker: what all channels that reach people share."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, Final

from taskhub.domain.notices.channels import Channel
from taskhub.domain.notices.outbox import Delivered
from taskhub.domain.notices.people import Approval, TakenMessage, end_message, hurry_messages, take_messages
from taskhub.domain.notices.queueing import told
from taskhub.lib.lanes import Lanes
from taskhub.notify.texts import Item
from taskhub.worker.outgoing import Outgoing

AT_ONCE: Final = 4
"""How many messages one worker hands over on a channel at a time; only 1 while the channel's server does not answer."""


class ToPeople(Outgoing[TakenMessage], abc.ABC):
    """The messages to people on one channel."""

    channel: ClassVar[Channel]

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes)
        self._silent = False
        """Whether the channel's server did not answer the last time."""

    @property
    def at_once(self) -> int:
        """How many messages may be under way at a time."""
        return 1 if self._silent else AT_ONCE

    def _take(self, most: int) -> list[TakenMessage]:
        return take_messages(self.channel, most)

    def _store(self, taken: TakenMessage, outcome: Delivered) -> None:
        end_message(taken, outcome)
        if self._silent and outcome.ok:
            hurry_messages(self.channel)
        self._silent = not outcome.ok and outcome.status is None

    def _id(self, taken: TakenMessage) -> str:
        return taken.id


def items(approvals: Sequence[Approval], base: str) -> list[Item]:
    """What a message tells of, with links to the hub at `base`."""
    return [
        Item(
            kind=one.kind,
            sentence=told(one.sentence),
            tool=one.tool,
            server=one.server,
            client=one.client,
            group=one.group,
            critical=one.critical,
            risky=one.risky,
            second_factor=one.second_factor,
            quorum=one.quorum,
            due_at=one.due_at,
            url=base + one.path,
        )
        for one in approvals
    ]
