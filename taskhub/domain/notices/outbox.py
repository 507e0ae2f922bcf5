"""The outbox: takes notices that are due, and stores what came of their deliveries."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.db import transaction

from taskhub.core.records import Actor
from taskhub.core.secrets import HIDDEN
from taskhub.core.states import Door
from taskhub.domain.notices.webhooks import opened, set_enabled, vault
from taskhub.store import statements

LEASE_SECONDS: Final = 60.0
"""Seconds of a lease: a delivery whose outcome is not stored by then is made again."""
AT_ONCE: Final = 4
"""The most deliveries to one webhook at the same time; 1 to a webhook that does not answer."""
PAUSES: Final = (5.0, 60.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 28_800.0, 28_800.0)
"""The plan: the seconds between deliveries of a notice, after each one that failed; a day altogether. After the last
the notice has failed. When its webhook answers again, a waiting notice is delivered *early*. If that fails too, the
notice is delivered when the plan says, or early again after a rest: the first of these pauses after its first early
failure, and so on."""
RECEIVERS: Final = 500
"""The most webhooks that are looked at when a worker takes notices."""
MAX_ANSWER: Final = 500
"""The most characters of an answer that are kept."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A notice to be delivered to a webhook. `number`: the number of this attempt. `early`: whether it is delivered
    before the time of the plan. `failures` and `early_failures`: how many deliveries of the plan, and how many early
    ones, failed before. `url` and `secrets` are empty if they were encrypted under another `SECRET_KEY`."""

    id: int
    tenant_id: int
    webhook_id: int
    public_id: str
    kind: str
    body: str
    number: int
    early: bool
    failures: int
    early_failures: int
    url: str = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The outcome of a delivery. `gone`: the receiver says that it wants no notices any more. `later`: the seconds
    after which the receiver wants to be asked again; `None` if it names none."""

    ok: bool
    status: int | None = None
    answer: str = ""
    problem: str = ""
    gone: bool = False
    later: float | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    tenant_id: int
    webhook_id: int
    public_id: str
    kind: str
    body: str
    number: int
    early: bool
    failures: int
    early_failures: int
    sealed_url: bytes
    sealed_secret: bytes
    sealed_before: bytes | None


_RECEIVER: Final = Actor(name="webhook", door=Door.WORKER)
_DUE = statements.one("notices_due", bool)
_LOCK = statements.many("lock_receivers", int)
_TAKE = statements.many("take_notices", _Row)
_END = statements.none("end_delivery")
_PURGE = statements.rowcount("purge_notices")


def take_notices(most: int) -> list[Taken]:
    """Take notices that are due for webhooks, under a lease: at most `most`, and at most `AT_ONCE` of each webhook.
    Another worker that does this at the same time takes other notices."""
    if most <= 0 or not _DUE():
        return []
    with transaction.atomic():
        # In a statement of its own, so that the next one sees what was taken before the lock was free.
        receivers = _LOCK(most=RECEIVERS)
        if not receivers:
            return []
        rows = _TAKE(webhooks=receivers, each=AT_ONCE, most=most, lease_seconds=LEASE_SECONDS)
    return [_taken(row) for row in rows]


def end_delivery(taken: Taken, outcome: Delivered) -> None:
    """Store the outcome of a delivery. A notice that was not delivered is due again after a pause, or has failed after
    the last pause. If the webhook had not answered before and does now, all its waiting notices are due at once.
    Notices that failed early rest first."""
    wanted = outcome.later or 0.0
    early = taken.early and not outcome.gone
    with transaction.atomic():
        _END(
            notice=taken.id,
            number=taken.number,
            early=early,
            ok=outcome.ok,
            status=outcome.status,
            answer=_kept(outcome.answer, taken)[:MAX_ANSWER],
            problem=_kept(outcome.problem, taken)[:300],
            pause_seconds=wanted if early else None if outcome.gone else pause(taken.failures + 1, wanted),
            rest_seconds=rest(taken.early_failures + early, wanted),
        )
        if outcome.gone:
            why = "The receiver answered that it is gone (410)"
            set_enabled(tenant_id=taken.tenant_id, webhook_id=taken.webhook_id, enabled=False, actor=_RECEIVER, why=why)


def pause(failures: int, wanted: float = 0.0) -> float | None:
    """The seconds until the plan's next delivery, after `failures` deliveries of the plan failed; `None` if there is no
    next one. `wanted`: the least seconds, as the receiver asks."""
    if failures > len(PAUSES):
        return None
    return _spread(max(PAUSES[failures - 1], wanted))


def rest(early_failures: int, wanted: float = 0.0) -> float | None:
    """The seconds for which a notice is not delivered early, after `early_failures` early deliveries failed; `None` if
    it is not delivered early any more. `wanted`: as for `pause`."""
    if early_failures > len(PAUSES):
        return None
    return _spread(max(PAUSES[early_failures - 1] if early_failures else 0.0, wanted))


def _spread(seconds: float) -> float:
    """The seconds, or up to a tenth more, so that notices that failed together are not delivered together again."""
    return seconds * random.uniform(1.0, 1.1)  # noqa: S311 - no secret


def purge_notices(*, retention_days: int, limit: int = 1_000) -> int:
    """Delete notices that are older than the retention, with their deliveries. Returns how many, at most `limit`."""
    return _PURGE(retention_days=retention_days, most=limit)


def _kept(text: str, taken: Taken) -> str:
    """A text of the receiver or about it, without the secrets that it may repeat."""
    for secret in (*taken.secrets, *(part.removeprefix("whsec_") for part in taken.secrets), taken.url):
        if len(secret) >= 4:
            text = text.replace(secret, HIDDEN)
    return text.replace("\0", "\ufffd")


def _taken(row: _Row) -> Taken:
    box = vault()
    secrets = [opened(box, sealed) for sealed in (row.sealed_secret, row.sealed_before) if sealed is not None]
    return Taken(
        id=row.id,
        tenant_id=row.tenant_id,
        webhook_id=row.webhook_id,
        public_id=row.public_id,
        kind=row.kind,
        body=row.body,
        number=row.number,
        early=row.early,
        failures=row.failures,
        early_failures=row.early_failures,
        url=opened(box, row.sealed_url),
        secrets=tuple(secret for secret in secrets if secret),
    )


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """A notice in the log of a webhook, with its latest delivery."""

    public_id: str
    kind: str
    state: str
    queued_at: datetime
    due_at: datetime
    ended_at: datetime | None
    attempts: int
    problem: str
    body: str
    status: int | None
    answer: str
    milliseconds: int | None
    began_at: datetime | None
    under_way: bool


_LOG = statements.many("notice_log", NoticeRow)
_AGAIN = statements.rowcount("send_again")
LOGGED: Final = 50
"""The most notices that the page of a webhook lists."""


def notice_log(tenant_id: int, webhook_id: int) -> list[NoticeRow]:
    """The newest notices of a webhook, newest first."""
    return _LOG(tenant=tenant_id, webhook=webhook_id, most=LOGGED)


def send_again(tenant_id: int, webhook_id: int, public_id: str) -> bool:
    """Make a notice due at once, even if it was sent. It keeps its id, and its attempts are counted on. Returns `False`
    if there is no such notice, it is being delivered, or the webhook is disabled."""
    return _AGAIN(tenant=tenant_id, webhook=webhook_id, public_id=public_id) > 0


@dataclass(frozen=True, slots=True)
class FailingWebhook:
    """A webhook of any tenant that does not answer. `problem`: why the latest delivery failed."""

    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits in the outbox. `due`: how many notices to webhooks are due, counted up to 10,000. `failing`: how many
    webhooks do not answer."""

    due: int
    failing: int


_BACKLOG = statements.one("notice_backlog", Backlog)
_FAILING = statements.many("failing_webhooks", FailingWebhook)


def backlog() -> Backlog:
    """What waits in the outbox for webhooks, of all tenants together."""
    return _BACKLOG()


def failing_webhooks(most: int) -> list[FailingWebhook]:
    """Enabled webhooks of all tenants that do not answer: at most `most`, and the one that has not answered for the
    longest time first."""
    return _FAILING(most=most)
