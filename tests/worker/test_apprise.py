"""A worker tells people on services that Apprise reaches: each message arrives once, late where the service was down,
and a service that hangs holds up nobody who is told on another."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator

import pytest
from django.conf import LazySettings

from taskhub.core.errors import Invalid, Refused
from taskhub.core.records import Person
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Door
from taskhub.domain.health import doctor
from taskhub.domain.notices import channels, targets
from taskhub.domain.notices import people as outbox
from taskhub.domain.notices.addresses import addresses_of, confirm, send_trial, set_address
from taskhub.domain.notices.channels import Channel
from taskhub.domain.notices.people import begin_telling
from taskhub.notify.apprise import sending
from taskhub.store.models import Event, Notice, NoticeAddress, Server
from taskhub.worker import engine
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.notices.kit import turn
from tests.domain.notices.people_kit import queue, reader
from tests.factories import ROOT, make_person, make_server, make_tool
from tests.support.apprise_receiver import Service
from tests.support.mailbox import free_port
from tests.worker.kit import Hall, wait_until

LINK = re.compile(r"/accounts/notifications/apprise/confirm/(\S+)")
TOKENS = ("token-of-the-hub", "topic-of-")


@pytest.fixture(autouse=True)
def _quick(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "NOTICES_SECONDS", 0.05)
    monkeypatch.setattr(outbox, "GATHER_SECONDS", 0.0)
    settings.PUBLIC_URL = "https://hub.example"


@pytest.fixture
def service(settings: LazySettings) -> Iterator[Service]:
    made = Service()
    settings.TASKHUB_APPRISE_URLS = {"desk": made.url}
    yield made
    made.close()


@pytest.fixture
def world(hall: Hall) -> World:
    """The tenant of the worker, with a tool whose server is away."""
    server = make_server(hall.context.tenant)
    Server.objects.filter(pk=server.pk).update(enabled=False)
    return World(hall.context, make_tool(server))


def ask(world: World, sentence: str = "Deploy {args.text}", text: str = "checkout") -> str:
    """An approval; its task's public id."""
    rule = Rule(name="r", when="", then=Then.ASK, sentence=sentence)
    return kit.create(world, arguments={"text": text}, verdict=Verdict(Then.ASK, rule, 1)).public_id


def told(world: World, name: str = "ada", service: str = "desk") -> Person:
    """A person whom the service reaches."""
    return reader(world, channel=Channel.APPRISE, address=targets.sealed(f"{service}:topic-of-{name}"))


def sent(number: int) -> None:
    wait_until(lambda: Notice.objects.filter(state="sent").count() == number, "all sent")


def who(person: Person) -> dict[str, object]:
    return {"tenant_id": person.tenant_id, "user_id": person.user_id, "channel": Channel.APPRISE}


def test_an_approval_arrives_once_with_its_sentence_and_its_link(hall: Hall, world: World, service: Service) -> None:
    told(world)
    hall.start()
    task = ask(world, text="check\nout@everyone")
    sent(1)
    (message,) = service.received
    assert message.path == "/token-of-the-hub/topic-of-ada"
    assert message.title.startswith("Decide: Deploy “check")
    assert message.title.endswith("out(at)everyone”")
    assert "\n" not in message.title
    assert message.link == f"https://hub.example/inbox/task/{task}/?key=approval"
    assert f"{world.tool.exposed_name} on {world.tool.server_name}, for {world.context.name}" in message.text


def test_what_comes_together_is_one_message(hall: Hall, world: World, service: Service) -> None:
    told(world)
    for number in range(5):
        ask(world, text=f"number {number}")
    queue()
    hall.start()
    sent(5)
    (message,) = service.received
    assert message.title == "5 approvals wait for you"
    listed = [f"- Deploy “number {number}”" for number in range(3)]
    assert message.text.split("\n") == ["https://hub.example/inbox/", *listed, "And 2 more"]


def test_an_address_is_confirmed_and_nobody_reads_it_after(
    hall: Hall, world: World, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    person = make_person("approver", world.context.tenant)
    begin_telling()
    hall.start()
    assert set_address(**who(person), address=" desk:topic-of-ada ", actor=ROOT) == "desk:to…"
    assert set_address(**who(person), address="desk:to…", actor=ROOT) == "", "what the page shows, sent back"
    sent(1)
    (message,) = service.received
    assert message.path == "/token-of-the-hub/topic-of-ada"
    link = LINK.search(message.text)
    assert link is not None
    assert person.username in message.text
    assert confirm(**who(person), token=link[1].rstrip("/"), actor=ROOT) == "desk:to…"
    assert set_address(**who(person), address="desk:topic-of-ada", actor=ROOT) == "", "the same once more"
    assert addresses_of(person.tenant_id, person.user_id)[Channel.APPRISE].address == "desk:to…"
    assert send_trial(**who(person), actor=ROOT) == "desk:to…"
    sent(2)
    assert service.received[1].title == "A test of TaskHub"
    service.status = 403
    ask(world)
    wait_until(lambda: Notice.objects.filter(attempts=1, lease_until=None, state="due").exists(), "a refusal")
    assert set(Notice.objects.filter(state="due").values_list("problem", flat=True)) == {"The service answered 403"}
    stored = [*NoticeAddress.objects.values(), *Event.objects.values(), *Notice.objects.values()]
    stored += outbox.message_log(person.tenant_id, person.user_id)
    assert not [token for token in TOKENS if token in f"{stored} {caplog.text}"]


def test_a_service_that_was_down_gets_everything_once(hall: Hall, world: World, settings: LazySettings) -> None:
    port = free_port()
    settings.TASKHUB_APPRISE_URLS = {"desk": f"json://127.0.0.1:{port}/{{to}}"}
    names = ["ada", "bob", "eve"]
    for name in names:
        told(world, name)
    hall.start()
    ask(world)
    wait_until(lambda: Notice.objects.filter(attempts=1, lease_until=None).count() == 3, "tries that failed")
    service = Service(port)
    try:
        turn(5)
        sent(3)
        assert sorted(message.path for message in service.received) == [f"/topic-of-{name}" for name in names]
    finally:
        service.close()


def test_a_redirect_is_not_followed(hall: Hall, world: World, service: Service) -> None:
    service.status = 307
    told(world)
    hall.start()
    ask(world)
    wait_until(lambda: Notice.objects.filter(attempts=1, lease_until=None).exists(), "a try that failed")
    assert Notice.objects.get().problem == "The service answered 307"
    assert len(service.received) == 1


def test_a_worker_that_stops_gives_its_message_up_and_it_comes_again(
    hall: Hall, world: World, service: Service
) -> None:
    """The service may have taken it, and nobody heard so: then it comes twice."""
    told(world)
    done = threading.Event()
    service.before_answer = lambda message: done.wait(30)
    hall.start()
    ask(world)
    try:
        wait_until(lambda: service.received, "a message under way")
        hall.stop()
    finally:
        done.set()
    assert Notice.objects.get().state == "due"
    turn(3_600)
    hall.start()
    sent(1)
    assert len(service.received) == 2
    assert len({message.link for message in service.received}) == 1


def test_a_service_that_hangs_holds_up_no_other_and_has_few_threads(
    hall: Hall, world: World, service: Service, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "SECONDS", 0.2)
    hangs, done = Service(), threading.Event()
    hangs.before_answer = lambda message: done.wait(30)
    settings.TASKHUB_APPRISE_URLS = {"desk": service.url, "slow": hangs.url}
    for number in range(10):
        told(world, str(number), "slow")
    told(world, "ada")
    hall.start()
    try:
        ask(world)
        sent(1)
        assert [message.path for message in service.received] == ["/token-of-the-hub/topic-of-ada"]
        late = Notice.objects.filter(state="due", attempts__gte=1, lease_until=None)
        wait_until(lambda: late.count() == 10, "the others tried in vain")
        turn(5)
        wait_until(lambda: late.filter(attempts__gte=2).count() == 10, "once more")
        assert len(hangs.received) <= sending.AT_ONE_SERVICE
        assert {word[:10] for word in late.values_list("problem", flat=True)} <= {"No answer ", "Not tried:"}
    finally:
        done.set()
        hangs.close()


def test_an_address_that_is_none_is_refused_and_stores_nothing(
    world: World, service: Service, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = make_person("approver", world.context.tenant)
    settings.TASKHUB_APPRISE_URLS = {
        "desk": service.url,
        "anywhere": "json://{to}/hook",
        "chat": "discord://{to}",
        "gone": "nosuch://host/{to}",
    }
    for bad, why in (
        ("json://127.0.0.1/x", "Begin with the name of a service"),
        ("other:abc", "Begin with the name of a service and a colon: desk:…"),
        ("desk:", "Give your own part"),
        ("desk:a b", "Give your own part"),
        ("desk:../admin", "Give your own part"),
        ("desk:a/..", "Give your own part"),
        ("desk:a?x=1", "Give your own part"),
        ("desk:a%2fb", "Give your own part"),
        ("desk:a&b", "Give your own part"),
        (f"desk:{'a' * 96}", "at most 95"),
        ("desk:a/b", "This is no address of desk"),
        ("anywhere:127.0.0.1", "This is no address of anywhere"),
        ("gone:abc", "This is no address of gone"),
        ("chat:123456", "This is no address of chat"),
    ):
        with pytest.raises(Invalid) as refused:
            set_address(**who(person), address=bad, actor=ROOT)
        assert why in refused.value.message, bad
    assert not NoticeAddress.objects.exists()
    begin_telling()
    assert set_address(**who(person), address=f"chat:123456/{'a' * 88}", actor=ROOT) == "chat:12…"
    assert targets.url_of(NoticeAddress.objects.get().pending) == f"discord://123456/{'a' * 88}"
    found = next(check for check in doctor.checks(has_secret=True) if check[0] == "apprise")
    assert found[1] is False
    assert "gone: Apprise knows no nosuch:// here" in found[2]
    assert "anywhere: {to} is where the host is" in found[2]
    monkeypatch.setattr(channels, "has_apprise", lambda: False)
    with pytest.raises(Refused, match="the extra `apprise`"):
        set_address(**who(person), address="desk:abc", actor=ROOT)


def test_a_service_that_is_named_no_more_ends_what_waits_for_it(
    hall: Hall, world: World, service: Service, settings: LazySettings
) -> None:
    told(world, service="desk")
    settings.TASKHUB_APPRISE_URLS = {"other": service.url}
    hall.start()
    ask(world)
    wait_until(lambda: Notice.objects.filter(state="failed").exists(), "the end")
    assert "The hub has no address of desk for you" in Notice.objects.get().problem
    assert Event.objects.filter(door=Door.WORKER, target__contains="topic").count() == 0
    assert service.received == []
