"""Messages to people by services that Apprise reaches, beside the tasks of a worker."""

from __future__ import annotations

from collections import Counter
from typing import Final

from django.conf import settings
from django.urls import reverse

from taskhub.domain.notices import targets
from taskhub.domain.notices.addresses import CONFIRM_HOURS, confirm_token
from taskhub.domain.notices.channels import Channel
from taskhub.domain.notices.outbox import Delivered
from taskhub.domain.notices.people import TakenMessage, end_message, hurry_messages
from taskhub.lib.lanes import Lanes
from taskhub.notify.apprise.sending import Sender
from taskhub.notify.apprise.writing import Written, confirmation, news, trial
from taskhub.worker.people import ToPeople, items

AT_ONCE: Final = 8
"""How many messages one worker hands over at a time, to all services together. A service that did not answer the last
time gets one message at a time."""


class AppriseMessages(ToPeople):
    """Messages to people by services. A service that does not answer holds up no other."""

    channel = Channel.APPRISE

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes)
        self._sender = Sender()
        self._under_way: Counter[str] = Counter()
        self._without_answer: set[str] = set()
        """Services that did not answer the last time."""

    @property
    def at_once(self) -> int:
        """How many messages may be under way at a time."""
        return AT_ONCE

    async def _send(self, taken: TakenMessage) -> Delivered:
        service = _service(taken)
        if service in self._without_answer and self._under_way[service]:
            return Delivered(ok=False, problem="Not tried: the service did not answer, and another message tries it")
        self._under_way[service] += 1
        try:
            url, written = await self._lanes.run(_written, taken)
            if not url:
                return Delivered(
                    ok=False, gone=True, problem=f"The hub has no address of {service} for you: save it anew"
                )
            answer = await self._sender.send(service, url, written)
        finally:
            self._under_way[service] -= 1
        return Delivered(ok=not answer.problem, status=answer.status, problem=answer.problem, gone=answer.forever)

    def _store(self, taken: TakenMessage, outcome: Delivered) -> None:
        service = _service(taken)
        end_message(taken, outcome)
        if outcome.ok and service in self._without_answer:
            hurry_messages(self.channel, f"{service}:")
        if outcome.ok or outcome.status is not None or outcome.gone:
            self._without_answer.discard(service)
        else:
            self._without_answer.add(service)


def _service(taken: TakenMessage) -> str:
    return taken.address.partition(":")[0]


def _written(taken: TakenMessage) -> tuple[str, Written]:
    """The address to which the message goes, empty if the hub has none; and what the message says."""
    base = str(settings.PUBLIC_URL)
    url, inbox = targets.url_of(taken.address), f"{base}/inbox/"
    if taken.tests:
        return url, trial(inbox)
    if not taken.approvals:
        link = reverse("address-confirm", args=[taken.channel, confirm_token(taken.address_id, taken.address)])
        return url, confirmation(base + link, CONFIRM_HOURS, taken.username, base)
    return url, news(items(taken.approvals, base), taken.zone, inbox)
