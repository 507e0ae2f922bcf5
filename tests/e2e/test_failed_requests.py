"""A request of the console that comes to nothing says so beside the button that was pressed, and what to do next."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.test_axe import look
from tests.e2e.test_journeys import PRODUCTION, waiting
from tests.e2e.visits import Visits, go
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub

pytestmark = pytest.mark.browser

REASON = "Half a reason"
SHORT = "htmx.config.timeout = 600"
LONG_ENOUGH = "htmx.config.timeout = 20000"
"""For tests that wait for it. The pages' own is in `console.htmx`."""


@pytest.fixture
def task(agent: Client) -> Iterator[str]:
    """A call that waits for an approval."""
    made = agent.create("deploy", PRODUCTION, caps=TASKS)
    yield made
    agent.cancel(made)


@pytest.fixture
def question(hub: RunningHub, task: str) -> int:
    """The approval."""
    return waiting(hub, task)


@pytest.fixture
def page(visits: Visits, question: int) -> Page:
    """An approver in front of it, who has begun to write."""
    found = visits.of("approver")
    go(found, f"/inbox/{question}/")
    found.get_by_label("Reason").fill(REASON)
    return found


def press(page: Page) -> None:
    page.get_by_role("button", name="Approve").click()


def said(page: Page) -> Locator:
    """What stands in the same row as the buttons, in a live region."""
    return page.locator(".form-actions:has(button[value=approve]) [role=alert]")


def stays(page: Page) -> None:
    """Nobody was led away, nothing was lost, and it can be pressed again."""
    expect(page.get_by_label("Reason")).to_have_value(REASON)
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()


def drafts(page: Page) -> int:
    """How many forms' texts the tab keeps."""
    found: int = page.evaluate("Object.keys(sessionStorage).filter((key) => key.startsWith('draft:')).length")
    return found


def counted(hub: RunningHub, question: int) -> int:
    found: int = hub.sql("SELECT count(*) FROM decision WHERE question_id = %s", [question])[0][0]
    return found


def shot(page: Page, name: str) -> None:
    """Pictures for whoever wants to see it, as `test_axe` makes them; and nothing sticks out."""
    assert look(page, f"failed-{name}") == []


@contextlib.contextmanager
def locked(hub: RunningHub) -> Iterator[None]:
    """Nobody reads or changes a question meanwhile."""
    with psycopg.connect(hub.url_of(hub.database)) as connection:
        connection.execute("LOCK TABLE question IN ACCESS EXCLUSIVE MODE")
        yield
        connection.rollback()


def test_offline_nothing_was_sent(hub: RunningHub, visits: Visits, page: Page, question: int) -> None:
    visits.cut = True
    page.context.set_offline(True)
    press(page)
    expect(said(page)).to_contain_text("You are offline: nothing was sent.")
    expect(said(page)).to_contain_text("What you typed is still here. Try again when the network is back.")
    stays(page)
    expect(page.get_by_role("button", name="Approve")).to_be_focused()
    shot(page, "offline")
    page.context.set_offline(False)
    press(page)
    expect(page.locator("#notices")).to_contain_text("Approved. The tool runs now.")
    assert counted(hub, question) == 1


def test_broken_connection_may_have_counted(visits: Visits, page: Page, hub: RunningHub, question: int) -> None:
    visits.cut = True

    def lost(route: Route) -> None:
        route.fetch()  # the server hears it, and its answer is lost
        route.abort("connectionreset")

    page.route("**/decide", lost)
    press(page)
    expect(said(page)).to_contain_text("The connection was lost. We can't tell whether this was saved")
    stays(page)
    assert counted(hub, question) == 1
    said(page).get_by_role("button", name="Check now").click()
    expect(said(page)).to_contain_text("Already approved by approver. Nothing is left to do here.")
    expect(page.get_by_role("button", name="Approve")).to_be_disabled()
    shot(page, "settled")
    said(page).get_by_role("link", name="To the inbox").click()
    expect(page).to_have_url(re.compile("/inbox/$"))


def test_time_out_is_unknown(visits: Visits, page: Page, hub: RunningHub, question: int) -> None:
    visits.cut = True
    page.evaluate(SHORT)
    with locked(hub):
        press(page)
        expect(said(page)).to_contain_text("There was no answer within 0.6 seconds. We can't tell")
        stays(page)
        said(page).get_by_role("button", name="Check now").click()
        expect(said(page)).to_contain_text("The check failed: there was no answer")
    page.evaluate(LONG_ENOUGH)
    said(page).get_by_role("button", name="Check now").click()
    # The server may have been about to count it when the lock was gone, and says which.
    expect(said(page)).to_contain_text(re.compile("Nothing has been saved so far|Already approved by approver"))


def test_looking_again_tells_what_did_not_count(visits: Visits, page: Page, hub: RunningHub, question: int) -> None:
    visits.cut = True
    page.evaluate(SHORT)
    page.route("**/decide", lambda route: None)  # lost on its way
    press(page)
    expect(said(page)).to_contain_text("There was no answer within 0.6 seconds. We can't tell")
    page.evaluate(LONG_ENOUGH)
    said(page).get_by_role("button", name="Check now").click()
    expect(said(page)).to_contain_text("Nothing has been saved so far. Try again: it cannot be saved twice.")
    stays(page)
    shot(page, "nothing-counted")
    page.unroute("**/decide")
    press(page)
    expect(page.locator("#notices")).to_contain_text("Approved. The tool runs now.")
    assert counted(hub, question) == 1


def test_pages_wait_for_an_answer_only_so_long(page: Page) -> None:
    assert page.evaluate("htmx.config.timeout") == 30_000


def test_503_says_why_in_the_servers_words(visits: Visits, page: Page, hub: RunningHub, question: int) -> None:
    visits.expected.update((500, 503))
    with locked(hub):
        press(page)
        expect(said(page)).to_contain_text("The database is too busy; try again shortly. We can't tell")
        expect(said(page).get_by_role("button", name="Check now")).to_be_visible()
        stays(page)
        shot(page, "503")
    assert counted(hub, question) == 0


def test_500_may_have_counted(visits: Visits, page: Page, hub: RunningHub, question: int) -> None:
    visits.expected.add(500)
    [(name, arguments)] = hub.sql(
        "SELECT proname, pg_get_function_identity_arguments(oid) FROM pg_proc WHERE proname = 'answer'"
    )
    hub.sql(f"ALTER FUNCTION {name}({arguments}) RENAME TO answer_away")
    try:
        press(page)
        expect(said(page)).to_contain_text("TaskHub had an internal error (500). It was logged. We can't tell")
        stays(page)
    finally:
        hub.sql(f"ALTER FUNCTION answer_away({arguments}) RENAME TO {name}")
    press(page)
    expect(page.locator("#notices")).to_contain_text("Approved. The tool runs now.")
    assert counted(hub, question) == 1


def test_403_says_why_and_that_it_did_not_count(visits: Visits, page: Page, hub: RunningHub, question: int) -> None:
    visits.expected.add(403)
    change = "UPDATE membership SET role = %s WHERE user_id = (SELECT id FROM auth_user WHERE username = 'approver')"
    hub.sql(change, ["viewer"])
    try:
        press(page)
        expect(said(page)).to_contain_text("Your role, viewer, does not include this. Nothing was saved. Ask an admin")
        stays(page)
        shot(page, "403")
    finally:
        hub.sql(change, ["approver"])
    assert counted(hub, question) == 0


def test_a_sign_in_that_ended_keeps_what_was_typed(visits: Visits, hub: RunningHub, question: int) -> None:
    visits.expected.add(403)
    page = visits.window()
    visits.sign_in(page, "approver", f"/inbox/{question}/")
    go(page, f"/inbox/{question}/")
    page.get_by_label("Reason").fill(REASON)
    page.context.clear_cookies(name="sessionid")
    press(page)
    expect(said(page)).to_contain_text("You are signed out, so nothing was saved. What you typed is still here.")
    stays(page)
    shot(page, "signed-out")
    with page.context.expect_page() as opened:
        said(page).get_by_role("link", name="Sign in").click()
    other = opened.value
    other.wait_for_url(re.compile("/accounts/login/"))
    visits.sign_in(other, "approver", f"/inbox/{question}/")
    # The form belongs to the sign-in that ended; it is renewed when its window is looked at, or pressed.
    press(page)
    expect(said(page)).to_contain_text(re.compile("Try again"))
    stays(page)
    assert counted(hub, question) == 0
    press(page)
    expect(page.locator("#notices")).to_contain_text("Approved. The tool runs now.")
    assert counted(hub, question) == 1


def test_what_was_typed_before_the_sign_in_ended_is_back_after_it(
    visits: Visits, hub: RunningHub, question: int
) -> None:
    """Also for whoever leaves the page, or loads it anew, and signs in there."""
    page = visits.window()
    visits.sign_in(page, "approver", f"/inbox/{question}/")
    go(page, f"/inbox/{question}/")
    page.get_by_label("Reason").fill(REASON)
    page.context.clear_cookies(name="sessionid")
    visits.sign_in(page, "approver", f"/inbox/{question}/")
    stays(page)
    expect(page.locator("#decision")).to_contain_text("What you had typed is restored.")
    shot(page, "draft")
    # Somebody else at the same browser finds nothing of it, and takes it away.
    page.context.clear_cookies(name="sessionid")
    visits.sign_in(page, "admin", f"/inbox/{question}/")
    expect(page.get_by_label("Reason")).to_have_value("")
    assert drafts(page) == 0
    page.get_by_label("Reason").fill("Another reason")
    page.reload()
    expect(page.get_by_label("Reason")).to_have_value("Another reason")
    page.get_by_label("Reason").fill("")
    assert drafts(page) == 0
    page.get_by_label("Reason").fill("Another reason")
    press(page)
    expect(page.locator("#notices")).to_contain_text("Approved. The tool runs now.")
    assert drafts(page) == 0


def test_signing_out_leaves_nothing_of_what_was_typed(visits: Visits, hub: RunningHub, question: int) -> None:
    page = visits.window()
    visits.sign_in(page, "approver", f"/inbox/{question}/")
    go(page, f"/inbox/{question}/")
    page.get_by_label("Reason").fill(REASON)
    assert drafts(page) == 1
    page.evaluate("document.querySelector('form[data-sign-out]').requestSubmit()")
    page.wait_for_url(re.compile("/accounts/"))
    assert drafts(page) == 0


def test_a_long_host_is_shown_whole_and_widens_nothing(visits: Visits, hub: RunningHub, agent: Client) -> None:
    made = agent.create("visit", {}, caps=TASKS)
    number = waiting(hub, made)
    host = ".".join(["a" * 60] * 4)[:240] + ".evil.example"
    with psycopg.connect(hub.url_of(hub.database), autocommit=True) as connection:
        connection.execute("ALTER TABLE question DISABLE TRIGGER USER")
        connection.execute(
            "UPDATE question SET params = (params::jsonb || jsonb_build_object('url', %s::text))::json WHERE id = %s",
            [f"https://{host}/{'path' * 50}", number],
        )
        connection.execute("ALTER TABLE question ENABLE TRIGGER USER")
    page = visits.of("approver")
    go(page, f"/inbox/{number}/")
    link = page.get_by_role("link", name=f"Open {host}")
    shot(page, "long-host")
    width = page.evaluate("document.documentElement.clientWidth")
    for element in (link, page.locator("b.host")):
        expect(element).to_contain_text(host)
        box = element.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    agent.cancel(made)


def test_news_do_not_lead_away_from_a_form_that_was_begun(
    visits: Visits, hub: RunningHub, question: int, agent: Client
) -> None:
    page = visits.window()
    visits.sign_in(page, "approver", f"/inbox/{question}/")
    go(page, f"/inbox/{question}/")
    page.get_by_label("Reason").fill(REASON)
    page.context.clear_cookies(name="sessionid")
    agent.tool("echo", {"text": "news"}, caps=TASKS)
    expect(said(page)).to_contain_text("You are signed out")
    stays(page)


def test_a_part_that_is_not_fetched_anew_is_said_once_and_asks_again(
    visits: Visits, hub: RunningHub, agent: Client
) -> None:
    visits.expected.update((500, 503))
    page = visits.of("approver")
    go(page, "/inbox/")
    with locked(hub):
        page.evaluate("document.body.dispatchEvent(new CustomEvent('hint-tasks'))")
        expect(page.locator("#stale")).to_have_text(
            re.compile(r"^This page may be out of date: the server answered 50\d\. It retries automatically\.$")
        )
    expect(page.locator("#stale")).to_be_hidden()


def test_a_list_that_cannot_be_fetched_says_so_beside_the_link(visits: Visits, page: Page) -> None:
    visits.cut = True
    go(page, "/tasks/")
    page.context.set_offline(True)
    page.get_by_role("link", name="Working").first.click()
    expect(page.locator("#task-list > .failed")).to_contain_text("You are offline: nothing was sent.")
    shot(page, "list")
    page.context.set_offline(False)


def test_audit_link_of_a_task_leads_to_its_own_lines(visits: Visits, hub: RunningHub, task: str, agent: Client) -> None:
    other = agent.create("countdown", {"seconds": 1, "steps": 1})
    page = visits.of("admin")
    go(page, f"/tasks/{task}/")
    page.get_by_role("link", name="All entries for this task").click()
    expect(page).to_have_url(re.compile(f"/audit/\\?task={task}$"))
    expect(page.locator(f"td a[title='{task}']").first).to_be_visible()
    expect(page.locator(f"td a[title='{other}']")).to_have_count(0)
    [(lines,)] = hub.sql("SELECT count(*) FROM event JOIN task ON task.id = task_id WHERE public_id = %s", [task])
    expect(page.locator("#audit-log tbody tr")).to_have_count(lines)
