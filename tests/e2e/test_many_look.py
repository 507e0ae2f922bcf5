"""Where many look, a page looks less often, and not at the same moment as all others."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Request, Route, WebSocketRoute

from tests.e2e.visits import Visits
from tests.support.hub import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.processes]
BEAT_MS = 10_000


def test_a_page_waits_its_part_of_the_beat_and_no_hint_is_lost(visits: Visits) -> None:
    page = visits.of("viewer")
    page.add_init_script("Math.random = () => 0.5")
    page.clock.install()
    sockets: list[WebSocketRoute] = []
    page.route_web_socket(re.compile("/ws/hints"), lambda socket: sockets.append(socket))  # noqa: PLW0108 - it must be ours
    asked: list[str] = []

    def note(request: Request) -> None:
        if request.headers.get("hx-trigger") == "task-list":
            asked.append(request.url)

    page.on("request", note)
    page.goto("/tasks/")
    page.wait_for_function("document.body.dataset.live !== undefined")
    (socket,) = sockets
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)  # a busy machine does not move it on

    def hint(**more: int) -> None:
        socket.send(json.dumps({"hints": ["tasks"], **more}))
        page.evaluate("0")  # it has arrived before what follows

    hint(beat=BEAT_MS)
    page.clock.run_for(BEAT_MS // 2 - 100)
    assert asked == []
    with page.expect_response(re.compile("/tasks/")):
        page.clock.run_for(200)
    hint(beat=BEAT_MS)
    hint(beat=BEAT_MS)
    page.clock.run_for(BEAT_MS - 200)  # the beat is over, and half of the next one is not
    assert len(asked) == 1
    with page.expect_response(re.compile("/tasks/")):
        page.clock.run_for(300)
    assert len(asked) == 2
    page.clock.run_for(BEAT_MS)
    with page.expect_response(re.compile("/tasks/")):
        hint()  # few look again: at once
        page.clock.run_for(10)
    assert len(asked) == 3


def test_what_changes_while_a_page_is_fetched_or_waits_its_pace_is_fetched_afterwards(visits: Visits) -> None:
    page = visits.of("viewer")
    page.add_init_script(
        "addEventListener('htmx:afterRequest', () => {"
        " const told = document.documentElement.dataset; told.ended = Number(told.ended ?? 0) + 1; })"
    )
    page.clock.install()
    sockets: list[WebSocketRoute] = []
    page.route_web_socket(re.compile("/ws/hints"), lambda socket: sockets.append(socket))  # noqa: PLW0108 - it must be ours
    held: list[Route] = []
    page.goto("/")
    page.wait_for_function("document.body.dataset.live !== undefined")
    page.route(lambda url: url.endswith("/"), lambda route: held.append(route))  # noqa: PLW0108 - as above
    (socket,) = sockets
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)

    def hint() -> None:
        socket.send(json.dumps({"hints": ["tasks"]}))
        page.evaluate("0")  # it has arrived before what follows

    def ended() -> int:
        return int(page.evaluate("() => document.documentElement.dataset.ended ?? 0"))

    def asks() -> None:
        """It has asked once since its last answer."""
        wait_until(lambda: page.evaluate("0") == 0 and held, "a request")  # which arrives while the browser is asked
        assert len(held) == 1

    def fetched() -> None:
        """It asks once, and is answered."""
        asks()
        route = held.pop()
        before = ended()
        route.continue_()
        wait_until(lambda: ended() > before, "its end")

    hint()
    page.clock.run_for(10)
    asks()
    hint()  # while it is fetched
    page.clock.run_for(1_000)
    fetched()
    page.clock.run_for(4_000)
    fetched()
    page.clock.run_for(4_000)
    hint()
    page.clock.run_for(10)
    fetched()
    hint()  # while it waits its pace
    page.clock.run_for(1_000)
    assert held == []
    page.clock.run_for(3_000)
    fetched()
    page.clock.run_for(10_000)
    assert held == []
