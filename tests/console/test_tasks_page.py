"""The task list and the page of one task."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from taskhub.console.views.tasks import MOST_STEPS
from taskhub.core.records import LogLine, TaskRecord
from taskhub.core.states import Audience, Role, State
from taskhub.domain.tasks import listing, run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.reads import task_by_id
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Attempt, Event, Question, Server, Task, TaskLog
from tests.console.conftest import Login
from tests.factories import (
    WORKER,
    claim_task,
    make_context,
    make_person,
    make_question,
    make_server,
    make_task,
    make_tool,
)

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}

LIST_QUERIES = 9
DETAIL_QUERIES = 14
STOPPED = "It will be stopped at its run timeout of 15 min, at {1:%H:%M} UTC."


@pytest.fixture
def context(tenant: Any) -> Any:
    return make_context(tenant, "agent-a")


@pytest.fixture
def server(tenant: Any) -> Any:
    return make_server(tenant, "demo")


@pytest.fixture
def operator(tenant: Any, sign_in: Login) -> Any:
    return sign_in(make_person(Role.OPERATOR, tenant))


def test_the_list_shows_newest_first_with_state_arguments_and_client(operator: Any, context: Any, server: Any) -> None:
    first = make_task(context, make_tool(server, "echo"), arguments={"text": "grüezi <b>"}, state="finished")
    second = make_task(context, make_tool(server, "deploy"), arguments={"env": "prod"})
    page = operator.get("/tasks/").content.decode()
    assert page.index(second.public_id) < page.index(first.public_id)
    assert "text: grüezi &lt;b&gt;" in page
    assert "env: prod" in page
    assert "Queued" in page
    assert "agent-a" in page


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("queued", "Queued"),
        ("working", "Working"),
        ("input_required", "Needs a person"),
        ("finished", "Finished"),
        ("finished-error", "Tool error"),
        ("faulted", "Failed"),
        ("cancelled", "Cancelled"),
    ],
)
def test_each_state_has_its_colour_icon_and_word(
    operator: Any, context: Any, server: Any, state: str, words: str
) -> None:
    task = make_task(context, make_tool(server), state=state)
    for url in ("/tasks/", f"/tasks/{task.public_id}/"):
        page = operator.get(url).content.decode()
        badge = page[page.index(f'<span class="badge {state}">') :]
        badge = badge[: badge.index("</span>")]
        assert "<svg" in badge
        assert badge.endswith(words)


def test_tabs_count_and_filter_by_state(operator: Any, context: Any, server: Any) -> None:
    tool = make_tool(server)
    tasks = {s: make_task(context, tool, state=s) for s in ("finished", "finished-error", "faulted", "cancelled")}
    for tab, state in (("finished", "finished"), ("error", "finished-error"), ("faulted", "faulted")):
        page = operator.get(f"/tasks/?state={tab}").content.decode()
        shown = {name for name, task in tasks.items() if task.public_id in page}
        assert shown == {state}
        assert page.count('<span class="n">1</span>') == 4


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=needle", {"argument"}),
        ("q=spindle", {"tool"}),
        ("q=100%25", {"percent"}),
        ("q=100_", set()),
        ("q=%00", {"argument", "tool", "percent"}),
        ("tool=spindle", {"tool"}),
        ("tool=nothing", set()),
        ("age=1h", {"argument", "tool", "percent"}),
        ("age=never&state=nonsense&client=x&before=-1", {"argument", "tool", "percent"}),
        ("client=99999999999999999999999", {"argument", "tool", "percent"}),
        ("client=%C2%B2&before=%EF%BC%97", {"argument", "tool", "percent"}),
        ("client=" + "0" * 20 + "9" * 5_000, {"argument", "tool", "percent"}),
    ],
)
def test_search_and_filters(operator: Any, context: Any, server: Any, query: str, found: set[str]) -> None:
    plain = make_tool(server, "plain")
    tasks = {
        "argument": make_task(context, plain, arguments={"path": "hay/needle"}),
        "tool": make_task(context, make_tool(server, "spindle")),
        "percent": make_task(context, plain, arguments={"text": "100%"}),
    }
    response = operator.get(f"/tasks/?{query}")
    assert response.status_code == 200
    page = response.content.decode()
    assert {name for name, task in tasks.items() if f"row-{task.public_id}" in page} == found


def test_a_search_that_has_found_nothing_goes_on_by_itself_to_the_end(
    operator: Any, context: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = make_tool(server, "echo")
    needle = make_task(context, tool, arguments={"text": "needle"})
    for _ in range(9):
        make_task(context, tool)
    monkeypatch.setattr(listing, "TEXT_WINDOW", 2)
    url, steps = "?q=needle", 0
    while True:
        page = operator.get(f"/tasks/{url}", headers=HTMX).content.decode()
        going_on = re.search(r'hx-get="(\?[^"]+)" hx-target="#task-list"[^>]*hx-trigger="load"', page)
        if going_on is None:
            break
        assert "No matches so far" in page
        url, steps = going_on[1].replace("&amp;", "&"), steps + 1
        assert steps < 10
    assert steps == 4
    assert needle.public_id in page


def test_a_search_stops_going_on_after_a_while(
    operator: Any, context: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = make_tool(server, "echo")
    for _ in range(4):
        make_task(context, tool)
    monkeypatch.setattr(listing, "TEXT_WINDOW", 1)
    first = operator.get("/tasks/?q=needle").content.decode()
    assert 'hx-trigger="load"' in first
    last = operator.get(f"/tasks/?q=needle&steps={MOST_STEPS}").content.decode()
    assert 'hx-trigger="load"' not in last
    assert re.search(r'No matches so far.</b> <a href="\?q=needle[^"]*before=\d+">Search further back', last)


def test_search_finds_an_id_by_its_beginning(operator: Any, context: Any, server: Any) -> None:
    task, other = make_task(context, make_tool(server)), make_task(context, make_tool(server))
    page = operator.get("/tasks/", {"q": task.public_id[:10]}).content.decode()
    assert f"row-{task.public_id}" in page
    assert f"row-{other.public_id}" not in page


def test_filter_by_client(operator: Any, context: Any, server: Any, tenant: Any) -> None:
    other = make_context(tenant)
    mine, theirs = make_task(context, make_tool(server)), make_task(other, make_tool(server))
    page = operator.get(f"/tasks/?client={other.pk}").content.decode()
    assert f"row-{theirs.public_id}" in page
    assert f"row-{mine.public_id}" not in page


def test_pages_follow_the_key_and_hold_every_task_once(operator: Any, context: Any, server: Any) -> None:
    tool = make_tool(server)
    made = {make_task(context, tool, arguments={"n": n}).public_id for n in range(35)}
    first = operator.get("/tasks/")
    rows = first.context["page"].rows
    assert len(rows) == 30
    make_task(context, tool)  # a newer one does not move the next page
    second = operator.get(f"/tasks/?before={first.context['page'].next_before}")
    assert second.context["page"].next_before is None
    seen = [row.public_id for row in (*rows, *second.context["page"].rows)]
    assert len(seen) == 35
    assert set(seen) == made
    assert f'href="?before={first.context["page"].next_before}"' in first.content.decode()


def test_htmx_gets_the_rows_and_they_equal_the_page(operator: Any, context: Any, server: Any) -> None:
    make_task(context, make_tool(server), state="finished")
    page = operator.get("/tasks/?state=finished").content.decode()
    rows = operator.get("/tasks/?state=finished", headers=HTMX)
    assert "HX-Request" in rows["Vary"]
    assert rows.content.decode().strip().startswith('<section id="task-list"')
    body = page[page.index('<section id="task-list"') : page.index("</section>")]
    assert body in rows.content.decode()
    assert "<html" in operator.get("/tasks/", headers={**HTMX, "HX-Boosted": "true"}).content.decode()
    assert "<html" in operator.get("/tasks/", headers={**HTMX, "HX-History-Restore-Request": "true"}).content.decode()


@pytest.mark.parametrize("rows", [1, 30])
def test_the_list_costs_the_same_at_1_and_30_rows(
    operator: Any, context: Any, server: Any, rows: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for n in range(rows):
        make_task(context, make_tool(server), arguments={"n": n}, state="input_required")
    with django_assert_num_queries(LIST_QUERIES):
        operator.get("/tasks/")


@pytest.mark.parametrize("rows", [1, 30])
def test_the_detail_costs_the_same_with_1_and_30_of_everything(
    operator: Any, context: Any, server: Any, rows: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    task = make_task(context, make_tool(server, "echo"))
    for n in range(rows):
        claim = claim_task(task)
        run.note(claim, [LogLine("info", f"line {n}")])
        run.release(claim, started=False, delay_seconds=0, reason="again", actor=WORKER)
    claim = claim_task(task)
    run.ask(claim, [make_question() for _ in range(rows)], upstream_state=None, message="m", live=False, actor=WORKER)
    with django_assert_num_queries(DETAIL_QUERIES):
        assert operator.get(f"/tasks/{task.public_id}/?view=questions").status_code == 200


def test_the_detail_says_why_a_task_waits(operator: Any, context: Any, server: Any) -> None:
    tool = make_tool(server, "deploy", asks={"group": "ops", "quorum": 2})
    task = make_task(context, tool)
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    assert "for 2 more approvals from group ops (0 of 2)." in page


def test_a_queued_task_without_a_worker_says_so(operator: Any, context: Any, server: Any) -> None:
    task = make_task(context, make_tool(server))
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    assert "No worker is running. Start one with “manage.py worker”." in page


def test_a_task_that_waits_for_its_server_says_so_and_what_is_before_it(
    operator: Any, context: Any, tenant: Any, server: Any
) -> None:
    heartbeat("worker-1", slots=8, busy=1)
    command = make_server(tenant, "command")
    Server.objects.filter(pk=command.pk).update(transport="stdio", calls_at_once=1)
    tool = make_tool(command)
    claim_task(make_task(context, tool))
    waiting = [make_task(context, tool), make_task(context, make_tool(server)), make_task(context, tool)]

    def why(task: TaskRecord) -> str:
        return str(operator.get(f"/tasks/{task.public_id}/").content.decode())

    takes = "Waiting for its server, which takes one call at a time per worker."
    assert f"{takes} This call is next." in why(waiting[0])
    assert "Waiting for a free slot on the worker." in why(waiting[1])
    assert f"{takes} One call is ahead of it." in why(waiting[2])
    Server.objects.filter(pk=command.pk).update(transport="http", calls_at_once=1)
    assert f"{takes} This call is next." in why(waiting[0])
    Server.objects.filter(pk=command.pk).update(calls_at_once=2)
    assert "Waiting for a free slot on the worker." in why(waiting[0])


def test_a_call_at_a_disabled_server_is_said_to_be_paused(operator: Any, context: Any, server: Any) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    task = make_task(context, make_tool(server))
    Server.objects.filter(pk=server.pk).update(enabled=False)
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    assert f"Paused: server {server.name} is disabled." in page
    assert page.count("Paused: ") == 1


def test_a_rejected_call_says_who_said_no(
    operator: Any, context: Any, server: Any, tenant: Any, sign_in: Login
) -> None:
    task = make_task(context, make_tool(server, "deploy", asks={}))
    approver = make_person(Role.APPROVER, tenant, username="mia")
    question = sign_in(approver).get("/inbox/").context["chosen"]
    sign_in(approver).post(f"/inbox/{question.id}/decide", {"verdict": "reject", "reason": "Friday"})
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    assert "Rejected by mia; the tool did not run." in page
    assert "Friday" in page


def test_results_are_drawn_and_never_trusted(operator: Any, context: Any, server: Any) -> None:
    result = {
        "content": [
            {"type": "text", "text": "<script>alert(1)</script>"},
            {"type": "resource_link", "uri": "javascript:alert(1)", "name": "evil"},
            {"type": "resource_link", "uri": "https://example.com/a", "name": "good"},
            {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zz4="},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "new-in-2030", "x": 1},
            "not even an object",
        ],
        "structuredContent": {"words": 3},
    }
    task = make_task(context, make_tool(server), state="finished", result=result)
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    assert "<script>alert" not in page
    assert 'href="javascript' not in page
    assert 'href="https://example.com/a" rel="noopener noreferrer nofollow"' in page
    assert "data:image/svg" not in page
    assert 'src="data:image/png;base64,AAAA"' in page
    assert "new-in-2030" in page
    assert "&quot;words&quot;: 3" in page


@pytest.mark.parametrize("arguments", [{}, {"a": {"b": [1]}}, {"big": 2**70}, {"text": "line\nline"}])
def test_arguments_of_any_shape_are_shown(operator: Any, context: Any, server: Any, arguments: dict[str, Any]) -> None:
    task = make_task(context, make_tool(server), arguments=arguments)
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    for value in arguments.values():
        assert str(2**70) in page if value == 2**70 else True


@pytest.mark.parametrize("view", ["summary", "timeline", "questions", "log", "wire", "nonsense"])
@pytest.mark.parametrize(
    "state", ["queued", "working", "input_required", "finished", "finished-error", "faulted", "cancelled"]
)
def test_every_section_of_every_state_opens(operator: Any, context: Any, server: Any, view: str, state: str) -> None:
    task = make_task(context, make_tool(server), state=state)
    page = operator.get(f"/tasks/{task.public_id}/?view={view}")
    part = operator.get(f"/tasks/{task.public_id}/?view={view}", headers=HTMX)
    assert page.status_code == part.status_code == 200
    assert part.content.decode().strip().startswith('<div id="task"')


def test_the_timeline_names_who_came_through_which_door(operator: Any, context: Any, server: Any) -> None:
    task = make_task(context, make_tool(server), state="finished")
    page = operator.get(f"/tasks/{task.public_id}/?view=timeline").content.decode()
    assert "by agent-a as a client" in page
    assert "by worker-1 as a worker" in page
    assert '<svg class="lanes"' in page


def test_the_wire_view_is_what_the_client_gets(operator: Any, context: Any, server: Any) -> None:
    for_people = make_task(context, make_tool(server), state="input_required")
    for_client = make_task(
        context, make_tool(server), state="input_required", question=make_question(audience=Audience.CLIENT)
    )
    page = operator.get(f"/tasks/{for_people.public_id}/?view=wire").content.decode()
    assert "&quot;status&quot;: &quot;working&quot;" in page
    page = operator.get(f"/tasks/{for_client.public_id}/?view=wire").content.decode()
    assert "&quot;status&quot;: &quot;input_required&quot;" in page
    assert "inputRequests" in page


@pytest.mark.parametrize(
    ("revision", "handle", "said", "unsaid"),
    [
        ("2026-07-28", False, "&quot;ttlMs&quot;: 86400000", "&quot;ttl&quot;"),
        ("sep-2557", False, "&quot;ttl&quot;: 86400,", "ttlMs"),
        ("2025-11-25", True, "&quot;ttl&quot;: 86400000", "resultType"),
        ("2025-11-25", False, "No task handle", "taskId"),
        ("a-revision-that-is-gone", False, "No task handle", "taskId"),
    ],
)
def test_the_wire_view_speaks_the_revision_of_the_task(
    operator: Any, context: Any, server: Any, revision: str, handle: bool, said: str, unsaid: str
) -> None:
    task = make_task(context, make_tool(server), revision=revision, handle=handle)
    page = operator.get(f"/tasks/{task.public_id}/?view=wire").content.decode()
    assert said in page
    assert unsaid not in page
    assert revision in page


def test_cancel_asks_first_and_then_records_who(operator: Any, context: Any, server: Any, tenant: Any) -> None:
    task = make_task(context, make_tool(server))
    url = f"/tasks/{task.public_id}/cancel"
    assert b"Cancel this task?" in operator.get(url).content
    assert Task.objects.get(pk=task.id).state == "queued"
    response = operator.post(url, {"reason": "not needed"}, follow=True)
    assert "Cancelled." in response.content.decode()
    event = Event.objects.get(task_id=task.id, action="task.cancelled")
    assert (event.door, event.reason, event.address) == ("web", "not needed", "127.0.0.1")


def test_cancelling_a_running_task_is_a_wish(operator: Any, context: Any, server: Any) -> None:
    task = make_task(context, make_tool(server), state="working")
    page = operator.post(f"/tasks/{task.public_id}/cancel", follow=True).content.decode()
    assert re.search(r"Cancel was requested <time [^>]*>[^<]*</time>; the worker is stopping the tool\.", page)
    found = task_by_id(task.id)
    assert found is not None
    assert found.state is State.WORKING
    assert found.cancel_requested_at is not None


def test_cancelling_an_ended_task_changes_nothing_and_says_so(operator: Any, context: Any, server: Any) -> None:
    task = make_task(context, make_tool(server), state="finished")
    page = operator.post(f"/tasks/{task.public_id}/cancel", follow=True).content.decode()
    assert "it is finished. Nothing was changed." in page


def test_rerun_makes_a_linked_task_with_the_same_call(operator: Any, context: Any, server: Any) -> None:
    task = make_task(context, make_tool(server), arguments={"a": [1, {"b": None}]}, state="faulted")
    response = operator.post(f"/tasks/{task.public_id}/rerun", follow=True)
    new = Task.objects.get(rerun_of_id=task.id)
    assert response.redirect_chain[-1][0] == f"/tasks/{new.public_id}/"
    assert (new.arguments, new.context_id, new.tool_id) == ({"a": [1, {"b": None}]}, context.pk, new.tool_id)
    assert f'href="/tasks/{task.public_id}/"' in response.content.decode()
    assert f'href="/tasks/{new.public_id}/"' in operator.get(f"/tasks/{task.public_id}/").content.decode()
    for _ in range(22):  # however often the new one is run again, its own origin stays in sight
        make_task(context, make_tool(server), rerun_of=new.id)
    assert f'href="/tasks/{task.public_id}/"' in operator.get(f"/tasks/{new.public_id}/").content.decode()


def test_run_again_asks_first(operator: Any, context: Any, server: Any) -> None:
    """In a dialog of the task's page, or where there are no scripts on a page of its own."""
    task = make_task(context, make_tool(server), state="finished")
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    shown, dialog = page.split('<dialog class="dialog" id="rerun-dialog"')
    assert 'data-dialog="rerun-dialog"' in shown
    assert "<form" not in shown.split("<main")[1]
    asked = operator.get(f"/tasks/{task.public_id}/rerun").content.decode()
    for form in (dialog, asked):
        assert f'method="post" action="/tasks/{task.public_id}/rerun"' in form
        assert "its effects may happen twice" in form
    assert Task.objects.count() == 1


def test_rerun_of_a_live_task_or_a_gone_tool_is_refused_in_words(operator: Any, context: Any, server: Any) -> None:
    live = make_task(context, make_tool(server))
    page = operator.post(f"/tasks/{live.public_id}/rerun", follow=True).content.decode()
    assert "is still queued" in page
    tool = make_tool(server)
    task = make_task(context, tool, state="finished")
    from taskhub.store.models import Tool

    Tool.objects.filter(pk=tool.id).update(enabled=False)
    page = operator.post(f"/tasks/{task.public_id}/rerun", follow=True).content.decode()
    assert "is not offered at present" in page
    assert Task.objects.count() == 2


def test_only_fitting_actions_are_offered(context: Any, server: Any, tenant: Any, sign_in: Login) -> None:
    live, done = make_task(context, make_tool(server)), make_task(context, make_tool(server), state="finished")
    operator = sign_in(make_person(Role.OPERATOR, tenant))
    viewer = sign_in(make_person(Role.VIEWER, tenant))
    for client, task, cancel, rerun in (
        (operator, live, True, False),
        (operator, done, False, True),
        (viewer, live, False, False),
        (viewer, done, False, False),
    ):
        page = client.get(f"/tasks/{task.public_id}/").content.decode()
        assert (f"/tasks/{task.public_id}/cancel" in page) is cancel
        assert (f"/tasks/{task.public_id}/rerun" in page) is rerun


def test_a_second_wish_to_cancel_is_not_offered(operator: Any, context: Any, server: Any) -> None:
    task = make_task(context, make_tool(server), state="working")
    request_cancel(task.id, actor=WORKER)
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    assert "Cancel requested" in page
    assert "Cancel …" not in page


def test_the_filter_form_leaves_a_short_address(operator: Any, context: Any, server: Any) -> None:
    url = "/tasks/?q=a+b&tool=&client=&age=&state="
    response = operator.get(url, headers={**HTMX, "HX-Trigger": "filters"})
    assert response["HX-Push-Url"] == "/tasks/?q=a+b"
    assert "HX-Push-Url" not in operator.get(url, headers=HTMX)


def test_a_decision_is_offered_only_to_those_who_may_make_it(
    context: Any, server: Any, tenant: Any, sign_in: Login
) -> None:
    tool = make_tool(server, "deploy", asks={"group": "ops", "quorum": 2})
    task = make_task(context, tool)
    inside = sign_in(make_person(Role.APPROVER, tenant, groups=["ops"]))
    outside = sign_in(make_person(Role.APPROVER, tenant))
    operator = sign_in(make_person(Role.OPERATOR, tenant, groups=["ops"]))
    url = f"/tasks/{task.public_id}/"
    assert [">Decide<" in client.get(url).content.decode() for client in (inside, outside, operator)] == [
        True,
        False,
        False,
    ]
    question = inside.get("/inbox/").context["chosen"]
    inside.post(f"/inbox/{question.id}/decide", {"verdict": "approve"})
    assert ">Decide<" not in inside.get(url).content.decode()


def text_of(page: str) -> str:
    """What a reader sees, on one line."""
    return " ".join(re.sub(r"<[^>]*>", "", page).split())


def test_the_log_says_which_lines_it_leaves_out_and_leads_to_them(operator: Any, context: Any, server: Any) -> None:
    task = make_task(context, make_tool(server))
    run.note(claim_task(task), [LogLine("info", f"line {n}.") for n in range(1, 501)])
    page = operator.get(f"/tasks/{task.public_id}/?view=log").content.decode()
    assert ("line 200." in page, "line 201." in page, "line 500." in page) == (False, True, True)
    assert "Lines 201–500 of 500" in text_of(page)
    assert 'Log <span class="n">500</span>' in page
    assert 'href="?view=log&amp;skip=300"' in page
    page = operator.get(f"/tasks/{task.public_id}/?view=log&skip=300").content.decode()
    assert ("line 1." in page, "line 200." in page, "line 201." in page) == (True, True, False)
    assert "Lines 1–200 of 500" in text_of(page)
    assert "skip=600" not in page
    assert operator.get(f"/tasks/{task.public_id}/?view=log&skip=x").status_code == 200
    assert "Only the first" not in page


def test_the_log_says_that_later_lines_were_not_kept(operator: Any, context: Any, server: Any) -> None:
    task = make_task(context, make_tool(server))
    claim = claim_task(task)
    run.note(claim, [LogLine("info", "line")] * run.LINES_KEPT)
    run.note(claim, [LogLine("info", "one more")])
    page = operator.get(f"/tasks/{task.public_id}/?view=log").content.decode()
    assert "one more" not in page
    assert "Only the first 2,000 lines of a task are kept." in text_of(page)


def test_a_wish_to_cancel_is_told_where_its_end_is_seen(operator: Any, context: Any, server: Any) -> None:
    task = make_task(context, make_tool(server))
    claim = claim_task(task)
    page = operator.post(f"/tasks/{task.public_id}/cancel", {"reason": ""}, follow=True).content.decode()
    told = page[page.index('id="notices"') : page.index('class="content"')]
    assert "Cancel requested" not in told  # it would stand there when the task has ended
    assert "Cancel was requested" in page
    run.settle_cancel(claim, message="stopped", actor=WORKER)
    page = operator.get(f"/tasks/{task.public_id}/", headers=HTMX).content.decode()
    assert "Cancelled" in page
    assert "Cancel requested" not in page
    assert "Cancel was requested" not in page


def test_how_long_a_task_runs_or_waits_is_a_clock_that_runs(operator: Any, context: Any, server: Any) -> None:
    task = make_task(context, make_tool(server))
    claim_task(task)
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    assert re.search(r"Running on worker-1 for <time [^>]*data-since>\d+ m?s</time>\.", page)
    assert re.search(r"<dt>Elapsed</dt>\s*<dd><time [^>]*data-since>", page)
    asked = make_task(context, make_tool(server), state="input_required")
    Question.objects.filter(task_id=asked.id).update(due_at=datetime.now(UTC) + timedelta(hours=23, minutes=30))
    page = operator.get(f"/tasks/{asked.public_id}/").content.decode()
    assert re.search(r"Waiting <time [^>]*data-since>[^<]*</time> for an answer by a person\.", page)
    assert re.search(r"Unanswered, it fails <time [^>]*data-ago>in 23 h</time>\.", page)


@pytest.mark.parametrize(
    ("ran", "progress", "words"),
    [
        (60, None, ""),
        (60, (1, 40), f"At this rate it would take until {{0:%H:%M}} UTC. {STOPPED}"),
        (60, (1, 10), ""),
        (5, (1, 1_000), ""),
        (60, (1, None), ""),
        (60, (0, 10), ""),
        (730, None, STOPPED),
        (730, (9, 10), ""),
    ],
)
def test_a_run_that_will_meet_its_limit_says_so(
    operator: Any, context: Any, server: Any, ran: int, progress: tuple[int, int | None] | None, words: str
) -> None:
    task = make_task(context, make_tool(server))
    claim = claim_task(task)
    if progress is not None:
        run.note(claim, [LogLine("progress", "", *progress)])
    now = datetime.now(UTC)
    begun = now - timedelta(seconds=ran)
    Attempt.objects.filter(task_id=task.id).update(started_at=begun)
    page = text_of(operator.get(f"/tasks/{task.public_id}/").content.decode())
    done, of = progress or (0, None)
    told = TaskLog.objects.get(task_id=task.id).at if progress else now
    ends = begun + (told - begun) * of / done if of and done else now
    assert words.format(ends, begun + timedelta(seconds=900)) in page
    assert ("be stopped at its run timeout" in page) is bool(words)


def test_a_run_that_is_silent_looks_again_when_its_limit_comes_near(operator: Any, context: Any, server: Any) -> None:
    task = make_task(context, make_tool(server))
    claim_task(task)
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    assert re.search(r'hx-trigger="\s*load delay:7[12]\ds, hint-task-', page)
    Attempt.objects.filter(task_id=task.id).update(started_at=datetime.now(UTC) - timedelta(seconds=730))
    assert "load delay" not in operator.get(f"/tasks/{task.public_id}/").content.decode()
