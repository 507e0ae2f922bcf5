"""A worker delivers notices: each comes once, whoever delivers, and late to a receiver that was down."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from taskhub.domain.notices.kinds import Kind
from taskhub.domain.notices.queueing import begin_queueing
from taskhub.domain.notices.webhooks import Wanted, add_webhook, remove_webhook
from taskhub.store.models import Notice, Server
from taskhub.worker import engine
from tests.domain.notices.kit import come_due, turn
from tests.factories import ROOT, make_server, make_task, make_tool
from tests.support.receiver import Receiver
from tests.worker.kit import Hall, wait_until


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "NOTICES_SECONDS", 0.05)


def hook(hall: Hall, receiver: Receiver, name: str = "ours") -> int:
    begin_queueing()
    wanted = Wanted(name, receiver.url, [Kind.CANCELLED])
    made, receiver.secret = add_webhook(tenant_id=hall.context.tenant_id, wanted=wanted, actor=ROOT)
    return made


def end(hall: Hall, tasks: int) -> list[str]:
    """Tasks that end without any worker, since their server is disabled; their public ids."""
    server = make_server(hall.context.tenant)
    Server.objects.filter(pk=server.pk).update(enabled=False)
    tool = make_tool(server)
    return [make_task(hall.context, tool, state="cancelled").public_id for _ in range(tasks)]


def sent(count: int) -> None:
    wait_until(lambda: Notice.objects.filter(state="sent").count() == count, "all notices sent")


def test_each_end_of_a_task_comes_signed_and_once_from_two_workers(hall: Hall, receiver: Receiver) -> None:
    hook(hall, receiver)
    other = Hall()
    try:
        for worker in (hall, other):
            worker.start()
        tasks = end(hall, 30)
        sent(30)
    finally:
        other.stop()
    assert receiver.problems == []
    assert sorted(message.body["data"]["task"] for message in receiver.received) == sorted(tasks)
    assert len(set(receiver.ids())) == 30
    assert {message.attempt for message in receiver.received} == {1}


def test_a_receiver_that_was_down_gets_everything_once(hall: Hall) -> None:
    receiver = Receiver()
    hook(hall, receiver)
    secret, port = receiver.secret, receiver.port
    receiver.close()
    hall.start()
    tasks = end(hall, 5)
    for tries in (1, 2, 3):
        if tries > 1:
            come_due()
        failed = Notice.objects.filter(attempts=tries, lease_until=None)
        wait_until(lambda failed=failed: failed.all().count() == 5, f"{tries} tries")
        assert not Notice.objects.exclude(state="due").exists()
    receiver = Receiver(port)
    receiver.secret = secret
    try:
        come_due()
        sent(5)
    finally:
        receiver.close()
    assert receiver.problems == []
    assert sorted(message.body["data"]["task"] for message in receiver.received) == sorted(tasks)
    assert len(set(receiver.ids())) == 5
    assert {message.attempt for message in receiver.received} == {4}


def test_a_slow_receiver_holds_up_no_other(hall: Hall, receiver: Receiver) -> None:
    slow, done = Receiver(), threading.Event()
    slow.before_answer = lambda message: done.wait(30) and None
    try:
        hook(hall, slow, "slow")
        hook(hall, receiver)
        hall.start()
        end(hall, 12)
        wait_until(lambda: len(receiver.received) == 12, "all at the quick one")
        assert len(slow.received) <= 4, "some at a time"
        done.set()
        sent(24)
    finally:
        done.set()
        slow.close()


def test_a_worker_that_stops_gives_its_deliveries_up(hall: Hall, receiver: Receiver) -> None:
    done = threading.Event()
    hook(hall, receiver)
    receiver.before_answer = lambda message: done.wait(30) and None
    hall.start()
    end(hall, 1)
    try:
        wait_until(lambda: receiver.received, "a delivery under way")
        hall.stop()
    finally:
        done.set()
    assert Notice.objects.get().state == "due"
    turn(3_600)
    hall.start()
    sent(1)
    assert [message.attempt for message in receiver.received] == [1, 2]
    assert len(set(receiver.ids())) == 1


def test_a_webhook_that_is_removed_while_it_is_sent_to_is_gone(hall: Hall, receiver: Receiver) -> None:
    done = threading.Event()
    ours = hook(hall, receiver)
    receiver.before_answer = lambda message: done.wait(30) and None
    worker = hall.start()
    end(hall, 1)
    try:
        wait_until(lambda: receiver.received, "a delivery under way")
        remove_webhook(tenant_id=hall.context.tenant_id, webhook_id=ours, actor=ROOT)
    finally:
        done.set()
    wait_until(lambda: not worker.notices._deliveries, "its end")
    assert not Notice.objects.exists()
    assert not worker.failed
