"""Notifies browsers by web push, beside the tasks of a worker."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from taskhub.domain.notices import browsers
from taskhub.domain.notices.channels import Channel
from taskhub.domain.notices.kinds import UNDECIDABLE, Kind
from taskhub.domain.notices.outbox import Delivered
from taskhub.domain.notices.people import Approval, TakenMessage
from taskhub.domain.notices.queueing import told
from taskhub.lib import jsonx
from taskhub.lib.lanes import Lanes
from taskhub.lib.signs import spelled
from taskhub.notify.push.sending import MAX_TEXT, Push, Sender
from taskhub.notify.texts import title_of
from taskhub.worker.people import ToPeople

_KINDS: Final = {
    Kind.REMINDED: "Nobody has decided yet",
    UNDECIDABLE: "Too few people can decide this",
}
_CUT: Final = 300
"""The most characters of a title, and of each name below the title."""


class Browsers(ToPeople):
    """Notifications of people's browsers. Each browser of a person gets a message once: if some browsers were not
    reached, the next attempt goes to these only."""

    channel = Channel.PUSH

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes)
        self._sender: Sender | None = None

    async def _send(self, taken: TakenMessage) -> Delivered:
        sender = self._sender = self._sender or Sender(
            f"TaskHub/{settings.VERSION}", _contact(), browsers.vapid_key(), browsers.may_be_asked
        )
        body, urgent = written(taken), any(one.critical for one in taken.approvals)
        latest = Delivered(ok=False, problem="No browser of yours is notified any more")
        failed: Delivered | None = None
        for one in await self._lanes.run(browsers.subscriptions, taken.membership_id, taken.id):
            answer = await sender.send(Push(body, urgent, one.endpoint, one.p256dh, one.auth))
            ok = not answer.problem
            latest = Delivered(ok, answer.status, answer.text, answer.problem, later=answer.later)
            if ok:
                await self._lanes.run(browsers.took, one.id, taken.id)
            elif answer.gone:
                await self._lanes.run(browsers.gone, one.id)
            elif failed is None or answer.status is None:
                failed = latest
        if failed is not None:
            return failed
        return await self._lanes.run(_came_of, taken, latest)

    async def close(self) -> None:
        """Stop, and close all connections."""
        await super().close()
        if self._sender is not None:
            await self._sender.close()


def _came_of(taken: TakenMessage, latest: Delivered) -> Delivered:
    """The outcome of a message: it counts as delivered if any browser took it, now or in an earlier attempt."""
    if latest.ok or browsers.has_taken(taken.membership_id, taken.id):
        return latest if latest.ok else Delivered(ok=True)
    return latest


def written(taken: TakenMessage) -> bytes:
    """The data from which the service worker of the console makes a notification: a title, a line below it, and the
    path to which a click leads. Of the call's arguments it only has those in the rule's sentence."""
    if taken.tests:
        shown = {"title": "A test of TaskHub", "body": "Notifications reach this browser.", "path": "/inbox/"}
    elif len(taken.approvals) == 1:
        one = taken.approvals[0]
        shown = {"title": _title(one), "body": _below(one), "path": one.path}
    else:
        number = len(taken.approvals)
        first = "; ".join(_title(one)[:100] for one in taken.approvals[:3])
        noun = "approvals" if all(one.kind.startswith("approval.") for one in taken.approvals) else "questions"
        shown = {"title": f"{number} {noun} wait for you", "body": first, "path": "/inbox/"}
    shown["tag"] = taken.id
    body = jsonx.encode(shown)
    return body if len(body) <= MAX_TEXT else jsonx.encode({**shown, "title": shown["title"][:100], "body": ""})


def _title(one: Approval) -> str:
    return spelled(title_of(one.kind, told(one.sentence), one.tool, one.server))[:_CUT]


def _below(one: Approval) -> str:
    news = _KINDS.get(one.kind, "Critical" if one.critical else "")
    return " · ".join(filter(None, (news, *(spelled(name)[:_CUT] for name in (one.server, one.client)))))


def _contact() -> str:
    """The contact that push services get, to reach the operator: the hub's address, or a placeholder if that is not
    public."""
    hub = urlsplit(str(settings.PUBLIC_URL))
    named = hub.scheme == "https" and "." in (hub.hostname or "")
    return f"https://{hub.hostname}" if named else "mailto:hub@localhost"
