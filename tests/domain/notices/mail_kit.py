"""What the tests of mails share: people who want them, the feed read to its end, mails taken."""

from __future__ import annotations

from typing import Any

from django.db import connection

from taskhub.core.records import Person
from taskhub.domain.notices import mails
from taskhub.domain.notices.kinds import MAILED
from taskhub.domain.notices.mails import TakenMail, begin_mailing, end_mail, queue_mails, take_mails
from taskhub.domain.notices.outbox import Delivered
from taskhub.store.models import FeedConsumer, Mailing, Membership, Notice
from tests.domain import kit
from tests.domain.notices.kit import turn
from tests.factories import make_person

OK = Delivered(ok=True, status=250)
AWAY = Delivered(ok=False, problem="Cannot connect: refused")


def reader(world: kit.World, role: str = "approver", *, groups: list[str] | None = None, **wanted: Any) -> Person:
    """A person who gets mails."""
    begin_mailing()
    person = make_person(role, world.context.tenant, groups=groups)
    membership = Membership.objects.get(user_id=person.user_id)
    given = {"address": f"{person.username}@example.com", "kinds": list(MAILED), **wanted}
    Mailing.objects.create(membership=membership, **given)
    return person


def queue() -> None:
    """Read the feed until it has come to what is committed by now."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT xid, id FROM event ORDER BY xid DESC, id DESC LIMIT 1")
        last = cursor.fetchone()

    def there() -> bool:
        queue_mails()
        place = FeedConsumer.objects.get(name=mails.CONSUMER)
        return (place.xid, place.event_id) >= last

    kit.wait_until(there)


def take() -> list[TakenMail]:
    """Queue what happened, let what comes together come, and take the mails."""
    queue()
    turn(mails.GATHER_SECONDS)
    return take_mails(10)


def deliver(outcome: Delivered = OK) -> list[TakenMail]:
    """Take the mails, and say that this came of them."""
    taken = take()
    for mail in taken:
        end_mail(mail, outcome)
    return taken


def states(person: Person) -> list[str]:
    return list(Notice.objects.filter(user_id=person.user_id).order_by("id").values_list("state", flat=True))
