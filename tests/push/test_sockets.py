"""The console's socket through the whole application: who gets one, and what it carries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from channels.layers import get_channel_layer
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from taskhub.api.guard import Guard
from taskhub.core.records import Person
from taskhub.push.consumers import HintConsumer
from taskhub.push.listener import Feeder
from taskhub.store.models import AuthContext, Membership, SignIn
from tests.factories import make_context, make_person, make_server, make_task, make_tenant, make_tool, make_user
from tests.push.kit import BOUND, HOST, Console, Socket, background, cookie_of
from tests.store import raw as sql

if TYPE_CHECKING:
    from taskhub.config.asgi import Application

pytestmark = pytest.mark.usefixtures("transactional_db")
REFUSED, STRANGER = 4403, 4401


@pytest.fixture(scope="module")
def application() -> Iterator[Application]:
    """As uvicorn has it, without its background tasks."""
    from taskhub.config import asgi  # reads the directory of static files, which a fixture makes

    made = asgi.Application()
    yield made
    made.close()


@pytest.fixture
def mia(transactional_db: None) -> Person:
    return make_person("viewer", username="mia")


@pytest.fixture
def cookie(mia: Person) -> str:
    return cookie_of(mia)


@asynccontextmanager
async def connected(application: Any, cookie: str, **more: Any) -> AsyncIterator[Socket]:
    """A socket that was accepted and told to look at everything once."""
    socket = Socket(application, cookie, **more)
    assert await socket.open() == 0
    assert await socket.next() == {"resync": True}
    yield socket
    await socket.close()


def groups() -> set[str]:
    layer: Any = get_channel_layer()
    return set(layer.groups)


# --- who gets one


async def test_a_person_is_let_in_and_told_to_look_once(application: Application, cookie: str) -> None:
    async with connected(application, cookie) as socket:
        assert not socket.waiting()


def without_membership(user: User) -> None:
    Membership.objects.filter(user=user).delete()


def deactivated(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def signed_out(user: User) -> None:
    SignIn.objects.all().delete()


def session_over(user: User) -> None:
    SignIn.objects.all().update(expire_date=timezone.now())


def new_password(user: User) -> None:
    user.set_password("another horse altogether")
    user.save()


@pytest.mark.parametrize("how", [without_membership, deactivated, signed_out, session_over, new_password])
def test_a_session_that_no_longer_speaks_for_a_person_opens_nothing(
    application: Application, mia: Person, cookie: str, how: Any
) -> None:
    async def attempt() -> int:
        return await Socket(application, cookie).open()

    how(User.objects.get(pk=mia.user_id))
    before = groups()
    assert asyncio.run(attempt()) == STRANGER
    assert groups() == before


async def test_no_session_or_an_invented_one_opens_nothing(application: Application) -> None:
    for cookie in ("", "nonesuch", "x" * 32, "../../etc/passwd"):
        assert await Socket(application, cookie).open() == STRANGER, cookie


def test_a_user_without_any_role_is_a_stranger(application: Application) -> None:
    cookie = cookie_of(make_user())

    async def attempt() -> int:
        return await Socket(application, cookie).open()

    assert asyncio.run(attempt()) == STRANGER


ELSEWHERE = [
    "http://localhost:8000",
    "http://localhost.evil.example",
    "http://evil.example/localhost",
    "http://evil.example#localhost",
    "http://localhost@evil.example",
    "http://127.0.0.1",
    "ftp://localhost",
    "localhost",
    "http://localhost:99999999",
    "http://[",
    "",
]


async def test_a_page_from_elsewhere_gets_no_socket_with_the_persons_own_cookie(
    application: Application, cookie: str
) -> None:
    for origin in ELSEWHERE:
        assert await Socket(application, cookie, origin=origin).open() == REFUSED, origin


async def test_a_page_of_ours_does(application: Application, cookie: str) -> None:
    for origin in ("http://localhost", "HTTP://LOCALHOST"):
        async with connected(application, cookie, origin=origin):
            pass


async def test_what_no_browser_would_send_gets_no_socket(application: Application, cookie: str) -> None:
    for origin in (None, "https://localhost"):  # a page at http:// names http://
        assert await Socket(application, cookie, origin=origin).open() == REFUSED, origin


async def test_behind_a_proxy_the_scheme_is_the_one_that_the_browser_came_by(
    application: Application, cookie: str
) -> None:
    guard = Guard(application.lean, hosts=[HOST], origins=[], max_body=1_024, proxies=1)
    for said, other in (("https", "http"), ("http", "https")):
        told = {"x-forwarded-proto": said}
        assert await Socket(guard, cookie, origin=f"{other}://{HOST}", more=told).open() == REFUSED
        async with connected(guard, cookie, origin=f"{said}://{HOST}", more=told):
            pass


async def test_the_public_address_is_an_origin_of_ours_behind_a_proxy(application: Application, cookie: str) -> None:
    guard = Guard(application.lean, hosts=[HOST], origins=["https://hub.example.com"], max_body=1_024)
    assert await Socket(guard, cookie, origin="https://hub.example.com.evil.example").open() == REFUSED
    assert await Socket(guard, cookie, origin="http://hub.example.com").open() == REFUSED
    socket = Socket(guard, cookie, origin="https://hub.example.com")
    assert await socket.open() == 0
    await socket.next()
    await socket.close()


async def test_a_host_that_is_not_ours_is_refused_with_a_fitting_origin_too(
    application: Application, cookie: str
) -> None:
    socket = Socket(application, cookie, host="rebound.example", origin="http://rebound.example")
    assert await socket.open() == REFUSED


# --- what it carries


async def test_news_reach_the_browser_and_a_gap_is_told_as_such(application: Application, cookie: str) -> None:
    feeder = Feeder(application.hub)
    async with connected(application, cookie) as socket, background(feeder._tell_consoles()):
        feeder.on_hint("c")
        assert await socket.next() == {"hints": ["servers"]}
        feeder.on_hint("k")
        feeder.on_gap()  # whoever looks at everything again needs no single hint
        assert await socket.next() == {"resync": True}
        assert not socket.waiting()


@pytest.fixture
def two_homes(transactional_db: None) -> list[tuple[AuthContext, Any, str]]:
    """A client, a tool and the cookie of a person, in two tenants."""
    found = []
    for _ in range(2):
        tenant = make_tenant()
        tool = make_tool(make_server(tenant))
        found.append((make_context(tenant), tool, cookie_of(make_person("admin", tenant))))
    return found


async def test_a_console_hears_of_its_tenants_tasks_and_never_of_anothers(
    application: Application, two_homes: list[tuple[AuthContext, Any, str]]
) -> None:
    def live(home: tuple[AuthContext, Any, str]) -> str:
        try:
            return make_task(home[0], home[1], state="finished").public_id
        finally:
            connection.close()

    mine, theirs = two_homes
    heard: dict[str, set[str]] = {"mine": set(), "theirs": set()}

    async def collect(socket: Socket, name: str, task_id: str) -> None:
        async with asyncio.timeout(BOUND):
            while f"task:{task_id}" not in heard[name]:
                heard[name] |= set((await socket.next()).get("hints", ()))

    # The real thing from the lifecycle's commit to the browser.
    async with background(Feeder(application.hub).run()), Console("consoles") as ready:
        assert await ready.next() == ["resync"]
        async with connected(application, mine[2]) as one, connected(application, theirs[2]) as two:
            ids = [await asyncio.to_thread(live, home) for home in (mine, theirs, mine, theirs)]
            await collect(one, "mine", ids[2])
            await collect(two, "theirs", ids[3])
    assert heard["mine"] == {"tasks", f"task:{ids[0]}", f"task:{ids[2]}"}
    assert heard["theirs"] == {"tasks", f"task:{ids[1]}", f"task:{ids[3]}"}


async def test_what_a_browser_says_is_answered_by_nothing(application: Application, cookie: str) -> None:
    feeder = Feeder(application.hub)
    async with connected(application, cookie) as socket, background(feeder._tell_consoles()):
        before = groups()
        for text in ('{"subscribe": "tenant.1"}', "[]", '"x"', '{"type": "hints", "topics": ["x"]}'):
            await socket.say(text)
        feeder.on_hint("k")
        assert await socket.next() == {"hints": ["workers"]}
        assert groups() == before


async def test_a_browser_that_left_is_forgotten(application: Application, mia: Person, cookie: str) -> None:
    layer: Any = get_channel_layer()
    mine = f"tenant.{mia.tenant_id}"
    async with connected(application, cookie), connected(application, cookie):
        assert len(layer.groups[mine]) == 2
    assert mine not in layer.groups
    assert not layer.groups.get("consoles")


@pytest.mark.parametrize(("listening", "news"), [(25, {}), (26, {"beat": 520}), (800, {"beat": 15_000})])
async def test_the_more_look_the_less_often_each_is_to(
    application: Application, cookie: str, monkeypatch: pytest.MonkeyPatch, listening: int, news: dict[str, int]
) -> None:
    monkeypatch.setattr(HintConsumer, "listening", listening - 1)
    socket = Socket(application, cookie)
    assert await socket.open() == 0
    assert await socket.next() == {"resync": True, **news}
    await socket.close()
    assert HintConsumer.listening == listening - 1


# --- how long


ENDING = [without_membership, deactivated, signed_out, new_password]


@pytest.mark.parametrize("how", ENDING)
async def test_an_open_socket_ends_with_the_session_it_came_with(
    application: Application, mia: Person, cookie: str, how: Any
) -> None:
    def change() -> None:
        try:
            how(User.objects.get(pk=mia.user_id))
        finally:
            connection.close()

    async with background(Feeder(application.hub).run()), Console("consoles") as ready:
        assert await ready.next() == ["resync"]
        async with connected(application, cookie) as socket:
            await asyncio.to_thread(change)
            async with asyncio.timeout(BOUND):
                assert await socket.closed() == STRANGER


async def test_another_session_of_the_same_person_goes_on(application: Application, mia: Person, cookie: str) -> None:
    def sign_out() -> None:
        try:
            SignIn.objects.latest("expire_date").delete()
        finally:
            connection.close()

    second = await asyncio.to_thread(cookie_of, mia)
    feeder = Feeder(application.hub)
    async with background(feeder.run()), Console("consoles") as ready:
        assert await ready.next() == ["resync"]
        async with connected(application, cookie) as stays, connected(application, second) as goes:
            await asyncio.to_thread(sign_out)
            async with asyncio.timeout(BOUND):
                assert await goes.closed() == STRANGER
            feeder.on_hint("k")
            assert await stays.next() == {"hints": ["workers"]}


async def test_after_a_gap_an_open_socket_whose_session_ended_is_closed(
    application: Application, mia: Person, cookie: str
) -> None:
    feeder = Feeder(application.hub)
    async with connected(application, cookie) as socket, background(feeder._tell_consoles()):
        with sql.connect(autocommit=True) as raw:
            raw.execute("DELETE FROM sign_in")
        feeder.on_gap()
        async with asyncio.timeout(BOUND):
            assert await socket.closed() == STRANGER
