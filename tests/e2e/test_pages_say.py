"""What pages say, case by case:

1. A person's no, an expiry, a fault and an error of the tool are outcomes of their own, in words, colours, filters,
   numbers and charts; "failed" means one thing.
2. Every number links to exactly the set it counts.
3. Search finds what a row shows.
4. Absolute dates, yesterday, a range; local time with the exact one.
5. Big results folded and downloaded: no page over 300 kB or 6,000 px (test_large_pages.py); long words never widen a
   page (here, and of a url question in test_failed_requests.py).
6. What changes by time alone appears by itself.
7. A failed request is said where the person looks: offline, time-out, 403, 500; text typed before the session ended is
   there after the sign-in (all in test_failed_requests.py).
8. Focus lands in the form that was opened.
9. Servers can be edited and removed. ("What would the rules say" of a call: tests/console/test_rule_calls.py; of one
   that is run again, by a form of its schema: tests/console/test_rerun_page.py. No page tries a tool yet.)
10. Overview: needs a decision, failing now, waiting longest, abandoned, never fetched.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.test_journeys import PRODUCTION, waiting
from tests.e2e.visits import Visits, go
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(200)]

VERSION: Final = "9.9.1"
ENDS: Final = {"rejected": "Rejected", "expired": "Expired", "error": "Tool error", "faulted": "Failed"}


def over(hub: RunningHub, task: str) -> None:
    """The time to answer the task's question is over."""
    hub.sql(
        "UPDATE question SET due_at = clock_timestamp() FROM task WHERE task.id = task_id AND public_id = %s"
        " AND question.state = 'open'",
        [task],
    )


@pytest.fixture(scope="module")
def ends(hub: RunningHub, browser: Browser) -> Iterator[dict[str, str]]:
    """A task of each end, and one that is abandoned, by the tab of the task list."""
    visits = Visits(hub, browser)
    page = visits.of("approver")
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        made = {name: client.create("deploy", {**PRODUCTION, "version": f"{VERSION}.{name}"}, caps=TASKS)
                for name in ("rejected", "expired")}  # fmt: skip
        go(page, f"/inbox/{waiting(hub, made['rejected'])}/")
        page.get_by_label("Reason").fill("Frozen")
        page.get_by_role("button", name="Reject", exact=True).click()
        expect(page.locator("#notices")).to_contain_text("Rejected.")
        waiting(hub, made["expired"])
        over(hub, made["expired"])
        newest = "SELECT public_id FROM task JOIN tool ON tool.id = tool_id WHERE name = 'fail' ORDER BY task.id DESC"
        for name, kind in (("error", "tool_error"), ("faulted", "protocol_error")):
            client.tool("fail", {"kind": kind})
            made[name] = hub.sql(newest)[0][0]
        for task in made.values():
            client.until(task, "completed", "failed", seconds=30)
        yield made
    visits.end()


@pytest.fixture(scope="module")
def page(hub: RunningHub, browser: Browser) -> Iterator[Page]:
    visits = Visits(hub, browser)
    yield visits.of("admin", timezone_id="Asia/Tokyo", locale="en-GB")
    visits.end()


def counted(page: Page, address: str) -> str:
    """The number that the selected tab of a task list shows; of a list of all, how many rows it has."""
    text = page.request.get(address).text()
    tab = re.search(r'aria-current="page">(.*?)</a>', text[text.index('aria-label="By state"') :], re.DOTALL)
    assert tab is not None
    number = re.search(r'class="n">([\d,]+\+?)<', tab[1])
    return number[1] if number else str(text.count('<tr id="row-'))


def test_1_each_end_has_a_word_a_colour_a_filter_a_number_and_a_bar(
    page: Page, hub: RunningHub, ends: dict[str, str]
) -> None:
    colours = set()
    for tab, word in ENDS.items():
        go(page, f"/tasks/?state={tab}")
        expect(page.locator("nav[aria-label='By state'] [aria-current]")).to_contain_text(word)
        badge = page.locator(f"#row-{ends[tab]} .badge")
        expect(badge).to_have_text(word)
        colours.add(badge.evaluate("badge => getComputedStyle(badge).color"))
        for other in ENDS:
            expect(page.locator(f"#row-{ends[other]}")).to_have_count(int(other == tab))
        go(page, f"/tasks/{ends[tab]}/")
        expect(page.locator("#task .now .badge").first).to_have_text(word)
    assert len(colours) == len(ENDS)
    go(page, "/tasks/?state=errors")
    assert {name for name in ENDS if page.locator(f"#row-{ends[name]}").count()} == {"error", "faulted"}
    go(page, "/")
    page.get_by_text("As a table", exact=True).click()
    heads = page.locator(".chart-table thead th").all_inner_texts()
    assert set(ENDS.values()) <= {head.strip() for head in heads}
    for tab in ENDS:
        assert page.locator(f"svg.chart rect.{tab}").count() > 0


def test_2_every_number_links_to_exactly_the_set_it_counts(page: Page, hub: RunningHub, ends: dict[str, str]) -> None:
    text = page.request.get("/").text()
    tiles = re.findall(
        r'<a href="(/tasks/\?[^"]+)">\s*<span class="name">([^<]+)</span>\s*<span class="figure">([\d,]+)', text
    )
    cells = re.findall(r'<td class="end">\s*<a href="([^"]+)">([\d,]+)</a>', text)
    tools = re.findall(r'<a href="([^"]+)">\s*([\d,]+)\s+(?:went wrong|that ended)</a>', text)
    assert len(tiles) >= 7
    assert cells
    assert tools
    said = {html.unescape(address): number for address, number in [(a, n) for a, _, n in tiles] + cells + tools}
    wrong = [f"{address}: {number}" for address, number in said.items() if counted(page, address) != number]
    assert wrong == []


def test_3_search_finds_what_a_row_shows(page: Page, ends: dict[str, str]) -> None:
    task = ends["rejected"]
    row = page.locator(f"#row-{task}")
    go(page, f"/tasks/?q={task}")
    shown = row.locator(".args").inner_text()
    for text in (
        shown,
        f"version: {VERSION}.rejected",
        f"deploy agent-a {VERSION}.rejected",
        task[:8],
        "Frozen checkout",
    ):
        page.goto("/tasks/")
        page.get_by_label("Search").fill(text)
        page.wait_for_url(re.compile(r"[?&]q="))
        expect(row).to_be_visible()
    page.goto(f"/tasks/?q={VERSION}.rejected+nowhere")
    expect(page.get_by_text("No matching tasks.")).to_be_visible()


def test_4_dates_yesterday_a_range_and_local_time(page: Page, hub: RunningHub, ends: dict[str, str]) -> None:
    row = page.locator(f"#row-{ends['rejected']}")
    now = datetime.now(UTC)
    go(page, "/tasks/?age=yesterday")
    expect(page.locator("select[name=age]")).to_have_value("yesterday")
    expect(row).to_have_count(0)
    page.get_by_text("Dates", exact=True).click()
    page.locator("select[name=age]").select_option("")
    page.wait_for_url("/tasks/")
    for since, until, there in (
        (now - timedelta(hours=1), now + timedelta(hours=1), 1),
        (now - timedelta(days=9), now - timedelta(hours=1), 0),
    ):
        go(page, f"/tasks/?q={VERSION}&by=ended&since={since:%Y-%m-%dT%H:%M}&until={until:%Y-%m-%dT%H:%M}")
        expect(row).to_have_count(there)
        expect(page.get_by_label("Since")).to_have_value(f"{since:%Y-%m-%dT%H:%M}")
    go(page, "/tasks/?since=the+day+before")
    expect(page.get_by_text("Not understood, so ignored: since.")).to_be_visible()
    go(page, f"/tasks/?q={VERSION}")
    expect(row.locator("time")).to_have_attribute("title", re.compile(r"\(Asia/Tokyo\), \d{4}-\d\d-\d\d .* UTC$"))


def test_5_a_long_word_widens_no_list(page: Page, hub: RunningHub, ends: dict[str, str]) -> None:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = client.create("deploy", {**PRODUCTION, "version": "v" * 100, "note": "n" * 3_000}, caps=TASKS)
        question = waiting(hub, task)
        page.set_viewport_size({"width": 320, "height": 640})
        for path in ("/", "/tasks/", "/inbox/", f"/inbox/{question}/", f"/tasks/{task}/", f"/audit/?task={task}"):
            go(page, path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
        page.set_viewport_size({"width": 1280, "height": 720})
        client.cancel(task)


def test_6_what_changes_by_time_alone_appears_by_itself(page: Page, hub: RunningHub, ends: dict[str, str]) -> None:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = client.create("deploy", {**PRODUCTION, "version": f"{VERSION}.late"}, caps=TASKS)
        go(page, f"/inbox/{waiting(hub, task)}/")
        age = page.locator(".decision header time").first
        before = age.inner_text()
        expect(age).not_to_have_text(before)
        over(hub, task)
        expect(page.locator("#question-state")).to_contain_text(re.compile("in time"))
        go(page, f"/tasks/{task}/")
        expect(page.locator("#task .now .badge").first).to_have_text("Expired")


def test_8_focus_lands_in_the_form_that_was_opened(page: Page, hub: RunningHub, ends: dict[str, str]) -> None:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = client.create("deploy", {**PRODUCTION, "version": f"{VERSION}.focus"}, caps=TASKS)
        question = waiting(hub, task)
        ((server,),) = hub.sql("SELECT id FROM server WHERE name = 'demo'")
        for path in (
            "/servers/?new",
            f"/servers/{server}/?edit",
            "/clients/?new",
            "/settings/webhooks/?new",
            "/rules/add",
            "/rules/bypass",
            f"/inbox/{question}/edit",
            f"/inbox/{question}/hand-over",
            f"/inbox/{question}/block",
            f"/tasks/{ends['rejected']}/rerun/arguments",
        ):
            answer = page.goto(path)
            assert answer is not None
            assert answer.status == 200, path
            focused = "document.activeElement.matches('main form :is(input, select, textarea)')"
            assert page.evaluate(focused), path
        go(page, f"/inbox/{question}/")
        page.locator("details.comment summary", has_text="Comment").click()
        expect(page.get_by_label("Comment", exact=True)).to_be_focused()
        client.cancel(task)


def test_9_servers_are_edited_and_removed(page: Page, hub: RunningHub, ends: dict[str, str]) -> None:
    go(page, "/servers/?new")
    page.get_by_label("Name", exact=True).fill("passing")
    page.get_by_label("Address or command").fill("python:taskhub.demo.server:server")
    page.get_by_role("button", name="Add server").click()
    expect(page.get_by_role("heading", name="passing", exact=True)).to_be_visible()
    page.get_by_role("link", name="Edit", exact=True).click()
    page.locator("main form.form details > summary").first.click()
    page.get_by_label("Concurrent calls").fill("3")
    page.get_by_role("button", name="Save", exact=True).click()
    wait_until(lambda: hub.sql("SELECT 1 FROM server WHERE name = 'passing' AND calls_at_once = 3"), "the change")
    page.get_by_role("link", name=re.compile("^Remove")).first.click()
    page.get_by_role("button", name=re.compile("^Remove")).click()
    wait_until(lambda: hub.sql("SELECT 1 FROM server WHERE name = 'passing' AND removed_at IS NOT NULL"), "its removal")


def test_10_the_overview_says_what_needs_whom(page: Page, hub: RunningHub, ends: dict[str, str]) -> None:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = client.create("deploy", {**PRODUCTION, "version": f"{VERSION}.needed"}, caps=TASKS)
        question = waiting(hub, task)
        go(page, "/")
        expect(page.get_by_role("region", name="Needs a decision")).to_be_visible()
        assert page.request.get(f"/inbox/{question}/").status == 200
        expect(page.locator("#failing")).to_contain_text("fail")
        for tile in ("Longest wait", "Needs a person", "Abandoned", "Not fetched", "Went wrong in 24 h"):
            expect(page.locator(".tally .name", has_text=tile)).to_be_visible()
        client.cancel(task)
