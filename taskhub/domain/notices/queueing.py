"""Queues notices for webhooks: reads the feed, and writes a notice for each event and each webhook that wants it."""

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
"""The most notices that wait for one webhook, which may be slow. Further notices are stored as failed."""
MAX_WAITING_FAILING: Final = 10_000
"""As `MAX_WAITING`, for a webhook that has not answered for `FAILING_SECONDS`."""
FAILING_SECONDS: Final = 60.0
_END: Final = "”"


@dataclass(frozen=True, slots=True)
class _News:
    """What a notice says of an event: its task, and the question that the event names. `decided`: whether the event
    decided the question, so that no further approval is needed."""

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
    """An enabled webhook. `context_id`: the client whose news alone it wants; `None` for all. `full`: whether as many
    notices wait for it as may."""

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
    """Queue notices for webhooks about the next events of the feed. Returns how many events were looked at:
    `feed.reading.BATCH` if there may be more. If there is no enabled webhook, no event is looked at."""
    _SKIP(consumer=CONSUMER)
    return read_feed(CONSUMER, ACTIONS, _queue)


def begin_queueing() -> None:
    """Begin to queue notices for webhooks about events, from now on. Called before the first webhook is stored."""
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
    """The body that is sent about one event, with the members that Standard Webhooks recommends."""
    return {"type": kind, "timestamp": at.isoformat(), "data": data}


def _told(kind: Kind, event: FeedEvent, news: _News) -> dict[str, Any]:
    """The body that is sent about the event. It has no arguments and no result, except for values of arguments in the
    rule's sentence."""
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
    """The rule's sentence as text, with values of the call in quotation marks. `sentence`: pairs of a text and whether
    that is a value of the call."""
    return "".join(_quoted(part) if of_call else spelled(part) for part, of_call in sentence)


def _quoted(value: str) -> str:
    """A value of the call, in quotation marks. Closing quotation marks within the value are spelled out, so that no
    part of it passes for words of the rule."""
    return f"“{spelled(value).replace(_END, f'[{code_point(_END)}]')}”"
