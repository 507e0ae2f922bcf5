"""News for people: who gets it, of what, when, where, and that each message comes once."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from django.conf import LazySettings
from django.db import connection

from taskhub.core.records import Actor, Person
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Audience, Door, QuestionKind
from taskhub.domain.notices import people
from taskhub.domain.notices.channels import Channel
from taskhub.domain.notices.choices import PACE_SECONDS, Choices, leaves_at, zones
from taskhub.domain.notices.kinds import AUTHORIZATION, OUTCOME, QUESTION, UNDECIDABLE, Kind
from taskhub.domain.notices.outbox import PAUSES, Delivered
from taskhub.domain.notices.people import end_message, hurry_messages, message_log, take_messages
from taskhub.domain.people.absences import go_away
from taskhub.domain.questions.answer import answer_question, decide_approval
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Absence, Delivery, FeedConsumer, Membership, Notice, NoticeAddress, NoticeChoices, Tool
from tests.domain import kit
from tests.domain.kit import Crew, World
from tests.domain.notices.kit import turn
from tests.domain.notices.people_kit import AWAY, OK, deliver, queue, reader, states, take
from tests.factories import make_person, make_question
from tests.support.factors import Phone


@pytest.fixture(autouse=True)
def _sends(settings: LazySettings) -> None:
    settings.EMAIL_HOST = "mail.example.com"


def asks(**fields: object) -> Verdict:
    return Verdict(Then.ASK, Rule(name="r", when="", then=Then.ASK, **fields), 1)  # type: ignore[arg-type]


def decide(task_id: int) -> None:
    decide_approval(task_id, kit.opened(task_id), approve=True, actor=kit.approver(task_id))


def test_it_goes_to_those_who_may_decide_and_want_it(world: World) -> None:
    wanted = reader(world, groups=["ops"])
    admin = reader(world, "admin", groups=["ops"])
    others = [
        reader(world),
        reader(world, "operator", groups=["ops"]),
        reader(world, groups=["ops"], kinds=[Kind.REMINDED]),
        reader(world, groups=["ops"], kinds=[]),
        reader(world, groups=["ops"], address="", pending="new@example.com"),
        reader(kit.make_world(), groups=["ops"]),
    ]
    make_person("approver", world.context.tenant, groups=["ops"])
    task = kit.create(world, verdict=asks(group="ops"), arguments={"text": "the argument"})
    taken = take()
    assert {mail.username for mail in taken} == {wanted.username, admin.username}
    for mail in taken:
        (approval,) = mail.approvals
        assert (approval.kind, approval.tool, approval.server) == (
            "approval.asked",
            world.tool.exposed_name,
            world.tool.server_name,
        )
        assert approval.path == f"/inbox/task/{task.public_id}/?key=approval"
        assert "the argument" not in repr(mail)
    assert [states(person) for person in others] == [[]] * len(others)


def test_who_may_not_decide_it_after_all_gets_none(world: World) -> None:
    fresh, governor, voted = reader(world), reader(world), reader(world)
    verdict = Verdict(Then.ASK, Rule(name="r", when="", then=Then.ASK, quorum=2), 1)
    task = kit.create(world, verdict=verdict)
    queue()
    assert [states(person) for person in (fresh, governor, voted)] == [["due"]] * 3
    Membership.objects.filter(user_id=fresh.user_id).update(granted_at=datetime.now(UTC))
    Membership.objects.filter(user_id=governor.user_id).update(governed_at=datetime.now(UTC))
    actor = Actor(name=voted.username, door=Door.WEB, user_id=voted.user_id)
    decide_approval(task.id, kit.opened(task.id), approve=True, actor=actor)
    assert take() == []
    assert [states(person) for person in (fresh, governor, voted)] == [["skipped"]] * 3
    assert Delivery.objects.count() == 0


def test_the_requester_gets_none_where_the_rule_says_so(world: World) -> None:
    person = reader(world)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE auth_context SET issuer = 'taskhub/oauth', subject = %s WHERE id = %s",
            [f"user:{person.user_id}", world.context.pk],
        )
    kit.create(world, verdict=asks(not_requester=True))
    assert take() == []
    kit.create(world, verdict=asks())
    assert len(take()) == 1


def test_what_waits_for_the_group_of_who_is_away_is_mailed_to_the_deputy(world: World) -> None:
    dora, other = reader(world), reader(world)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    paul = reader(world, groups=["ops"], away_until=tomorrow, deputy=dora)
    kit.create(world, verdict=asks(group="ops"))
    (mail,) = take()
    assert mail.username == dora.username
    assert [states(person) for person in (dora, other, paul)] == [["due"], [], ["due"]]
    kit.create(world, verdict=asks(group="ops"))
    queue()
    Absence.objects.all().delete()
    for taken in (mail,):
        end_message(taken, OK)
    NoticeAddress.objects.update(sent_at=None)
    turn(PACE_SECONDS)
    assert [one.username for one in take()] == [paul.username], "he is back: the deputy is told nothing more"
    assert states(dora) == ["sent", "skipped"]


def leave(person: Person, until: datetime, deputy: str = "") -> None:
    tenant = Membership.objects.get(user_id=person.user_id).tenant_id
    actor = Actor(name=person.username, door=Door.WEB, user_id=person.user_id)
    go_away(tenant_id=tenant, user_id=person.user_id, until=until, deputy=deputy, roles=["approver"], actor=actor)


def test_a_deputy_is_told_once_of_what_waits_already(world: World) -> None:
    dora, paul, other = reader(world), reader(world, groups=["ops"]), reader(world, groups=["legal"])
    waiting = kit.create(world, verdict=asks(group="ops"))
    kit.create(world, verdict=asks(group="legal"))
    kit.create(world, verdict=asks())
    queue()
    assert [len(states(person)) for person in (dora, paul, other)] == [1, 2, 2]
    until = datetime.now(UTC) + timedelta(days=1)
    for hours in range(2):  # the second time only the end changes
        leave(paul, until + timedelta(hours=hours), dora.username)
        queue()
        assert [len(states(person)) for person in (dora, paul, other)] == [2, 2, 2]
    (mail,) = [mail for mail in take() if mail.username == dora.username]
    assert len(mail.approvals) == 2
    assert any(waiting.public_id in approval.path for approval in mail.approvals)
    leave(other, until)
    queue()
    assert len(states(dora)) == 2, "who names no deputy has none"


def told(person: Person) -> list[str]:
    return list(Notice.objects.filter(user_id=person.user_id).order_by("id").values_list("kind", flat=True))


def test_what_waits_for_people_and_is_no_approval_is_told_to_who_may_answer(world: World) -> None:
    operator, approver, admin = reader(world, "operator"), reader(world), reader(world, "admin")
    viewer, uninterested = reader(world, "viewer"), reader(world, "operator", kinds=["approval.asked"])
    everybody = (operator, approver, admin, viewer, uninterested)
    cases = (
        (make_question(audience=Audience.OPERATOR), [QUESTION], (operator, approver, admin)),
        (make_question(audience=Audience.EITHER), [], ()),
        (make_question(audience=Audience.CLIENT), [], ()),
        (make_question(QuestionKind.OUTCOME), [OUTCOME], (operator, approver, admin)),
        (make_question(QuestionKind.AUTHORIZATION), [AUTHORIZATION], (operator, approver, admin)),
        (
            make_question(QuestionKind.AUTHORIZATION, params={"message": "m", "everyone": True}),
            [AUTHORIZATION],
            (admin,),
        ),
        (
            make_question(QuestionKind.AUTHORIZATION, params={"message": "m", "user": operator.user_id}),
            [AUTHORIZATION],
            (operator,),
        ),
    )
    for asked, kinds, whom in cases:
        Notice.objects.all().delete()
        kit.create(world)
        kit.ask(kit.claim_one(), asked)
        queue()
        for person in everybody:
            assert told(person) == (kinds if person in whom else []), (asked.kind, asked.params, person.role)


def test_what_others_have_answered_is_not_told_and_what_is_told_has_no_word_of_the_tool(world: World) -> None:
    person = reader(world, "operator")
    answered = kit.create(world)
    kit.ask(kit.claim_one(), make_question(audience=Audience.OPERATOR))
    waits = kit.create(world)
    kit.ask(kit.claim_one(), make_question(audience=Audience.OPERATOR))
    queue()
    response = {"action": "decline"}
    answer_question(answered.id, kit.opened(answered.id), response, actor=Actor(name="x", door=Door.CLI))
    (message,) = take()
    (one,) = message.approvals
    assert one.path.startswith(f"/inbox/task/{waits.public_id}/?key=")
    assert (one.kind, one.tool, one.sentence) == (QUESTION, world.tool.exposed_name, ())
    assert "Who are you" not in repr(message)
    assert sorted(states(person)) == ["due", "skipped"]


def test_a_question_that_is_passed_on_to_people_is_told_then(world: World) -> None:
    person = reader(world, "operator")
    Tool.objects.filter(pk=world.tool.id).update(people_after_program=True)
    task = kit.create(world)
    kit.ask(kit.claim_one(), make_question(audience=Audience.EITHER))
    queue()
    assert told(person) == []
    client = Actor(name="c", door=Door.CLIENT, context_id=world.context.pk)
    assert answer_question(task.id, kit.opened(task.id), {"action": "decline"}, actor=client) == "passed on"
    queue()
    assert told(person) == [QUESTION]


def test_what_comes_together_is_one_mail_and_the_next_comes_a_minute_later(world: World) -> None:
    person = reader(world)
    for _ in range(3):
        kit.create(world, verdict=asks())
    queue()
    assert take_messages(Channel.MAIL, 10) == [], "what comes together is waited for"
    (first,) = deliver()
    assert len(first.approvals) == 3
    assert states(person) == ["sent"] * 3
    for _ in range(2):
        kit.create(world, verdict=asks())
    assert take() == []
    NoticeAddress.objects.update(sent_at=datetime.now(UTC) - timedelta(seconds=PACE_SECONDS))
    turn(PACE_SECONDS)
    (second,) = deliver()
    assert len(second.approvals) == 2
    assert first.id != second.id
    turn(86_400)
    assert take() == []


def test_a_reminder_is_told_once_for_each_approval(world: World) -> None:
    reader(world)
    task = kit.create(world, verdict=asks(remind_minutes=10))
    kit.turn_back(task.id, "remind_at", 1, table="question")
    assert sweep() == 1
    (mail,) = deliver()
    assert [approval.kind for approval in mail.approvals] == ["approval.reminded"]
    assert sorted(Notice.objects.values_list("state", "kind")) == [
        ("sent", "approval.reminded"),
        ("skipped", "approval.asked"),
    ]


def test_administrators_are_told_where_a_deputy_lacks_the_second_factor(world: World) -> None:
    admin, deputy = reader(world, "admin"), reader(world)
    Phone(reader(world, groups=["ops"], away_until=datetime.now(UTC) + timedelta(days=1), deputy=deputy))
    kit.create(world, verdict=asks(second_factor=True, group="ops"))
    told = {mail.username: [approval.kind for approval in mail.approvals] for mail in take()}
    assert told[admin.username] == [UNDECIDABLE]
    Phone(deputy)
    kit.create(world, verdict=asks(second_factor=True, group="ops"))
    queue()
    assert states(admin) == ["due"]  # no other


def test_administrators_are_told_what_too_few_people_can_decide(world: World) -> None:
    admin, unasked = reader(world, "admin"), reader(world, "admin", kinds=[Kind.ASKED])
    reader(world, "operator")
    approver = reader(world)
    nobody = kit.create(world, verdict=asks(group="empty"))
    few = kit.create(world, verdict=asks(quorum=9))
    kit.create(world, verdict=asks(second_factor=True))
    enough = kit.create(world, verdict=asks())
    told = {mail.username: mail.approvals for mail in take()}
    assert [approval.kind for approval in told[admin.username]] == [*[UNDECIDABLE] * 3, "approval.asked"]
    assert nobody.public_id in told[admin.username][0].path
    assert few.public_id in told[admin.username][1].path
    assert enough.public_id in told[admin.username][3].path
    for person in (unasked, approver):
        assert [approval.kind for approval in told[person.username]] == ["approval.asked"] * 3


def test_what_somebody_can_decide_after_all_is_told_no_more_or_as_asked(world: World) -> None:
    admin, decider = reader(world, "admin"), reader(world, "admin", groups=["empty"])
    demoted = reader(world, "admin")
    kit.create(world, verdict=asks(group="empty", quorum=2))
    queue()
    make_person("approver", world.context.tenant, groups=["empty"])
    Membership.objects.filter(user_id=demoted.user_id).update(role="approver")
    (mail,) = take()
    assert mail.username == decider.username
    assert [approval.kind for approval in mail.approvals] == ["approval.asked"]
    assert (states(admin), states(demoted)) == (["skipped"], ["skipped"])


def test_a_mail_that_was_not_taken_comes_again_under_its_id(world: World) -> None:
    person = reader(world)
    first, second = kit.create(world, verdict=asks()), kit.create(world, verdict=asks())
    (mail,) = deliver(AWAY)
    assert states(person) == ["due", "due"]
    later = kit.create(world, verdict=asks())
    turn(60)
    decide(first.id)
    (again,) = take()
    assert (again.id, again.number, again.address) == (mail.id, 2, mail.address)
    assert [approval.path.split("/")[3] for approval in again.approvals] == [second.public_id]
    end_message(again, OK)
    turn(120)
    NoticeAddress.objects.update(sent_at=None)
    (last,) = deliver()
    assert [approval.path.split("/")[3] for approval in last.approvals] == [later.public_id]
    assert last.id != mail.id
    assert states(person) == ["skipped", "sent", "sent"]


def test_it_is_tried_for_a_day(world: World) -> None:
    person = reader(world)
    kit.create(world, verdict=asks())
    for number in range(1, len(PAUSES) + 2):
        (mail,) = deliver(AWAY)
        assert mail.number == number
        Notice.objects.update(due_at=datetime.now(UTC))
    assert states(person) == ["failed"]
    (row,) = message_log(person.tenant_id, person.user_id)
    assert (row.state, row.attempts, row.problem, row.notices) == ("failed", len(PAUSES) + 1, AWAY.problem, 1)


def test_when_the_server_answers_again_what_waits_is_due_at_once(world: World) -> None:
    silent, refused = reader(world), reader(world)
    kit.create(world, verdict=asks())
    for mail in take():
        later = Delivered(ok=False, status=451, problem="later")
        end_message(mail, AWAY if mail.username == silent.username else later)
    assert take_messages(Channel.MAIL, 10) == []
    assert hurry_messages(Channel.MAIL) == 1
    assert [mail.username for mail in take_messages(Channel.MAIL, 10)] == [silent.username]
    assert states(refused) == ["due"]


def test_a_lost_worker_s_mail_is_taken_again_and_its_late_word_does_not_count(world: World) -> None:
    person = reader(world)
    kit.create(world, verdict=asks())
    (lost,) = take()
    assert take_messages(Channel.MAIL, 10) == []
    turn(61)
    (again,) = take_messages(Channel.MAIL, 10)
    assert (again.id, again.number) == (lost.id, 2)
    end_message(lost, AWAY)
    assert take_messages(Channel.MAIL, 10) == []
    end_message(again, OK)
    assert states(person) == ["sent"]


def test_workers_that_look_at_once_take_one_mail_of_each_person(world: World) -> None:
    readers = [reader(world) for _ in range(5)]
    for _ in range(4):
        kit.create(world, verdict=asks())
    queue()
    turn(people.GATHER_SECONDS)
    crew = Crew(4)
    taken = []
    try:
        while len(taken) < 5:
            found = [mail for part in crew.race(*[lambda: take_messages(Channel.MAIL, 3)] * 4) for mail in part]
            assert found
            taken += found
    finally:
        crew.close()
    assert sorted(mail.username for mail in taken) == sorted(person.username for person in readers)
    assert {len(mail.approvals) for mail in taken} == {4}


def test_away_and_quiet_mails_wait_and_then_tell_what_still_waits(world: World) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    hour = datetime.now(UTC).hour
    quiet = {"quiet_from": time((hour - 1) % 24), "quiet_until": time((hour + 2) % 24)}
    away, asleep = reader(world, away_until=tomorrow), reader(world, **quiet)
    decided, waits = kit.create(world, verdict=asks()), kit.create(world, verdict=asks())
    assert take() == []
    assert states(away) == states(asleep) == ["due", "due"]
    decide(decided.id)
    Absence.objects.all().delete()
    NoticeChoices.objects.update(quiet_from=None, quiet_until=None)
    turn(86_400 * 2)
    for mail in deliver():
        assert [approval.path.split("/")[3] for approval in mail.approvals] == [waits.public_id]
    assert states(away) == states(asleep) == ["skipped", "sent"]


def test_the_mail_of_the_day_comes_at_its_time(world: World) -> None:
    at = (datetime.now(UTC) + timedelta(hours=2)).time().replace(second=0, microsecond=0)
    person = reader(world, pace="daily", daily_at=at)
    kit.create(world, verdict=asks())
    kit.create(world, verdict=asks())
    assert take() == []
    turn(86_400)
    (mail,) = deliver()
    assert len(mail.approvals) == 2
    assert states(person) == ["sent", "sent"]


def test_nothing_is_queued_where_no_mail_is_sent(world: World, settings: LazySettings) -> None:
    person = reader(world)
    settings.EMAIL_HOST = ""
    kit.create(world, verdict=asks())
    kit.wait_until(lambda: people.queue_for_people() == 0 and not feed_waits())
    settings.EMAIL_HOST = "mail.example.com"
    queue()
    assert states(person) == []


def feed_waits() -> bool:
    place = FeedConsumer.objects.get(name=people.CONSUMER)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM event WHERE (xid, id) > (%s, %s)", [place.xid, place.event_id])
        return bool(cursor.fetchone()[0])


def test_so_many_wait_for_one_person(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "MAX_WAITING", 2)
    person = reader(world, away_until=datetime.now(UTC) + timedelta(days=1))
    for _ in range(3):
        kit.create(world, verdict=asks())
        queue()
    assert states(person) == ["due", "due"]


# --- when a mail may leave

NIGHT = {"quiet_from": time(22), "quiet_until": time(7)}
BERLIN, NOON = "Europe/Berlin", {"quiet_from": time(12), "quiet_until": time(13)}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


LEAVES = (
    ("at once", Choices(), "2026-07-01 12:00", "2026-07-01 12:00"),
    ("before the night", Choices(**NIGHT), "2026-07-01 21:59", "2026-07-01 21:59"),
    ("when the night begins", Choices(**NIGHT), "2026-07-01 22:00", "2026-07-02 07:00"),
    ("after midnight", Choices(**NIGHT), "2026-07-02 03:00", "2026-07-02 07:00"),
    ("when the night ends", Choices(**NIGHT), "2026-07-02 07:00", "2026-07-02 07:00"),
    ("at noon", Choices(**NOON), "2026-07-02 12:30", "2026-07-02 13:00"),
    ("in their zone", Choices(**NIGHT, zone=BERLIN), "2026-07-01 20:30", "2026-07-02 05:00"),
    ("in their winter", Choices(**NIGHT, zone=BERLIN), "2026-12-01 20:30", "2026-12-01 20:30"),
    ("clocks go on", Choices(**NIGHT, zone=BERLIN), "2026-03-28 22:30", "2026-03-29 05:00"),
    ("clocks go back", Choices(**NIGHT, zone=BERLIN), "2026-10-24 22:30", "2026-10-25 06:00"),
    ("an hour that is skipped", Choices(quiet_from=time(1), quiet_until=time(2, 30), zone=BERLIN),
     "2026-03-29 00:30", "2026-03-29 01:30"),
    ("away", Choices(away_until=at("2026-07-09 08:00")), "2026-07-01 12:00", "2026-07-09 08:00"),
    ("back in the night", Choices(**NIGHT, away_until=at("2026-07-09 23:00")), "2026-07-01 12:00", "2026-07-10 07:00"),
    ("daily", Choices(pace="daily", daily_at=time(8)), "2026-07-01 12:00", "2026-07-02 08:00"),
    ("daily in their zone", Choices(pace="daily", daily_at=time(8), zone=BERLIN), "2026-07-01 05:00",
     "2026-07-01 06:00"),
    ("daily in the night", Choices(pace="daily", daily_at=time(23), **NIGHT), "2026-07-01 12:00", "2026-07-02 07:00"),
)  # fmt: skip


def test_when_a_mail_may_leave() -> None:
    for what, choices, now, leaves in LEAVES:
        found = leaves_at(choices, queued_at=at(now), sent_at=None, now=at(now))
        assert found == at(leaves), what
    now = at("2026-07-01 12:00")
    soon = leaves_at(Choices(), queued_at=now, sent_at=now - timedelta(seconds=20), now=now)
    assert soon == now + timedelta(seconds=PACE_SECONDS - 20)
    assert leaves_at(Choices(), queued_at=now, sent_at=now, now=now, again=True) == now


def test_every_zone_that_is_offered_is_known() -> None:
    now = at("2026-07-01 12:00")
    assert zones()[0] == "UTC"
    assert len(zones()) > 300
    for zone in zones():
        leaves_at(Choices(**NIGHT, zone=zone), queued_at=now, sent_at=None, now=now)
