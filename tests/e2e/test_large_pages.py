"""With the largest arguments that limits allow no page is over 300 kB or, on a phone too, 6,000 px, and each says in
numbers what it does not show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.test_journeys import PRODUCTION, waiting
from tests.e2e.visits import Visits
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

MOST_BYTES: Final = 300_000
MOST_PIXELS: Final = 6_000
WIDTHS: Final = (1440, 390)
SIZE: Final = 4_000_000
"""Bytes of arguments: with their envelope nearly the 4 MiB of `TASKHUB_MAX_BODY`."""
VALUES: Final = 90_000
"""Of the 100,000 that a request may have."""


def repeated(text: str) -> str:
    return text * (SIZE // len(json.dumps(text)))


LARGE: Final[dict[str, dict[str, Any]]] = {
    "one line": {"note": repeated("all in one line ")},
    "one word": {"note": "x" * SIZE},
    "many lines": {"note": repeated("a line of it\n")},
    "many names": {f"argument {number}": "value" for number in range(VALUES)},
    "nested": {"note": [{"path": f"/srv/{number}"} for number in range(VALUES // 3)]},
    "unseen": {"note": repeated("a\u200b\u202e\u2066b\u00ad")},
    "from right to left": {"note": repeated("שלום עולם ")},
}
ALIKE: Final = 40
"""Approvals that are decided together, each with as long arguments as such may have (4,000 characters as JSON)."""


def height(page: Page) -> int:
    """Of the page, as whoever scrolls it meets it."""
    found: int = page.evaluate("document.documentElement.scrollHeight")
    return found


@pytest.fixture(scope="module")
def made(hub: RunningHub) -> Iterator[tuple[dict[str, str], list[str]]]:
    """The tasks that wait for approval, by what is large of them, and those that are alike."""
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        tasks = {name: client.create("deploy", {**PRODUCTION, **more}, caps=TASKS) for name, more in LARGE.items()}
        alike = [
            client.create("deploy", {**PRODUCTION, "note": f"{n}{'y' * 3_800}", "where": f"eu-{n}"}, caps=TASKS)
            for n in range(ALIKE)
        ]
        yield tasks, alike
        for task in (*tasks.values(), *alike):
            client.cancel(task)


@pytest.fixture(scope="module")
def page(hub: RunningHub, browser: Browser) -> Iterator[Page]:
    visits = Visits(hub, browser)
    yield visits.of("admin")
    visits.end()


def pages(hub: RunningHub, task: str) -> dict[str, str]:
    """The pages that show something of the task's arguments."""
    question = waiting(hub, task)
    events = "SELECT min(event.id) FROM event JOIN task ON task.id = task_id WHERE public_id = %s"
    tools = "SELECT t.context_id, t.tool_id FROM task AS t WHERE public_id = %s"
    ((client, tool),) = hub.sql(tools, [task])
    return {
        "card": f"/inbox/{question}/",
        "edit": f"/inbox/{question}/edit",
        "list": "/inbox/?queue=all",
        "task": f"/tasks/{task}/",
        "timeline": f"/tasks/{task}/?view=timeline",
        "questions": f"/tasks/{task}/?view=questions",
        "wire": f"/tasks/{task}/?view=wire",
        "tasks": "/tasks/",
        "cancel": f"/tasks/{task}/cancel",
        "rule call": f"/rules/call?client={client}&tool={tool}",
        "audit entry": f"/audit/?event={hub.sql(events, [task])[0][0]}",
        "audit": f"/audit/?task={task}",
    }


@pytest.mark.parametrize("name", LARGE)
def test_no_page_of_a_call_is_too_large(
    hub: RunningHub, page: Page, made: tuple[dict[str, str], list[str]], name: str
) -> None:
    task = made[0][name]
    over, told = [], {}
    for where, path in pages(hub, task).items():
        answer = page.goto(path)
        assert answer is not None
        size, high = len(answer.body()), 0
        assert answer.status == 200, path
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            high = max(high, height(page))
        told[where] = (size, high)
        if size > MOST_BYTES or high > MOST_PIXELS:
            over.append(f"{where}: {size:,} bytes, {high:,} px")
    print(
        f"{name}: most bytes {max(size for size, _ in told.values()):,}, most px {max(px for _, px in told.values()):,}"
    )
    assert over == []
    page.goto(f"/inbox/{waiting(hub, task)}/")
    card = page.get_by_label("The call")
    assert re.search(r"… [\d,]+ more (lines|characters|arguments?).* not shown", card.inner_text())
    with page.expect_download() as kept:
        card.get_by_role("link", name="Download the whole arguments").click()
    assert json.loads(kept.value.path().read_text()) == {**PRODUCTION, **LARGE[name]}


def test_no_page_of_alike_calls_or_of_a_rerun_is_too_large(
    hub: RunningHub, page: Page, made: tuple[dict[str, str], list[str]]
) -> None:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        longest = {**PRODUCTION, "environment": "staging", "note": "z" * 60_000}
        ended = client.create("deploy", longest, caps=TASKS)
        client.cancel(ended)
    places = {
        "alike": f"/inbox/{waiting(hub, made[1][0])}/alike?all=1",
        "rerun": f"/tasks/{ended}/rerun",
        "rerun with": f"/tasks/{ended}/rerun/arguments",
        "task": f"/tasks/{ended}/",
    }
    over = []
    for where, path in places.items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            size, high = len(answer.body()), height(page)
            print(f"{where} at {width}: {size:,} bytes, {high:,} px")
            if size > MOST_BYTES or high > MOST_PIXELS:
                over.append(f"{where} at {width}: {size:,} bytes, {high:,} px")
    assert over == []
