"""What the tests of messages to people share: people who want them, the feed read to its end, messages taken."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection

from taskhub.core.records import Person
from taskhub.domain.notices import people
from taskhub.domain.notices.channels import Channel
from taskhub.domain.notices.kinds import PERSONAL
from taskhub.domain.notices.outbox import Delivered
from taskhub.domain.notices.people import TakenMessage, begin_telling, end_message, queue_for_people, take_messages
from taskhub.store.models import Absence, FeedConsumer, Membership, Notice, NoticeAddress, NoticeChoices
from tests.domain import kit
from tests.domain.notices.kit import turn
from tests.factories import make_person

OK = Delivered(ok=True, status=250)
AWAY = Delivered(ok=False, problem="Cannot connect: refused")


def reader(
    world: kit.World,
    role: str = "approver",
    *,
    groups: list[str] | None = None,
    channel: Channel = Channel.MAIL,
    away_until: datetime | None = None,
    deputy: Person | None = None,
    **wanted: Any,
) -> Person:
    """A person whom a channel reaches."""
    begin_telling()
    person = make_person(role, world.context.tenant, groups=groups)
    where = reach(person, channel, **wanted)
    if away_until is not None:
        named = Membership.objects.get(user_id=deputy.user_id) if deputy else None
        Absence.objects.create(membership_id=where.choices_id, until=away_until, deputy=named)
    return person


def reach(person: Person, channel: Channel, **wanted: Any) -> NoticeAddress:
    """Have a channel reach a person."""
    where = {"address": f"{person.username}@example.com"}
    where |= {name: wanted.pop(name) for name in ("address", "pending") if name in wanted}
    membership = Membership.objects.get(user_id=person.user_id)
    choices, _ = NoticeChoices.objects.update_or_create(
        membership=membership, defaults={"kinds": list(PERSONAL), **wanted}
    )
    return NoticeAddress.objects.create(choices=choices, channel=channel, **where)


def queue() -> None:
    """Read the feed until it has come to what is committed by now."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT xid, id FROM event ORDER BY xid DESC, id DESC LIMIT 1")
        last = cursor.fetchone()

    def there() -> bool:
        queue_for_people()
        place = FeedConsumer.objects.get(name=people.CONSUMER)
        return (place.xid, place.event_id) >= last

    kit.wait_until(there)


def take(channel: Channel = Channel.MAIL) -> list[TakenMessage]:
    """Queue what happened, let what comes together come, and take the messages."""
    queue()
    turn(people.GATHER_SECONDS)
    return take_messages(channel, 10)


def deliver(outcome: Delivered = OK) -> list[TakenMessage]:
    """Take the messages, and say that this came of them."""
    taken = take()
    for message in taken:
        end_message(message, outcome)
    return taken


def states(person: Person) -> list[str]:
    return list(Notice.objects.filter(user_id=person.user_id).order_by("id").values_list("state", flat=True))
