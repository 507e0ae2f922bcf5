"""Queues notices: reads the feed, and writes one for each event and receiver that wants it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from django.conf import settings

from taskhub.core.asking import asking
from taskhub.domain.feed.reading import FeedEvent, begin_feed, read_feed
from taskhub.domain.notices.kinds import ACTIONS, Kind, kind_of
from taskhub.lib import ids, jsonx
from taskhub.lib.signs import code_point, escaped_json, spelled
from taskhub.store import statements

CONSUMER: Final = "notices"
MAX_WAITING: Final = 50_000
"""Notices that wait for one webhook, which may be slow; further ones are stored as failed."""
MAX_WAITING_FAILING: Final = 10_000
"""The same for a webhook that has not answered for `FAILING_SECONDS`."""
FAILING_SECONDS: Final = 60.0
_END: Final = "”"


@dataclass(frozen=True, slots=True)
class _News:
    """The task of an event, and the question that the event names. `decided`: whether no further approval is needed
    after this event's."""

    event_id: int
    context_id: int
    task: str
    tool: str
    server: str
    client: str
    state: str
    tool_error: bool
    key: str | None
    params: dict[str, Any] | None
    decided: bool


@dataclass(frozen=True, slots=True)
class _Wanting:
    """A webhook that may want news."""

    id: int
    tenant_id: int
    kinds: tuple[str, ...]
    context_id: int | None
    full: bool


_NEWS = statements.many("news", _News)
_WANTING = statements.many("wanting_webhooks", _Wanting)
_QUEUE = statements.rowcount("queue_notices")
_SKIP = statements.rowcount("skip_unwanted")


def queue_notices() -> int:
    """Queue the notices of the next events of the feed. Returns how many events were looked at: `feed.reading.BATCH` if
    there may be more. Without webhooks none is looked at."""
    _SKIP(consumer=CONSUMER)
    return read_feed(CONSUMER, ACTIONS, _queue)


def begin_queueing() -> None:
    """Tell of events from now on. Called before the first receiver is stored."""
    begin_feed(CONSUMER)


def _queue(events: Sequence[FeedEvent]) -> None:
    kinds = {event.id: kind for event in events if (kind := kind_of(event.action, event.after)) is not None}
    events = [event for event in events if event.id in kinds]
    tenants = {event.tenant_id for event in events if event.tenant_id is not None}
    if not tenants:
        return
    wanting = _WANTING(
        tenants=sorted(tenants),
        most=MAX_WAITING,
        most_failing=MAX_WAITING_FAILING,
        failing_seconds=FAILING_SECONDS,
    )
    if not wanting:
        return
    wanted = {(webhook.tenant_id, kind) for webhook in wanting for kind in webhook.kinds}
    events = [event for event in events if (event.tenant_id, kinds[event.id]) in wanted]
    news = {one.event_id: one for one in _NEWS(events=[event.id for event in events])} if events else {}
    rows = []
    for event in events:
        one, kind = news.get(event.id), kinds[event.id]
        undone = event.action == "question.undone"
        if one is None or (kind is Kind.DECIDED and not one.decided and not undone):
            continue
        body = escaped_json(jsonx.encode(_told(kind, event, one)).decode())
        rows += [
            {
                "public_id": new_id(),
                "tenant": event.tenant_id,
                "event": event.id,
                "kind": kind,
                "webhook": webhook.id,
                "body": body,
                "full": webhook.full,
            }
            for webhook in wanting
            if webhook.tenant_id == event.tenant_id
            and kind in webhook.kinds
            and webhook.context_id in (None, one.context_id)
        ]
    if rows:
        _QUEUE(rows=jsonx.encode(rows).decode())


def new_id() -> str:
    """The id of a new notice, which each of its deliveries carries."""
    return f"msg_{ids.public_id()}"


def message(kind: str, at: datetime, data: dict[str, Any]) -> dict[str, Any]:
    """What is sent of one event: of a Standard Webhooks message, the members that it recommends."""
    return {"type": kind, "timestamp": at.isoformat(), "data": data}


def _told(kind: Kind, event: FeedEvent, news: _News) -> dict[str, Any]:
    """The message. It has no argument and no result, but for what the rule's sentence says of the arguments."""
    data: dict[str, Any] = {
        "task": news.task,
        "tool": news.tool,
        "server": news.server,
        "client": news.client,
        "state": news.state,
    }
    path = f"/tasks/{news.task}/"
    if news.key is not None:
        data["question"] = news.key
        sentence = asking(news.params or {}).sentence
        if sentence:
            data["sentence"] = told(sentence)
        path = f"/inbox/task/{news.task}/?key={quote(news.key, safe='')}"
    after = event.after or {}
    if kind is Kind.DECIDED:
        data["verdict"] = event.action.removeprefix("question.")
    elif kind is Kind.EXPIRED and "otherwise" in after:
        data["verdict"] = after["otherwise"]
    elif kind is Kind.ESCALATED or (kind in (Kind.ASKED, Kind.REMINDED) and after.get("group")):
        data["group"] = after.get("group", "")
    elif kind is Kind.FINISHED:
        data["tool_error"] = news.tool_error
    if settings.PUBLIC_URL:
        data["url"] = f"{settings.PUBLIC_URL}{path}"
    return message(kind, event.at, data)


def told(sentence: Sequence[tuple[str, bool]]) -> str:
    """The rule's sentence, as (text, whether the text is a value of the call), with the values in quotation marks."""
    return "".join(_quoted(part) if of_call else spelled(part) for part, of_call in sentence)


def _quoted(value: str) -> str:
    """A value of the call in the rule's sentence: in quotation marks, and without the one that would end them, so that
    it does not pass for the words of the rule."""
    return f"“{spelled(value).replace(_END, f'[{code_point(_END)}]')}”"
