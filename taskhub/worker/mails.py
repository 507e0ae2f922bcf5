"""Hands mails to the SMTP server, beside the tasks of a worker."""

from __future__ import annotations

from email.headerregistry import Address
from email.utils import parseaddr
from typing import Final

from django.conf import settings
from django.urls import reverse

from taskhub.domain.notices.mailing import CONFIRM_HOURS, confirm_token, stop_token
from taskhub.domain.notices.mails import BATCH, TakenMail, end_mail, hurry_mails, queue_mails, take_mails
from taskhub.domain.notices.outbox import Delivered
from taskhub.lib.lanes import Lanes
from taskhub.notify.mail.sending import Mail, Sender, Server
from taskhub.notify.mail.writing import Hub, Item, confirmation, news
from taskhub.worker.outgoing import Outgoing

AT_ONCE: Final = 4
"""Mails that one worker hands over at a time; to a server that does not answer, 1."""


class Mails(Outgoing[TakenMail]):
    """Mails to people."""

    batch = BATCH

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes)
        self._silent = False
        """Whether the server did not answer the last time."""

    @property
    def at_once(self) -> int:
        """Mails under way at a time."""
        return 1 if self._silent else AT_ONCE

    def _queue(self) -> int:
        return queue_mails()

    def _take(self, most: int) -> list[TakenMail]:
        return take_mails(most)

    def _store(self, taken: TakenMail, outcome: Delivered) -> None:
        end_mail(taken, outcome)
        if self._silent and outcome.ok:
            hurry_mails()
        self._silent = not outcome.ok and outcome.status is None

    def _id(self, taken: TakenMail) -> str:
        return taken.id

    async def _send(self, taken: TakenMail) -> Delivered:
        mail = await self._lanes.run(written, taken)
        answer = await Sender(_server()).send(mail)
        return Delivered(ok=not answer.problem, status=answer.status, answer=answer.text, problem=answer.problem)


def written(taken: TakenMail) -> Mail:
    """The mail, with the links that lead from it to the hub."""
    base = str(settings.PUBLIC_URL)
    hub = Hub(
        url=base,
        username=taken.username,
        zone=taken.zone,
        choices_url=base + reverse("mail"),
        stop_url=base + reverse("mail-stop", args=[stop_token(taken.membership_id, taken.address)])
        if taken.approvals
        else "",
    )
    if taken.approvals:
        text = news(
            [
                Item(
                    kind=one.kind,
                    sentence=one.sentence,
                    tool=one.tool,
                    server=one.server,
                    client=one.client,
                    group=one.group,
                    critical=one.critical,
                    due_at=one.due_at,
                    url=base + one.path,
                )
                for one in taken.approvals
            ],
            hub,
        )
    else:
        url = base + reverse("mail-confirm", args=[confirm_token(taken.membership_id, taken.address)])
        text = confirmation(url, CONFIRM_HOURS, hub)
    return Mail(
        id=taken.id,
        sender=_sender(),
        to=Address(addr_spec=taken.address),
        subject=text.subject,
        text=text.text,
        html=text.html,
        stop_url=hub.stop_url,
    )


def _sender() -> Address:
    name, address = parseaddr(settings.DEFAULT_FROM_EMAIL)
    return Address(name, addr_spec=address)


def _server() -> Server:
    security = "tls" if settings.EMAIL_USE_SSL else "starttls" if settings.EMAIL_USE_TLS else ""
    return Server(
        settings.EMAIL_HOST, settings.EMAIL_PORT, security, settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD
    )
