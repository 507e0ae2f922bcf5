"""What the tests of notices share: webhooks, the feed read to its end, clocks that are turned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.utils import timezone

from taskhub.domain.notices.kinds import Kind
from taskhub.domain.notices.outbox import Delivered, Taken, end_delivery, take_notices
from taskhub.domain.notices.queueing import CONSUMER, begin_queueing, queue_notices
from taskhub.domain.notices.webhooks import Wanted, add_webhook
from taskhub.store.models import FeedConsumer, Notice
from tests.domain import kit
from tests.factories import ROOT

ALL = tuple(Kind)
OK = Delivered(ok=True, status=204)
DOWN = Delivered(ok=False, problem="Cannot connect: refused")


def hook(tenant_id: int, name: str = "ours", *, kinds: Sequence[str] = ALL, url: str = "", client: str = "") -> int:
    """A webhook; its id."""
    begin_queueing()
    wanted = Wanted(name, url or "https://receiver.example/hooks/s3cret-path", kinds, client)
    return add_webhook(tenant_id=tenant_id, wanted=wanted, actor=ROOT)[0]


def queue() -> None:
    """Read the feed until it has come to what is committed by now."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT xid, id FROM event ORDER BY xid DESC, id DESC LIMIT 1")
        last = cursor.fetchone()

    def there() -> bool:
        queue_notices()
        place = FeedConsumer.objects.get(name=CONSUMER)
        return (place.xid, place.event_id) >= last

    kit.wait_until(there)


def told(webhook_id: int) -> list[dict[str, Any]]:
    """The bodies of its notices, oldest first."""
    bodies = Notice.objects.filter(webhook_id=webhook_id).order_by("id").values_list("body", flat=True)
    return [json.loads(body) for body in bodies]


def types(webhook_id: int) -> list[str]:
    return [body["type"] for body in told(webhook_id)]


def come_due() -> None:
    """As if the pauses of all that waits were over. What is under way stays so."""
    Notice.objects.filter(state="due", lease_until=None).update(due_at=timezone.now(), planned_at=None)


def turn(seconds: float) -> None:
    """As if that time had gone by: notices are due earlier, leases run out, ages grow."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE notice SET due_at = due_at - w.time, planned_at = planned_at - w.time,"
            " early_at = early_at - w.time, lease_until = lease_until - w.time,"
            " queued_at = queued_at - w.time FROM (SELECT make_interval(secs => %s) AS time) w",
            [seconds],
        )


def deliver(outcome: Delivered = OK, most: int = 50) -> list[Taken]:
    """Take what is due, and say that this came of it."""
    taken = take_notices(most)
    for one in taken:
        end_delivery(one, outcome)
    return taken
