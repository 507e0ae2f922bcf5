"""Hands mails to the SMTP server, beside the tasks of a worker."""

from __future__ import annotations

from email.headerregistry import Address
from email.utils import parseaddr

from django.conf import settings
from django.urls import reverse

from taskhub.domain.notices.addresses import CONFIRM_HOURS, confirm_token, stop_token
from taskhub.domain.notices.channels import Channel
from taskhub.domain.notices.outbox import Delivered
from taskhub.domain.notices.people import TakenMessage
from taskhub.notify.mail.sending import Mail, Sender, Server
from taskhub.notify.mail.writing import Hub, confirmation, news, trial
from taskhub.worker.people import ToPeople, items


class Mails(ToPeople):
    """Mails to people."""

    channel = Channel.MAIL

    async def _send(self, taken: TakenMessage) -> Delivered:
        mail = await self._lanes.run(written, taken)
        answer = await Sender(_server()).send(mail)
        return Delivered(ok=not answer.problem, status=answer.status, answer=answer.text, problem=answer.problem)


def written(taken: TakenMessage) -> Mail:
    """The mail of this message, with absolute links to the hub."""
    base = str(settings.PUBLIC_URL)
    hub = Hub(
        url=base,
        username=taken.username,
        zone=taken.zone,
        choices_url=base + reverse("notifications"),
        stop_url=base + reverse("mail-stop", args=[stop_token(taken.address_id, taken.address)])
        if taken.approvals or taken.tests
        else "",
    )
    if taken.approvals:
        text = news(items(taken.approvals, base), hub)
    elif taken.tests:
        text = trial(hub)
    else:
        url = base + reverse("address-confirm", args=[taken.channel, confirm_token(taken.address_id, taken.address)])
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
