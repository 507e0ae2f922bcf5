"""Messages in Slack, and clicks on their buttons, beside the tasks of a worker."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.urls import reverse

from taskhub.control import slack as control
from taskhub.control.slack import Click, State
from taskhub.domain.notices import cards
from taskhub.domain.notices.addresses import CONFIRM_HOURS, confirm_token
from taskhub.domain.notices.cards import Changed
from taskhub.domain.notices.channels import Channel, is_on
from taskhub.domain.notices.outbox import Delivered
from taskhub.domain.notices.people import TakenMessage
from taskhub.domain.notices.queueing import told
from taskhub.lib.lanes import Lanes
from taskhub.notify.slack.listening import Listener, Press, Reply
from taskhub.notify.slack.sending import Answer, Sender, Slack
from taskhub.notify.slack.writing import APPROVE, Shown, Written, confirmation, news, reason_view, trial
from taskhub.notify.texts import title_of
from taskhub.worker.people import ToPeople

DRAWN: Final = 4
"""How many messages one worker draws anew at a time."""


class SlackMessages(ToPeople):
    """Messages to people in Slack."""

    channel = Channel.SLACK

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes)
        slack = Slack(
            settings.TASKHUB_SLACK_BOT_TOKEN, settings.TASKHUB_SLACK_APP_TOKEN, settings.TASKHUB_SLACK_API_URL
        )
        self._sender = Sender(slack)
        self._listener = Listener(slack, self._pressed)

    async def _send(self, taken: TakenMessage) -> Delivered:
        if taken.tests:
            return _delivered(await self._sender.post(taken.id, taken.address, trial(), again=taken.number > 1))
        if not taken.approvals:
            return await self._confirm(taken)
        written = await self._lanes.run(_written_first, taken)
        answer = await self._sender.post(taken.id, taken.address, written, again=taken.number > 1)
        if not answer.problem:
            await self._lanes.run(cards.place_message, taken.id, answer.conversation, answer.ts, written.digest)
        return _delivered(answer)

    async def _confirm(self, taken: TakenMessage) -> Delivered:
        found = await self._sender.account_of(taken.address)
        if found.problem:
            return _delivered(found)
        token = confirm_token(taken.address_id, taken.address, found.account, found.name)
        base = str(settings.PUBLIC_URL)
        url = base + reverse("address-confirm", args=[taken.channel, token])
        written = confirmation(url, CONFIRM_HOURS, taken.username, base)
        return _delivered(await self._sender.post(taken.id, found.account, written, again=taken.number > 1))

    async def listen(self) -> None:
        """Receive clicks until the connection is lost for good."""
        await self._listener.run()

    async def draw(self) -> None:
        """Draw messages anew if something about them has changed."""
        if not is_on(self.channel):
            return
        for taken in await self._lanes.run(control.take_changed, DRAWN):
            written = await self._lanes.run(_written_anew, taken)
            if written is None or written.digest == taken.shown:
                await self._lanes.run(cards.end_changed, taken, taken.shown)
                continue
            answer = await self._sender.draw(taken.conversation, taken.ts, written)
            await self._lanes.run(_drawn, taken, written, answer)

    async def _pressed(self, press: Press) -> Reply:
        click = Click(press.card, press.account)
        if press.what == APPROVE:
            await self._lanes.run(_approve, click)
        elif press.reason is not None:
            clicked = await self._lanes.run(_reject, click, press.reason)
            if clicked.reason_missing:
                return Reply(clicked.problem)
        else:
            clicked = await self._lanes.run(control.may_reject, click)
            if not clicked.problem:
                view = reason_view(press.card, await self._lanes.run(_title_of, clicked.message, press.card))
                return Reply(after=lambda: self._open(press.trigger, view))
        return Reply(after=self.draw)

    async def _open(self, trigger: str, view: dict[str, object]) -> None:
        await self._sender.open_view(trigger, view)


def _approve(click: Click) -> control.Clicked:
    return control.decide(click, approve=True)


def _reject(click: Click, reason: str) -> control.Clicked:
    return control.decide(click, approve=False, reason=reason)


def _delivered(answer: Answer) -> Delivered:
    return Delivered(
        ok=not answer.problem,
        status=answer.status,
        answer=answer.text,
        problem=answer.problem,
        gone=answer.forever,
        later=answer.later,
    )


def _drawn(taken: Changed, written: Written, answer: Answer) -> None:
    if not answer.problem:
        cards.end_changed(taken, written.digest)
    else:
        cards.put_off_changed(taken, answer.later or 0.0)


def _written_first(taken: TakenMessage) -> Written:
    """Store the cards of the message, and return the message as it is about to be posted."""
    first = min(notice for notice, _ in taken.notices)
    shown = [(one.notice_id, one.question_id, one.call_digest) for one in taken.approvals[: cards.SHOWN]]
    more = len(taken.approvals) - len(shown)
    cards.store_cards(taken.id, first, shown, more)
    return _news(taken.id, more)


def _written_anew(taken: Changed) -> Written | None:
    return _news(taken.public_id, taken.more) if cards.cards_of(taken.public_id) else None


def _news(message: str, more: int) -> Written:
    shown = [_shown(state) for state in control.states_of(message)]
    return news(shown, more, f"{settings.PUBLIC_URL}/inbox/")


def _title_of(message: str, card: str) -> str:
    return next((told(state.sentence) for state in control.states_of(message) if state.notice == card), "")


def _shown(state: State) -> Shown:
    return Shown(
        id=state.notice,
        kind=state.kind,
        title=title_of(state.kind, told(state.sentence), state.tool, state.server),
        tool=state.tool,
        server=state.server,
        client=state.client,
        group=state.group,
        critical=state.critical,
        due_at=state.due_at,
        zone=state.zone,
        url=f"{settings.PUBLIC_URL}{state.path}",
        is_open=state.is_open,
        approve=state.approve,
        reject=state.reject,
        sure=state.risky,
        said=state.said,
    )
