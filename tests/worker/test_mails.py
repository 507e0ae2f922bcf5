"""A worker hands mails over: each arrives once, late when the server was down, and a server that hangs holds up nothing
else."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta

import pytest
from django.conf import LazySettings

from taskhub.core.records import Actor
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Door, State
from taskhub.domain.notices import people as outbox
from taskhub.domain.notices.addresses import confirm, send_trial, set_address, stop
from taskhub.domain.notices.channels import Channel
from taskhub.domain.notices.kinds import Kind
from taskhub.domain.notices.people import begin_telling
from taskhub.store.models import Membership, Notice, NoticeAddress, Server
from taskhub.worker import engine
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.notices.kit import hook, turn
from tests.domain.notices.people_kit import queue, reader
from tests.factories import ROOT, make_person, make_server, make_tool
from tests.support.mailbox import Mailbox, Received, free_port
from tests.support.receiver import Receiver
from tests.worker.kit import Hall, call, ended, wait_until

LINK = re.compile(r"https://hub\.example(/\S+)")


@pytest.fixture
def port(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> int:
    """Where the hub's SMTP server listens, or not."""
    monkeypatch.setattr(engine, "NOTICES_SECONDS", 0.05)
    monkeypatch.setattr(outbox, "GATHER_SECONDS", 0.0)
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()
    settings.PUBLIC_URL, settings.DEFAULT_FROM_EMAIL = "https://hub.example", "TaskHub <taskhub@hub.example>"
    return int(settings.EMAIL_PORT)


@pytest.fixture
def mailbox(port: int) -> Iterator[Mailbox]:
    made = Mailbox(port)
    yield made
    made.close()


@pytest.fixture
def world(hall: Hall) -> World:
    """The tenant of the worker, with a tool whose server is away."""
    server = make_server(hall.context.tenant)
    Server.objects.filter(pk=server.pk).update(enabled=False)
    return World(hall.context, make_tool(server))


def ask(world: World, sentence: str = "Deploy it") -> str:
    """An approval; its task's public id."""
    rule = Rule(name="r", when="", then=Then.ASK, sentence=sentence)
    return kit.create(world, verdict=Verdict(Then.ASK, rule, 1)).public_id


def sent(number: int) -> None:
    wait_until(lambda: Notice.objects.filter(state="sent").count() == number, "all sent")


def test_an_approval_arrives_with_its_sentence_and_its_link(hall: Hall, world: World, mailbox: Mailbox) -> None:
    person = reader(world)
    hall.start()
    task = ask(world)
    sent(1)
    (mail,) = mailbox.received
    assert mail.to == (f"{person.username}@example.com",)
    assert mail.header("Subject") == "Decide: Deploy it"
    assert f"https://hub.example/inbox/task/{task}/?key=approval" in mail.text
    assert person.username in mail.text
    assert "hello" not in mail.raw.decode(), "the argument"


def test_values_of_the_call_stand_in_quotation_marks(hall: Hall, world: World, mailbox: Mailbox) -> None:
    reader(world)
    hall.start()
    ask(world, "Deploy {args.text} now")
    sent(1)
    (mail,) = mailbox.received
    assert mail.header("Subject") == "Decide: Deploy “hello” now"
    assert "Deploy “hello” now" in mail.text
    assert "Deploy “hello” now" in mail.html


def test_a_test_arrives_at_once_in_quiet_hours_too_and_alone(hall: Hall, world: World, mailbox: Mailbox) -> None:
    away = datetime.now(UTC) + timedelta(days=1)
    person = reader(world, away_until=away, pace="daily", daily_at=time(3))
    ask(world)
    queue()
    actor = Actor(name=person.username, door=Door.WEB, user_id=person.user_id)
    who = {"tenant_id": person.tenant_id, "user_id": person.user_id, "channel": Channel.MAIL}
    assert send_trial(**who, actor=actor) == f"{person.username}@example.com"
    hall.start()
    sent(1)
    (mail,) = mailbox.received
    assert mail.header("Subject") == "A test of TaskHub"
    assert "mails of TaskHub come here" in mail.text
    assert "Deploy" not in mail.text
    assert mail.header("List-Unsubscribe")
    (row, waits) = outbox.message_log(person.tenant_id, person.user_id)
    assert {(one.tests, one.state) for one in (row, waits)} == {(True, "sent"), (False, "due")}


def test_a_server_that_was_down_gets_everything_once(hall: Hall, world: World, port: int) -> None:
    people = [reader(world) for _ in range(3)]
    worker = hall.start()
    ask(world)
    for tries in (1, 2, 3):
        failed = Notice.objects.filter(attempts=tries, lease_until=None)
        wait_until(lambda failed=failed: failed.all().count() == 3, f"{tries} tries")
        assert set(Notice.objects.values_list("state", "problem")) == {("due", "Cannot connect: Connection refused")}
        turn(3_600)
    assert worker.mails.at_once == 1
    mailbox = Mailbox(port)
    try:
        turn(60)
        sent(3)
        assert sorted(mail.to[0] for mail in mailbox.received) == sorted(
            f"{person.username}@example.com" for person in people
        )
    finally:
        mailbox.close()


def test_a_worker_that_stops_gives_its_mail_up_and_it_comes_again_under_its_id(
    hall: Hall, world: World, mailbox: Mailbox
) -> None:
    """The server may have taken it, and nobody heard so: then it comes twice, under one id."""
    reader(world)
    done, came = threading.Event(), []

    def slow(mail: Received) -> None:
        came.append(mail)
        done.wait(30)

    mailbox.answers = slow
    hall.start()
    ask(world)
    try:
        wait_until(lambda: came, "a mail under way")
        hall.stop()
    finally:
        done.set()
    assert Notice.objects.get().state == "due"
    turn(3_600)
    hall.start()
    sent(1)
    assert len(came) == 2
    assert len({mail.header("Message-ID") for mail in came}) == 1
    assert len({mail.header("Subject") for mail in came}) == 1


def test_a_server_that_hangs_holds_up_neither_webhooks_nor_tasks(hall: Hall, world: World, mailbox: Mailbox) -> None:
    receiver, done = Receiver(), threading.Event()
    mailbox.answers = lambda mail: done.wait(30) and None
    for _ in range(6):
        reader(world)
    hook(world.context.tenant_id, url=receiver.url, kinds=[Kind.ASKED])
    echo = hall.tool(hall.server(), "echo")
    hall.start()
    try:
        ask(world)
        wait_until(lambda: Notice.objects.filter(channel="mail", attempts=1).count() == 4, "four under way")
        ask(world)
        wait_until(lambda: len(receiver.received) == 2, "both at the webhook")
        assert ended(call(echo, text="hello")).state == State.FINISHED
        assert Notice.objects.filter(channel="mail", attempts=1).count() == 4
        done.set()
        wait_until(lambda: Notice.objects.filter(channel="mail", state="sent").count() >= 6, "the mails")
    finally:
        done.set()
        receiver.close()


def test_an_address_is_confirmed_by_its_link_and_mails_end_by_theirs(
    hall: Hall, world: World, mailbox: Mailbox
) -> None:
    person = make_person("approver", world.context.tenant)
    who = {"tenant_id": person.tenant_id, "user_id": person.user_id, "channel": Channel.MAIL}
    begin_telling()
    hall.start()
    assert set_address(**who, address="ada@example.com", actor=ROOT) == "ada@example.com"
    ask(world)
    queue()
    sent(1)
    (mail,) = mailbox.received
    assert mail.header("Subject") == "Confirm this address for mails of TaskHub"
    assert mail.message["List-Unsubscribe"] is None
    link = next(path for path in LINK.findall(mail.text) if "confirm" in path)
    assert confirm(**who, token=link.rpartition("/")[2], actor=ROOT) == "ada@example.com"
    ask(world, "Deploy {{args.text}}")
    sent(2)
    link = mailbox.received[1].header("List-Unsubscribe")[1:-1]
    assert stop(link.rpartition("/")[2], ROOT) == "ada@example.com"
    membership = Membership.objects.get(user_id=person.user_id)
    assert NoticeAddress.objects.get(choices=membership.pk).address == ""
    other = reader(world)
    ask(world)
    sent(3)
    assert [mail.to for mail in mailbox.received[2:]] == [(f"{other.username}@example.com",)]
