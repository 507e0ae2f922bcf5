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
"""A delivery that is not stored by then is made again."""
AT_ONCE: Final = 4
"""Deliveries to one webhook at a time; to one that does not answer, 1."""
PAUSES: Final = (5.0, 60.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 28_800.0, 28_800.0)
"""The plan: seconds after each delivery that failed, until the next: a day altogether. After the last the notice has
failed. What waits is delivered *early* when its webhook answers again. One that fails early is delivered when the plan
has it, or early again, but not before it rested so long, from the first of these on."""
RECEIVERS: Final = 500
"""Webhooks that are looked at when a worker takes notices."""
MAX_ANSWER: Final = 500
"""Characters of an answer that are kept."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A notice to be delivered to a webhook, under the number of this attempt. `early`: before the plan had it due.
    `failures`: deliveries of the plan that failed. `url` and `secrets` are empty if they were encrypted under another
    `SECRET_KEY`."""

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
    """What came of a delivery. `gone`: the receiver wants no more. `later`: the seconds after which it wants to be
    asked again, if it names them."""

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
    """Take notices that are due for webhooks, `most` at most and `AT_ONCE` of each webhook, under a lease. Another
    worker that looks at the same time takes others."""
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
    """Store what came of a delivery. A notice that was not delivered is due again after a pause, or has failed after
    the last. When a webhook answers that did not before, all that waits for it is due at once, but for what failed
    early: that rests first."""
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
    """The seconds until the plan's next delivery, after as many that failed; `None` if there is none. `wanted`: those
    that the receiver asks for, at least."""
    if failures > len(PAUSES):
        return None
    return _spread(max(PAUSES[failures - 1], wanted))


def rest(early_failures: int, wanted: float = 0.0) -> float | None:
    """The seconds before which a notice is not delivered early, after as many deliveries that failed early; `None` if
    there is no early one any more."""
    if early_failures > len(PAUSES):
        return None
    return _spread(max(PAUSES[early_failures - 1] if early_failures else 0.0, wanted))


def _spread(seconds: float) -> float:
    """About these seconds, so that what failed together does not come together."""
    return seconds * random.uniform(1.0, 1.1)  # noqa: S311 - no secret


def purge_notices(*, retention_days: int, limit: int = 1_000) -> int:
    """Delete notices, with their deliveries, that are older than the retention. Returns how many, `limit` at most."""
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
"""Notices that the page of a webhook lists: the newest."""


def notice_log(tenant_id: int, webhook_id: int) -> list[NoticeRow]:
    """The newest notices of a webhook, newest first."""
    return _LOG(tenant=tenant_id, webhook=webhook_id, most=LOGGED)


def send_again(tenant_id: int, webhook_id: int, public_id: str) -> bool:
    """Make a notice due at once, also one that was sent. It keeps its id; its attempts go on being counted. Returns
    `False` if there is none that is not under way, or the webhook is disabled."""
    return _AGAIN(tenant=tenant_id, webhook=webhook_id, public_id=public_id) > 0


@dataclass(frozen=True, slots=True)
class FailingWebhook:
    """A webhook that does not answer, of whichever tenant: its name, and what came of the latest delivery."""

    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits in the outbox: how many notices are due (counted to 10,000), and how many webhooks do not answer."""

    due: int
    failing: int


_BACKLOG = statements.one("notice_backlog", Backlog)
_FAILING = statements.many("failing_webhooks", FailingWebhook)


def backlog() -> Backlog:
    """What waits in the outbox of all tenants."""
    return _BACKLOG()


def failing_webhooks(most: int) -> list[FailingWebhook]:
    """Enabled webhooks of all tenants that do not answer, for the longest first."""
    return _FAILING(most=most)
