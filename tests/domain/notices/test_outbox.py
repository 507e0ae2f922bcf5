"""The outbox: what is due is taken once, tried again as long as a day, and purged with the rest."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import LazySettings

from taskhub.core.records import Actor
from taskhub.domain.notices import outbox
from taskhub.domain.notices.kinds import Kind
from taskhub.domain.notices.outbox import (
    AT_ONCE,
    PAUSES,
    Delivered,
    Taken,
    end_delivery,
    pause,
    purge_notices,
    take_notices,
)
from taskhub.domain.notices.webhooks import (
    Wanted,
    change_webhook,
    renew_secret,
    send_test,
    set_enabled,
    webhook,
)
from taskhub.store.models import Delivery, Event, Notice, Tenant, Webhook
from tests.domain import kit
from tests.domain.cost import statements
from tests.domain.kit import Crew
from tests.domain.notices.kit import DOWN, OK, deliver, hook, turn
from tests.factories import ROOT, make_tenant
from tests.store import raw as sql

pytestmark = pytest.mark.django_db(transaction=True)

_number = itertools.count(1)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def queue_tests(webhook_id: int, times: int = 1) -> list[str]:
    """Queue tests; their ids."""
    row = Webhook.objects.get(pk=webhook_id)
    made = [f"msg_{next(_number)}" for _ in range(times)]
    for public_id in made:
        send_test(tenant_id=row.tenant_id, webhook_id=webhook_id, actor=ROOT, public_id=public_id)
    return made


def states() -> list[str]:
    return list(Notice.objects.order_by("id").values_list("state", flat=True))


def test_it_is_taken_once_and_sent(tenant: Tenant) -> None:
    ours = hook(tenant.pk, url="https://receiver.example/hooks/a?b=c")
    (made,) = queue_tests(ours)
    (taken,) = take_notices(10)
    assert (taken.public_id, taken.number, taken.url) == (made, 1, "https://receiver.example/hooks/a?b=c")
    assert take_notices(10) == []
    end_delivery(taken, Delivered(ok=True, status=200, answer="thanks"))
    assert states() == ["sent"]
    (row,) = outbox.notice_log(tenant.pk, ours)
    assert (row.state, row.status, row.answer, row.attempts, row.under_way) == ("sent", 200, "thanks", 1, False)
    turn(86_400)
    assert take_notices(10) == []


def test_workers_that_look_at_once_take_each_once_and_few_of_each_receiver(tenant: Tenant) -> None:
    hooks = [hook(tenant.pk, f"hook {n}") for n in range(3)]
    made = [queue_tests(one, 10) for one in hooks]
    crew = Crew(4)
    taken: list[str] = []
    try:
        while len(taken) < 30:
            rounds = crew.race(*[lambda: take_notices(50)] * 4)
            found = [one for part in rounds for one in part]
            for hook_id in hooks:
                assert len([one for one in found if one.webhook_id == hook_id]) <= AT_ONCE
            assert found or not rounds, "somebody takes what is due"
            taken += [one.public_id for one in found]
            for one in found:
                end_delivery(one, OK)
    finally:
        crew.close()
    assert sorted(taken) == sorted(itertools.chain(*made))
    assert set(Notice.objects.values_list("attempts", flat=True)) == {1}


def test_one_that_does_not_answer_holds_up_no_other(tenant: Tenant) -> None:
    slow, quick = hook(tenant.pk, "slow"), hook(tenant.pk, "quick")
    queue_tests(slow, 6)
    deliver(DOWN)
    queue_tests(quick, 2)
    turn(60)
    taken = take_notices(10)
    assert sorted(one.webhook_id for one in taken) == sorted([slow, quick, quick])
    assert take_notices(10) == [], "one at a time to a receiver that does not answer"


def test_a_lost_lease_is_delivered_again_and_the_late_word_changes_nothing(tenant: Tenant) -> None:
    ours = hook(tenant.pk)
    queue_tests(ours)
    (lost,) = take_notices(1)
    turn(outbox.LEASE_SECONDS + 1)
    (again,) = take_notices(1)
    assert (again.public_id, again.number, again.body) == (lost.public_id, 2, lost.body)
    end_delivery(lost, DOWN)
    assert states() == ["due"]
    assert take_notices(1) == []
    end_delivery(again, OK)
    end_delivery(lost, DOWN)
    assert states() == ["sent"]


def test_it_is_tried_for_a_day_and_has_then_failed(tenant: Tenant) -> None:
    ours = hook(tenant.pk)
    queue_tests(ours)
    for number, seconds in enumerate(PAUSES, 1):
        (taken,) = deliver(DOWN)
        assert taken.number == number
        assert take_notices(1) == [], "not before its pause is over"
        turn(seconds * 1.1)
    (last,) = deliver(DOWN)
    assert last.number == len(PAUSES) + 1
    assert states() == ["failed"]
    (row,) = outbox.notice_log(tenant.pk, ours)
    assert (row.problem, row.attempts) == (DOWN.problem, last.number)
    assert timedelta(hours=20) < timedelta(seconds=sum(PAUSES)) < timedelta(hours=26)
    assert webhook(tenant.pk, ours).failing_since is not None


def test_once_it_answers_again_all_that_waits_comes_at_once(tenant: Tenant) -> None:
    ours = hook(tenant.pk)
    made = queue_tests(ours, 3)
    for _ in range(3):
        deliver(DOWN)
        turn(400)
    (first,) = take_notices(10)
    end_delivery(first, OK)
    assert webhook(tenant.pk, ours).failing_since is None
    arrived = [first.public_id, *[one.public_id for one in deliver(OK)]]
    assert sorted(arrived) == sorted(made)
    assert states() == ["sent"] * 3


def test_one_that_is_refused_while_others_are_taken_is_tried_for_a_day_too(tenant: Tenant) -> None:
    ours = hook(tenant.pk)
    (refused,) = queue_tests(ours)
    tried = []

    def others(times: int) -> None:
        """So many others are sent, and taken; what is refused is tried between them, as it comes."""
        for _ in range(times):
            queue_tests(ours)
            while due := take_notices(1):
                tried.extend(due if (wrong := due[0].public_id == refused) else [])
                end_delivery(due[0], DOWN if wrong else OK)

    others(3)
    assert len(tried) == 2, "with the plan, and once more as soon as another was taken"
    for seconds in PAUSES:
        assert Notice.objects.get(public_id=refused).state == "due"
        others(20)
        turn(seconds * 1.11)
        others(20)
    assert Notice.objects.get(public_id=refused).state == "failed"
    assert sum(not one.early for one in tried) == len(PAUSES) + 1
    assert len(tried) <= 2 * len(PAUSES) + 2
    assert all(one.number == number for number, one in enumerate(tried, 1))


def test_what_failed_early_waits_for_its_own_time_and_loses_none_of_its_attempts(tenant: Tenant) -> None:
    ours = hook(tenant.pk)
    made = queue_tests(ours, 3)

    def fail() -> list[Taken]:
        """Have all that is due fail, one at a time."""
        found: list[Taken] = []
        while due := deliver(DOWN):
            found += due
        return found

    for seconds in (0.0, *PAUSES[:4]):
        turn(seconds * 1.11)
        assert len(fail()) == 3
    for failed_early, seconds in enumerate(PAUSES[:3]):
        queue_tests(ours)
        deliver(OK, 1)
        early = fail()
        assert sorted(one.public_id for one in early) == sorted(made), "it answered again, and then not"
        assert {(one.early, one.failures, one.early_failures) for one in early} == {(True, 5, failed_early)}
        turn(seconds * 1.11)
    turn(PAUSES[4] * 1.11)
    (planned,) = take_notices(1)
    assert (planned.early, planned.failures) == (False, 5)


def test_a_receiver_that_wants_to_be_asked_later_is_not_asked_early(tenant: Tenant) -> None:
    ours = hook(tenant.pk)
    (made,) = queue_tests(ours)
    deliver(Delivered(ok=False, status=429, problem="The receiver answered 429", later=600))
    queue_tests(ours)
    deliver(OK)
    assert take_notices(10) == []
    turn(599)
    assert take_notices(10) == []
    turn(70)
    assert [one.public_id for one in take_notices(10)] == [made]


def test_what_waits_is_sent_to_another_address_at_once(tenant: Tenant) -> None:
    ours = hook(tenant.pk)
    (made,) = queue_tests(ours)
    for seconds in PAUSES[:5]:
        deliver(DOWN)
        turn(seconds * 1.11)
    deliver(DOWN)
    assert take_notices(10) == []
    known = Wanted("ours", None, tuple(Kind))
    change_webhook(tenant_id=tenant.pk, webhook_id=ours, wanted=replace(known, name="ours too"), actor=ROOT)
    assert take_notices(10) == [], "what changed does not help it to arrive"
    change_webhook(
        tenant_id=tenant.pk, webhook_id=ours, wanted=replace(known, url="https://right.example/"), actor=ROOT
    )
    (taken,) = take_notices(10)
    assert (taken.public_id, taken.url, taken.early) == (made, "https://right.example/", True)


def test_what_waits_is_told_with_why_and_when_it_is_sent(tenant: Tenant) -> None:
    ours, other = hook(tenant.pk), hook(tenant.pk, "other")

    def told() -> tuple[int, str, bool]:
        row = webhook(tenant.pk, ours)
        return row.waiting, row.problem, row.next_at is not None

    assert told() == (0, "", False)
    queue_tests(ours, 3)
    queue_tests(other)
    assert told() == (3, "", False), "it is their turn"
    while due := [one for one in take_notices(10) if one.webhook_id == ours]:
        for one in due:
            end_delivery(one, DOWN)
    assert told() == (3, DOWN.problem, True)
    next_at = webhook(tenant.pk, ours).next_at
    assert next_at == min(Notice.objects.filter(webhook_id=ours).values_list("due_at", flat=True))
    turn(PAUSES[0] * 1.11)
    end_delivery(take_notices(10)[0], Delivered(ok=False, status=500, problem="The receiver answered 500"))
    assert webhook(tenant.pk, ours).problem == "The receiver answered 500"
    end_delivery(take_notices(10)[0], OK)
    assert told() == (2, "", False), "it answers again: it is their turn"
    set_enabled(tenant_id=tenant.pk, webhook_id=ours, enabled=False, actor=ROOT)
    assert told() == (0, "", False)


def test_the_pause_is_longer_if_the_receiver_says_so() -> None:
    assert 5 <= (pause(1) or 0) <= 5.5
    assert 120 <= (pause(1, wanted=120) or 0) <= 132
    assert pause(len(PAUSES) + 1) is None


def test_a_receiver_that_is_gone_is_disabled_and_what_waits_has_failed(tenant: Tenant) -> None:
    ours = hook(tenant.pk)
    queue_tests(ours, 6)
    (taken, *others) = take_notices(10)
    end_delivery(taken, Delivered(ok=False, status=410, problem="The receiver answered 410", gone=True))
    row = webhook(tenant.pk, ours)
    assert (row.enabled, row.disabled_why) == (False, "The receiver answered that it is gone (410)")
    assert states() == ["failed"] * 6
    for one in others:
        end_delivery(one, OK)
    assert states() == ["failed"] * 6
    event = Event.objects.get(action="webhook.disabled")
    assert (event.door, event.reason) == ("worker", row.disabled_why)


def test_send_again_keeps_the_id(tenant: Tenant) -> None:
    ours, other = hook(tenant.pk), hook(tenant.pk, "other")
    (made,) = queue_tests(ours)
    deliver(OK)
    assert outbox.send_again(tenant.pk, other, made) is False
    assert outbox.send_again(make_tenant().pk, ours, made) is False
    assert outbox.send_again(tenant.pk, ours, made) is True
    (taken,) = take_notices(1)
    assert (taken.public_id, taken.number) == (made, 2)
    assert outbox.send_again(tenant.pk, ours, made) is False, "it is being sent"
    end_delivery(taken, OK)
    assert Delivery.objects.count() == 2


def test_both_secrets_sign_for_a_day(tenant: Tenant) -> None:
    ours = hook(tenant.pk)
    queue_tests(ours)
    secret = renew_secret(tenant_id=tenant.pk, webhook_id=ours, actor=ROOT)
    (taken,) = take_notices(1)
    assert len(taken.secrets) == 2
    assert taken.secrets[0] == secret != taken.secrets[1]
    end_delivery(taken, OK)
    Webhook.objects.update(before_until=Webhook.objects.get().made_at)
    queue_tests(ours)
    (taken,) = take_notices(1)
    assert taken.secrets == (secret,)


def test_what_waits_is_sent_at_once_with_a_new_secret_and_once_that_is_known(tenant: Tenant) -> None:
    """It was refused for its signature, four times, and would wait for half an hour."""
    ours = hook(tenant.pk)
    (made,) = queue_tests(ours)
    for seconds in PAUSES[:4]:
        deliver(DOWN)
        assert take_notices(10) == []
        turn(seconds * 1.2)
    deliver(DOWN)
    assert take_notices(10) == []
    secret = renew_secret(tenant_id=tenant.pk, webhook_id=ours, actor=ROOT)
    (taken,) = take_notices(10)
    assert (taken.public_id, taken.secrets[0], taken.early) == (made, secret, True)
    # The receiver does not have it yet. It answers a test when it has.
    end_delivery(taken, DOWN)
    assert take_notices(10) == []
    turn(6)
    queue_tests(ours)
    (test,) = take_notices(10)
    end_delivery(test, OK)
    assert [one.public_id for one in take_notices(10)] == [made]


def test_nothing_waits_for_its_time_once_a_webhook_is_enabled_again(tenant: Tenant) -> None:
    """Disabled, what waits has failed. What is sent again after that is sent at once."""
    ours = hook(tenant.pk)
    (made,) = queue_tests(ours)
    deliver(DOWN)
    for enabled in (False, True):
        set_enabled(tenant_id=tenant.pk, webhook_id=ours, enabled=enabled, actor=ROOT)
    assert (take_notices(10), states()) == ([], ["failed"])
    assert outbox.send_again(tenant.pk, ours, made)
    assert [one.public_id for one in take_notices(10)] == [made]


def test_no_secret_is_stored_in_the_clear_or_kept_of_an_answer(tenant: Tenant) -> None:
    ours = hook(tenant.pk, url="https://receiver.example/hooks/s3cret-path")
    secret = renew_secret(tenant_id=tenant.pk, webhook_id=ours, actor=ROOT)
    queue_tests(ours)
    (taken,) = take_notices(1)
    bare = secret.removeprefix("whsec_")
    echo = f"you sent {secret} and {bare} to {taken.url}\0"
    end_delivery(taken, Delivered(ok=False, status=500, answer=echo, problem=echo))
    dump = []
    with sql.connect() as raw:
        for table in ("webhook", "notice", "delivery", "event"):
            dump += [str(row[0]) for row in raw.execute(f"SELECT to_jsonb(t) FROM {table} t").fetchall()]
    text = "".join(dump)
    assert "you sent •••" in text
    for private in (secret, bare, "s3cret-path", *taken.secrets):
        assert private not in text
    assert private not in repr(taken)


def test_what_was_sealed_under_another_key_is_left_out(tenant: Tenant, settings: LazySettings) -> None:
    ours = hook(tenant.pk)
    queue_tests(ours)
    settings.SECRET_KEY = "another key, by which nothing was encrypted so far"
    (taken,) = take_notices(1)
    assert (taken.url, taken.secrets) == ("", ())


def test_what_waits_for_a_disabled_one_has_failed(tenant: Tenant) -> None:
    ours = hook(tenant.pk)
    queue_tests(ours)
    set_enabled(tenant_id=tenant.pk, webhook_id=ours, enabled=False, actor=Actor(name="mia", door=ROOT.door))
    assert states() == ["failed"]
    assert take_notices(1) == []
    assert outbox.send_again(tenant.pk, ours, Notice.objects.get().public_id) is False
    assert states() == ["failed"]


def test_old_notices_go_with_their_deliveries(tenant: Tenant) -> None:
    ours = hook(tenant.pk)
    queue_tests(ours, 2)
    deliver(OK)
    turn(86_400 * 31)
    (young,) = queue_tests(ours)
    assert purge_notices(retention_days=30) == 2
    assert list(Notice.objects.values_list("public_id", flat=True)) == [young]
    assert not Delivery.objects.exists()


def test_an_empty_outbox_is_one_question(tenant: Tenant) -> None:
    hook(tenant.pk)
    assert statements(lambda: take_notices(50)) == 1
    kit.wait_until(lambda: take_notices(50) == [])
