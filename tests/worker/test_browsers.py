"""A worker notifies browsers: each message arrives once in each browser, encrypted for it and signed by the hub; also
where the push service was down. What a browser gives as its address is no way into a private network."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User

from taskhub.core.errors import Invalid, LimitReached, NotFound, Refused
from taskhub.core.records import Actor, Person
from taskhub.core.rules import Risk, Rule, Then, Verdict
from taskhub.core.states import Door
from taskhub.domain.notices import browsers, channels
from taskhub.domain.notices import people as outbox
from taskhub.domain.notices.browsers import add_browser, browsers_of, remove_browser, vapid_public
from taskhub.domain.notices.people import begin_telling
from taskhub.notify.push.sending import Push, Sender
from taskhub.store.models import Event, Notice, NoticeAddress, PushBrowser, Server, SignIn
from taskhub.worker import engine
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.notices.kit import turn
from tests.factories import make_person, make_server, make_tool
from tests.support.push_service import PushService, Subscribed
from tests.worker.kit import Hall, wait_until

SESSION = "a" * 64


@pytest.fixture
def service(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[PushService]:
    monkeypatch.setattr(engine, "NOTICES_SECONDS", 0.05)
    monkeypatch.setattr(outbox, "GATHER_SECONDS", 0.0)
    settings.PUBLIC_URL = "https://hub.example"
    made = PushService(vapid_public())
    settings.TASKHUB_PUSH_HOSTS = [made.host]
    yield made
    made.close()
    assert made.problems == []


@pytest.fixture
def world(hall: Hall) -> World:
    """The tenant of the worker, with a tool whose server is away."""
    server = make_server(hall.context.tenant)
    Server.objects.filter(pk=server.pk).update(enabled=False)
    return World(hall.context, make_tool(server))


def actor(person: Person) -> Actor:
    return Actor(name=person.username, door=Door.WEB, user_id=person.user_id)


def add(service: PushService, person: Person, *, session: str = SESSION, endpoint: str = "") -> Subscribed:
    """A browser of the person."""
    begin_telling()
    found = service.subscribe()
    add_browser(
        tenant_id=person.tenant_id,
        user_id=person.user_id,
        session=session,
        endpoint=endpoint or service.endpoint(found),
        p256dh=found.p256dh,
        auth=found.auth,
        label="Firefox on Linux",
        actor=actor(person),
    )
    return found


def ask(world: World, sentence: str = "Deploy it", **says: object) -> str:
    """An approval; its task's public id."""
    rule = Rule(name="r", when="", then=Then.ASK, sentence=sentence, **says)  # type: ignore[arg-type]  # as tests say
    return kit.create(world, verdict=Verdict(Then.ASK, rule, 1)).public_id


def states() -> set[str]:
    return set(Notice.objects.values_list("state", flat=True))


def test_each_browser_gets_the_sentence_and_the_way_to_the_card(hall: Hall, world: World, service: PushService) -> None:
    person = make_person("approver", world.context.tenant)
    found = [add(service, person), add(service, person)]
    hall.start()
    task = ask(world, "Deploy \u202eit", risk=Risk.CRITICAL)
    wait_until(lambda: states() == {"sent"}, "sent")
    notice = Notice.objects.get()
    told = {
        "title": "Deploy [U+202E]it",
        "body": f"Critical · {Server.objects.order_by('-id')[0].name} · {world.context.name}",
        "path": f"/inbox/task/{task}/?key=approval",
        "tag": notice.message,
    }
    assert [browser.came for browser in found] == [[told], [told]]
    assert "hello" not in str(found[0].came), "the argument"
    assert found[0].headers[0]["urgency"] == "high"
    assert all(row.used_at for row in browsers_of(person.tenant_id, person.user_id))
    turn(60)
    kit.create(world, verdict=Verdict(Then.ASK, Rule(name="r", when="", then=Then.ASK), 1))
    NoticeAddress.objects.update(sent_at=None)
    wait_until(lambda: Notice.objects.filter(state="sent").count() == 2, "the next")
    assert found[0].came[1]["title"] == f"A call of {world.tool.name}"


def test_a_service_that_was_down_gets_everything_once(
    hall: Hall, world: World, service: PushService, settings: LazySettings
) -> None:
    first, second = (make_person("approver", world.context.tenant) for _ in range(2))
    found = [add(service, first), add(service, first), add(service, second)]
    found[1].status = 503
    hall.start()
    ask(world)
    wait_until(lambda: Notice.objects.filter(state="sent").count() == 1, "one sent")
    wait_until(lambda: Notice.objects.filter(attempts=1, state="due", lease_until=None).count() == 1, "one refused")
    assert Notice.objects.get(state="due").problem == "The push service answered 503"
    hall.stop()
    service.close()
    hall.start()
    turn(60)
    wait_until(lambda: Notice.objects.filter(attempts=2, state="due", lease_until=None).exists(), "down")
    again = PushService(service.wants, service.port)
    again.browsers = service.browsers
    try:
        found[1].status = 201
        turn(3_600)
        wait_until(lambda: states() == {"sent"}, "all sent")
    finally:
        again.close()
    assert [len(browser.came) for browser in found] == [1, 1, 1]
    assert again.problems == []


def test_what_the_service_knows_no_more_is_ended(hall: Hall, world: World, service: PushService) -> None:
    person = make_person("approver", world.context.tenant)
    stays, left = add(service, person), add(service, person)
    left.status = 410
    hall.start()
    ask(world)
    wait_until(lambda: states() == {"sent"}, "sent")
    assert [len(one.came) for one in (stays, left)] == [1, 0]
    assert PushBrowser.objects.count() == 1
    (event,) = Event.objects.filter(action="browser.gone")
    assert (event.actor, event.before) == ("the push service", {"label": "Firefox on Linux", "host": service.host})
    stays.status = 404
    NoticeAddress.objects.update(sent_at=None)
    ask(world)
    wait_until(lambda: not PushBrowser.objects.exists() and "due" not in states(), "the last is ended")
    assert NoticeAddress.objects.get().address == ""


def test_nobody_is_notified_who_is_signed_out_or_disabled(hall: Hall, world: World, service: PushService) -> None:
    people = [make_person("approver", world.context.tenant) for _ in range(4)]
    keys = [f"{n}" * 64 for n in range(4)]
    for person, key in zip(people, keys, strict=True):
        SignIn.objects.create(
            session_key=key, session_data="", expire_date="2199-01-01T00:00:00Z", user_id=person.user_id
        )
    found = [add(service, person, session=key) for person, key in zip(people, keys, strict=True)]
    SignIn.objects.get(session_key=keys[0]).delete()  # signed out
    User.objects.filter(pk=people[1].user_id).update(is_active=False)
    SignIn.objects.filter(session_key=keys[2]).update(expire_date="2001-01-01T00:00:00Z")
    SignIn.objects.filter(session_key=keys[2]).delete()  # it only grew old
    assert set(PushBrowser.objects.values_list("session", flat=True)) == {keys[2], keys[3]}
    hall.start()
    ask(world)
    wait_until(lambda: Notice.objects.filter(state="sent").count() == 2, "sent to two")
    assert [len(browser.came) for browser in found] == [0, 0, 1, 1]


def test_a_browser_is_one_persons(world: World, service: PushService) -> None:
    ann, ben = (make_person("approver", world.context.tenant) for _ in range(2))
    shared = add(service, ann)
    add(service, ben, endpoint=service.endpoint(shared))
    assert [len(browsers_of(one.tenant_id, one.user_id)) for one in (ann, ben)] == [0, 1]
    assert NoticeAddress.objects.get(choices__membership__user_id=ann.user_id).address == ""
    (browser,) = browsers_of(ben.tenant_id, ben.user_id)
    with pytest.raises(NotFound):
        remove_browser(tenant_id=ann.tenant_id, user_id=ann.user_id, browser_id=browser.id, actor=actor(ann))
    remove_browser(tenant_id=ben.tenant_id, user_id=ben.user_id, browser_id=browser.id, actor=actor(ben))
    assert not PushBrowser.objects.exists()
    stored = {"label": "Firefox on Linux", "host": service.host}
    assert list(Event.objects.filter(action="browser.added").values_list("after", flat=True)) == [stored, stored]
    for _ in range(browsers.MOST):
        add(service, ben)
    with pytest.raises(LimitReached):
        add(service, ben)


def test_what_no_browser_gives_is_refused(
    world: World, service: PushService, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = make_person("approver", world.context.tenant)
    for endpoint in (
        "",
        "push",
        "ftp://push.example/x",
        "http://push.example/x",
        "https://user@push.example/x",
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://10.0.0.7/x",
        "https://[::1]/x",
        "https://[fd00::1]/x",
        "https://169.254.169.254/latest",
        f"http://127.0.0.1:{service.port + 1}/x",
        "https://push.example/" + "x" * browsers.MAX_ENDPOINT,
    ):
        with pytest.raises(Invalid) as refused:
            add(service, person, endpoint=endpoint or " ")
        assert refused.value.data["field"] == "endpoint", endpoint
    given = {"tenant_id": person.tenant_id, "user_id": person.user_id, "session": SESSION, "label": "x"}
    good = service.subscribe()
    keys = {"p256dh": good.p256dh, "auth": good.auth}
    wrong = (("p256dh", ""), ("p256dh", good.p256dh[:-4]), ("p256dh", "B" * 87), ("auth", "AAAA"), ("auth", "é"))
    for field, value in wrong:
        with pytest.raises(Invalid) as refused:
            add_browser(**given, endpoint="https://push.example/x", actor=actor(person), **{**keys, field: value})
        assert refused.value.data["field"] == field, value
    assert not PushBrowser.objects.exists()
    monkeypatch.setattr(channels, "has_push", lambda: False)
    with pytest.raises(Refused, match="the extra `push`"):
        add(service, person)
    monkeypatch.undo()
    settings.PUBLIC_URL = ""
    with pytest.raises(Refused, match="PUBLIC_URL"):
        add(service, person)


def test_a_name_that_leads_into_a_private_network_is_not_asked(service: PushService) -> None:
    """Whoever owns the name decides where it leads, and may do so after the browser was subscribed."""
    found = service.subscribe()

    async def sent(host: str) -> str:
        sender = Sender("tests", "mailto:hub@localhost", browsers.vapid_key(), browsers.may_be_asked)
        endpoint = f"http://{host}:{service.port}{found.path}"
        try:
            return (await sender.send(Push(b"{}", False, endpoint, found.p256dh, found.auth))).problem
        finally:
            await sender.close()

    assert re.fullmatch(
        r"Not asked: localhost leads to \S+, which is no public address", asyncio.run(sent("localhost"))
    )
    assert asyncio.run(sent("127.0.0.2")) == "Not asked: 127.0.0.2 is no public address"
    assert found.came == []
    assert asyncio.run(sent("127.0.0.1")) == ""  # named in the settings
    assert found.came == [{}]
