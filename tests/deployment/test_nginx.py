"""nginx as docs/run/production.md shows it, in front of two web processes: TLS, a console's socket, streams, 5 MB, and
a rolling restart that loses no call."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator

import httpx2
import pytest
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.nginx import Nginx
from tests.support.person import Person
from tests.support.session import SessionClient
from tests.support.web import Web, webs

pytestmark = pytest.mark.processes

LIMIT = 6_000_000
"""TASKHUB_MAX_BODY here: more than 5 MB, less than nginx lets through."""
THREADS = 4


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Nginx:
    """`behind` starts it."""
    return Nginx(tmp_path_factory.mktemp("nginx"))


@pytest.fixture(scope="module")
def behind(hub: RunningHub, nginx: Nginx) -> Iterator[list[Web]]:
    """Two web processes with the settings that the page names, behind nginx."""
    named = {"PUBLIC_URL": nginx.base, "ALLOWED_HOSTS": "localhost,127.0.0.1", "TRUSTED_PROXIES": "1"}
    with webs(hub, 2, **named, TASKHUB_MAX_BODY=str(LIMIT)) as running:
        nginx.start(*(web.port for web in running))
        try:
            yield running
        finally:
            nginx.end()


@pytest.fixture
def client(hub: RunningHub, nginx: Nginx, behind: list[Web]) -> Iterator[Client]:
    """A caller at nginx's address."""
    with Client(nginx.base, hub.tokens["agent-a"], tls=nginx.tls) as made:
        yield made


def test_plain_http_leads_to_https(nginx: Nginx, behind: list[Web]) -> None:
    answer = httpx2.get(f"{nginx.plain}/tasks/?state=queued", trust_env=False)
    assert (answer.status_code, answer.headers["location"]) == (301, f"{nginx.base}/tasks/?state=queued")


def test_a_console_hears_what_happens(hub: RunningHub, nginx: Nginx, client: Client) -> None:
    with Person(hub, "admin", nginx.base, nginx.tls) as person:
        address = f"{nginx.base.replace('https', 'wss')}/ws/hints"
        cookie = {"Cookie": f"sessionid={person.session}"}
        with connect(
            address, origin=Origin(nginx.base), additional_headers=cookie, ssl=nginx.tls, proxy=None
        ) as socket:
            assert json.loads(socket.recv(10)) == {"resync": True}
            client.tool("greet", {"name": "x"})
            assert "hints" in json.loads(socket.recv(10))


def test_the_address_on_record_is_the_callers_own(hub: RunningHub, nginx: Nginx, behind: list[Web]) -> None:
    # From another address of this machine than nginx's own, and with one that is made up.
    way = httpx2.HTTPTransport(verify=nginx.tls, local_address="127.0.0.2")
    invented = {"X-Forwarded-For": "203.0.113.7"}
    with httpx2.Client(base_url=nginx.base, transport=way, headers=invented) as stranger:
        page = stranger.get("/accounts/login/").text
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token
        fields = {"csrfmiddlewaretoken": token[1], "login": "somebody", "password": "wrong"}
        assert stranger.post("/accounts/login/", data=fields, headers={"Origin": nginx.base}).status_code == 200
    query = "SELECT address FROM event WHERE action = 'person.refused' ORDER BY id DESC LIMIT 1"
    assert hub.sql(query) == [("127.0.0.2",)]


def test_a_stream_comes_as_it_is_written(client: Client) -> None:
    task = client.create("slow_compute", {"seconds": 60}, caps=TASKS)
    wanted = {"notifications": {"taskIds": [task]}}
    with client.stream("subscriptions/listen", wanted, caps=TASKS) as frames:
        frames.next()
        assert frames.next()["params"]["status"] == "working"
        client.cancel(task)
        while frames.next()["params"]["status"] != "cancelled":
            pass


def test_a_session_is_asked_over_its_stream(hub: RunningHub, nginx: Nginx, behind: list[Web]) -> None:
    caps = {"elicitation": {}}
    with SessionClient(nginx.base, hub.tokens["agent-a"], caps=caps, tls=nginx.tls) as session:
        task = session.create("confirm_delete", {"filename": "x"})
        with session.open("tasks/result", {"taskId": task}) as events:
            request = events.until("elicitation/create")
            session.respond(request, {"action": "accept", "content": {"confirm": True}})
            assert events.until("response")["result"]["content"][0]["text"] == "Deleted x"


def test_five_megabytes_come_and_go(client: Client) -> None:
    name = "x" * 5_000_000
    assert client.tool("greet", {"name": name}).text == f"Hello, {name}!"


def test_what_is_too_large_is_refused_by_the_hub(client: Client) -> None:
    message = client.message("tools/call", {"name": "greet", "arguments": {"name": "x" * LIMIT}})
    assert client.send(message, client.headers(message)).refusal == (413, -32600)


def test_a_rolling_restart_loses_no_call(hub: RunningHub, nginx: Nginx, behind: list[Web]) -> None:
    called: list[int] = []
    failed: list[str] = []
    stop = threading.Event()

    def call(number: int) -> None:
        with Client(nginx.base, hub.tokens["agent-a"], tls=nginx.tls) as client:
            while not stop.is_set():
                name = f"{number}-{len(called)}"
                try:
                    assert client.tool("greet", {"name": name}).text == f"Hello, {name}!"
                except (httpx2.HTTPError, AssertionError, ValueError) as error:
                    failed.append(repr(error))
                called.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        for web in behind:
            before = len(called)
            wait_until(lambda before=before: len(called) > before + 20, "calls", 60)
            web.end()
            before = len(called)
            wait_until(lambda before=before: len(called) > before + 20, "calls through the other", 60)
            web.start()
            wait_until(web.ready, "the process again", 60)
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert (failed, len(called) > 80) == ([], True)
