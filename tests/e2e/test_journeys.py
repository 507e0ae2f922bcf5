"""What people do with the console, from the call of an agent to the line in the timeline."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.visits import Visits, go
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.browser

PRODUCTION = {"service": "checkout", "version": "1.4.2", "environment": "production"}
LONG = {"seconds": 600, "steps": 600}


def waiting(hub: RunningHub, task: str) -> int:
    """The id of the task's open question, as soon as it has one."""
    ask = (
        "SELECT question.id FROM question JOIN task ON task.id = task_id"
        " WHERE public_id = %s AND question.state = 'open'"
    )
    found: int = wait_until(lambda: hub.sql(ask, [task]), f"an open question of {task}")[0][0]
    return found


def moment(page: Page, words: str) -> str:
    """The line of the timeline that begins with these words."""
    return page.locator("ol.moments li", has=page.locator("b", has_text=re.compile(f"^{words}$"))).first.inner_text()


def test_call_to_production_is_approved_confirmed_and_answered(hub: RunningHub, visits: Visits, agent: Client) -> None:
    page = visits.of("approver")
    go(page, "/inbox/")
    task = agent.create("deploy", PRODUCTION, caps=TASKS)
    approval = waiting(hub, task)
    assert agent.get(task).result["status"] == "working"
    page.locator(f"#question-{approval}").click()
    expect(page.get_by_role("heading", name="Approve this call?")).to_be_visible()
    decision = page.locator(".decision")
    expect(decision).to_contain_text("agent-a called deploy")
    for value in PRODUCTION.values():
        expect(decision.get_by_label("The call")).to_contain_text(value)
    expect(decision).to_contain_text("which needs one approval from group ops")
    page.get_by_label("Reason").fill("Release day")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#notices")).to_contain_text("Approved. The tool runs now.")

    confirm = wait_until(lambda: (now := waiting(hub, task)) != approval and now, "the form")
    page.locator(f"#question-{confirm}").click()
    expect(decision.locator(".ask")).to_have_text("Deploy checkout 1.4.2 to production?")
    page.get_by_role("checkbox", name="Deploy").check()
    page.get_by_role("button", name="Send answer").click()
    expect(page.locator("#notices")).to_contain_text("Answered. The task continues.")

    done = agent.until(task, "completed")
    assert done["result"]["structuredContent"]["deployed"] is True
    go(page, f"/tasks/{task}/?view=timeline")
    assert "by agent-a as a client" in moment(page, "Created")
    assert "by approver in the console" in moment(page, "Approved")
    assert "Release day" in moment(page, "Approved")
    assert "by approver in the console" in moment(page, "Answered")
    assert "as a worker" in moment(page, "Finished")


def test_keys_pressed_twice_decide_one_call_and_the_next_in_line_is_shown(
    hub: RunningHub, visits: Visits, agent: Client
) -> None:
    tasks = [agent.create("deploy", {**PRODUCTION, "service": name}, caps=TASKS) for name in ("one", "two", "three")]
    try:
        oldest, chosen, following = (waiting(hub, task) for task in tasks)
        page = visits.of("approver")
        go(page, f"/inbox/{chosen}/")
        # As fast as a machine is: the keys come in the moment the next call stands there.
        page.evaluate("""() => {
            const swapped = () => {
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
                document.documentElement.dataset.pressed = document.activeElement.dataset?.key ?? "no button";
                document.querySelector("[data-key=a]").click();
            };
            document.addEventListener("htmx:afterSettle", (e) => e.detail.elt.id === "inbox" && swapped());
        }""")
        page.keyboard.press("a")
        page.keyboard.press("Enter")
        page.wait_for_url(f"/inbox/{following}/")
        expect(page.locator("#notices")).to_contain_text(") for agent-a: Approved.")
        expect(page.locator("html")).to_have_attribute("data-pressed", "no button")
        expect(page.locator("#decision")).to_have_attribute("action", f"/inbox/{following}/decide")
        state = "SELECT state FROM question WHERE id = ANY (%s) ORDER BY id"
        assert hub.sql(state, [[oldest, chosen, following]]) == [("open",), ("answered",), ("open",)]
        page.wait_for_function("start => performance.now() - start > 600", arg=page.evaluate("performance.now()"))
        page.keyboard.press("a")
        expect(page.get_by_role("button", name="Approve")).to_be_focused()
        page.locator("#notices").get_by_role("link", name="See its task").click()
        page.wait_for_url(f"/tasks/{tasks[1]}/")
    finally:
        for task in tasks:
            agent.cancel(task)


def test_arguments_are_edited_and_the_browser_has_nothing_to_complain_of(
    hub: RunningHub, visits: Visits, agent: Client
) -> None:
    """Also where somebody has made a text box higher, and the page comes back with an error."""
    task = agent.create("deploy", {"service": "web", "version": "9.1", "environment": "production"}, caps=TASKS)
    ((question,),) = hub.sql(
        "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s", [task]
    )
    page = visits.of("approver")
    visits.expected.add(422)
    go(page, f"/inbox/{question}/edit")
    page.evaluate("document.querySelector('#decision textarea').style.height = '120px'")
    show = page.get_by_role("button", name="Show the difference")
    show.click()
    expect(page.get_by_text("Nothing is changed.")).to_be_visible()
    page.get_by_label("Version").fill("9.2")
    show.click()
    expect(page.get_by_text("Approve it with these changes?")).to_be_visible()
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_label("Version")).to_have_value("9.2")
    show.click()
    page.get_by_role("button", name="Approve with changes").click()
    expect(page.locator("#notices").get_by_text("Approved with changes.")).to_be_visible()
    assert agent.get(task).result["statusMessage"].startswith("An approver changed version")
    agent.cancel(task)


def test_call_to_staging_needs_no_approval(hub: RunningHub, visits: Visits, agent: Client) -> None:
    task = agent.create("deploy", {**PRODUCTION, "environment": "staging"}, caps=TASKS)
    question = waiting(hub, task)
    page = visits.of("operator")
    go(page, f"/inbox/{question}/")
    expect(page.get_by_role("heading", name="The tool asks a question")).to_be_visible()
    page.get_by_role("button", name="Decline").click()
    expect(page.locator("#notices")).to_contain_text("Declined. The tool has been told.")
    assert agent.until(task, "completed")["result"]["structuredContent"]["deployed"] is False


def test_rejection_needs_a_reason_and_the_agent_reads_it(hub: RunningHub, visits: Visits, agent: Client) -> None:
    task = agent.create("deploy", PRODUCTION, caps=TASKS)
    page = visits.of("approver")
    go(page, f"/inbox/{waiting(hub, task)}/")
    visits.expected.add(422)
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".field .error")).to_have_text("Enter a reason; the caller will see it.")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.get_by_label("Reason").fill("Frozen until Monday")
    page.get_by_role("button", name="Reject").click()
    expect(page.locator("#notices")).to_contain_text("Rejected.")
    done = agent.until(task, "completed")
    assert done["result"]["isError"] is True
    assert "Frozen until Monday" in done["result"]["content"][0]["text"]
    assert hub.sql("SELECT count(*) FROM attempt JOIN task ON task.id = task_id WHERE public_id = %s", [task]) == [(0,)]
    go(page, f"/tasks/{task}/")
    expect(page.locator("#task .why")).to_contain_text("Rejected by approver; the tool did not run.")


def test_list_shows_a_new_call_and_its_end_without_a_reload(visits: Visits, agent: Client) -> None:
    page = visits.of("viewer")
    go(page, "/tasks/")
    page.evaluate("window.stayed = true")
    moves: list[str] = []
    page.on("framenavigated", lambda frame: moves.append(frame.url))
    task = agent.create("countdown", {"seconds": 3, "steps": 6})
    row = page.locator(f"#row-{task}")
    expect(row.locator(".badge")).to_have_text("Working")
    expect(row.locator("progress")).to_be_visible()
    expect(row.locator(".badge")).to_have_text("Finished")
    assert page.evaluate("window.stayed") is True
    assert moves == []


def test_open_form_survives_what_happens_around_it(hub: RunningHub, visits: Visits, agent: Client) -> None:
    task = agent.create("survey", {}, caps=TASKS)
    page = visits.of("operator")
    go(page, f"/inbox/{waiting(hub, task)}/")
    page.get_by_label("Name").fill("Half typ")
    other = waiting(hub, agent.create("survey", {}, caps=TASKS))
    expect(page.locator(f"#question-{other}")).to_be_attached()
    expect(page.get_by_label("Name")).to_have_value("Half typ")
    expect(page.get_by_label("Name")).to_be_focused()


def test_cancel_asks_first_and_stops_the_tool(visits: Visits, agent: Client) -> None:
    task = agent.create("countdown", {"seconds": 600, "steps": 1})
    page = visits.of("operator")
    go(page, f"/tasks/{task}/")
    badge = page.locator("#task .now .badge").first
    expect(badge).to_have_text("Working")
    expect(page.locator("#task .why time")).to_have_text(re.compile(r"^\d+ s$"))  # "2.7 s" where no clock runs
    opener = page.get_by_role("link", name="Cancel …")
    dialog = page.get_by_role("dialog", name="Cancel this task?")
    opener.click()
    expect(dialog).to_be_visible()
    dialog.get_by_role("link", name="Keep it").click()
    expect(dialog).to_be_hidden()
    expect(badge).to_have_text("Working")
    opener.click()
    dialog.get_by_label("Reason").fill("Started by mistake")
    dialog.get_by_role("button", name="Cancel the task").click()
    expect(badge).to_have_text("Cancelled")
    expect(opener).to_have_count(0)
    expect(page.locator("main")).not_to_contain_text("Cancel requested")
    assert agent.until(task, "cancelled")["status"] == "cancelled"
    go(page, f"/tasks/{task}/?view=timeline")
    asked = moment(page, "Cancel requested")
    assert "by operator in the console" in asked
    assert "Started by mistake" in asked


@pytest.mark.parametrize("path", ["/tasks/", "/inbox/", "/"])
def test_lost_sign_in_leads_to_the_sign_in_page(hub: RunningHub, visits: Visits, agent: Client, path: str) -> None:
    page = visits.window()
    visits.sign_in(page, "operator", path)
    go(page, path)
    [session] = [cookie for cookie in page.context.cookies() if cookie.get("name") == "sessionid"]
    hub.sql("DELETE FROM sign_in WHERE digest = encode(sha256(%s::bytea), 'hex')", [session.get("value", "").encode()])
    agent.tool("echo", {"text": "anything"}, caps=TASKS)
    # Each part of the page that asks again is sent there: navigations may overtake each other.
    expect(page).to_have_url(re.compile(r"/accounts/login/\?next="))
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.locator("input[type=password]")).to_have_count(1)
    expect(page.locator("table, .rail, .topbar")).to_have_count(0)


def test_token_is_shown_once_and_refused_when_revoked(hub: RunningHub, visits: Visits) -> None:
    page = visits.of("admin")
    go(page, "/clients/")
    page.get_by_role("link", name="New client").click()
    page.get_by_label("Name", exact=True).fill("night-job")
    page.get_by_role("button", name="Issue token").click()
    expect(page.get_by_role("heading", name="Token issued")).to_be_visible()
    token = page.locator("#token").inner_text()
    expect(page.get_by_role("region", name="Connect a client")).to_contain_text(token)
    with Client(hub.base, token) as client:
        assert client.tool("echo", {"text": "good morning"}, caps=TASKS).text == "good morning"
        page.reload()
        expect(page.locator("#notices")).to_contain_text("That token was issued already and is not shown again.")
        assert token not in page.content()
        page.get_by_role("link", name="night-job").click()
        expect(page.get_by_role("heading", name="night-job", exact=True)).to_be_visible()
        assert token not in page.content()
        row = page.get_by_role("row").filter(has_text="Active")
        row.get_by_role("link", name="Revoke").click()
        page.get_by_role("button", name="Revoke token").click()
        expect(page.locator("#notices")).to_contain_text("The token is revoked.")
        refused = wait_until(
            lambda: (answer := client.call("tools/list")).status == 401 and answer, "the token to be refused"
        )
        assert refused.headers["www-authenticate"].startswith("Bearer")


def test_keys_lead_everywhere_and_leave_typing_alone(visits: Visits, agent: Client) -> None:
    tasks = [agent.create("countdown", {"seconds": 0, "steps": 1}) for _ in range(2)]
    page = visits.of("operator")
    go(page, "/")
    sheet = page.get_by_role("dialog", name="Keyboard")
    page.keyboard.press("?")
    expect(sheet).to_be_visible()
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("/tasks/")
    page.wait_for_function("() => document.documentElement.dataset.hinted !== undefined")
    for task in tasks:
        expect(page.locator(f"#row-{task} .badge")).to_have_text("Finished")
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("?gi")
    expect(page.get_by_label("Search")).to_have_value("?gi")
    expect(sheet).to_be_hidden()
    page.get_by_label("Search").fill("countdown")
    page.wait_for_url("/tasks/?q=countdown")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("tr a.row-link").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(f"/tasks/{tasks[-1]}/")


def test_a_policy_says_where_it_was_saved(hub: RunningHub, visits: Visits) -> None:
    server, tool = hub.demo_tool("deploy")
    page = visits.of("admin", viewport={"width": 390, "height": 700})
    go(page, f"/servers/{server}/?tool={tool}")
    page.get_by_role("button", name="Save policy").click()
    expect(page.get_by_text(re.compile("^Policy of .+ unchanged"))).to_be_in_viewport()


def test_viewer_watches_but_changes_nothing(hub: RunningHub, visits: Visits, agent: Client) -> None:
    task = agent.create("countdown", LONG)
    try:
        page = visits.of("viewer")
        go(page, f"/tasks/{task}/")
        expect(page.locator("#task .now .badge").first).to_have_text("Working")
        expect(page.get_by_role("link", name="Cancel …")).to_have_count(0)
        expect(page.get_by_role("link", name="Run again …")).to_have_count(0)
        links = page.get_by_role("navigation", name="Main", exact=True).get_by_role("link")
        assert {name.strip() for name in links.all_inner_texts()} == {
            "Overview",
            "Tasks",
            "Servers",
            "Rules",
            "Workers",
        }
        visits.expected.add(403)
        for path in (f"/tasks/{task}/cancel", "/clients/", "/audit/", "/settings/"):
            page.goto(path)
            expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()
    finally:
        agent.cancel(task)
    operator = visits.of("operator")
    go(operator, f"/tasks/{task}/")
    expect(operator.locator("#task .now .badge").first).to_have_text("Cancelled")
    opener = operator.get_by_role("link", name="Run again …")
    dialog = operator.get_by_role("dialog", name="Run this call again?")
    opener.click()
    dialog.get_by_role("link", name="Do not run it").click()
    expect(dialog).to_be_hidden()
    copies = "SELECT count(*) FROM task JOIN task AS o ON o.id = task.rerun_of_id WHERE o.public_id = %s"
    assert hub.sql(copies, [task]) == [(0,)]
    opener.click()
    dialog.get_by_role("button", name="Run again").click()
    expect(operator.locator("#notices")).to_contain_text("This is the new task.")
    assert hub.sql(copies, [task]) == [(1,)]
    agent.cancel(operator.url.rstrip("/").rpartition("/")[2])
