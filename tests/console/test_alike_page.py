"""Approvals that differ in their arguments only: one row of the inbox, one page, one decision."""

from __future__ import annotations

import re
from typing import Any

import pytest

from taskhub.core.states import Role
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Decision, Question
from tests.console.admin import words
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db


def deploys(tenant: Any, count: int, *, server: str = "demo", client: str = "ci-bot", **asks: Any) -> list[Question]:
    """Questions about calls that go to one environment with one version each."""
    tool = make_tool(make_server(tenant, server), "deploy", asks=asks)
    context = make_context(tenant, client)
    made = [
        make_task(context, tool, arguments={"environment": "staging", "service": f"<b>{n}", "version": f"1.{n}"})
        for n in range(count)
    ]
    return [Question.objects.get(task_id=task.id) for task in made]


def test_a_row_stands_for_all_and_leads_to_what_differs(tenant: Any, sign_in: Login) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    first, second, *_ = questions = deploys(tenant, 4)
    mia = sign_in(make_person(Role.APPROVER, tenant))
    row = mia.get("/inbox/").content.decode()
    assert f'href="/inbox/{first.pk}/alike"' in row
    assert "4 alike" in row
    assert f'id="question-{second.pk}"' not in row
    assert "Decide all 4 calls like this one" in words(mia.get(f"/inbox/{second.pk}/").content.decode())
    page = mia.get(f"/inbox/{second.pk}/alike").content.decode()
    same, differs = page.split('id="differs"')
    assert "staging" in same
    assert "staging" not in differs
    for question in questions:
        assert f'name="question" value="{question.pk}"' in differs
    assert "&lt;b&gt;3" in differs
    assert "checked" not in differs
    assert mia.get(f"/inbox/{second.pk}/alike?all=1").content.decode().count("checked>") == 4


def test_a_narrowed_queue_leads_to_the_calls_that_it_shows(tenant: Any, sign_in: Login, settings: Any) -> None:
    """Whoever selects all of them decides those that the row counted, and none that the search left out."""
    settings.TASKHUB_UNDO_SECONDS = 60
    heartbeat("worker-1", slots=8, busy=0)
    tool, context = make_tool(make_server(tenant), "deploy", asks={}), make_context(tenant)
    made = [make_task(context, tool, arguments={"version": n if n < 4 else f"hotfix {n}"}) for n in range(8)]
    questions = [Question.objects.get(task_id=task.id) for task in made]
    wanted = [question.pk for question in questions[4:]]
    mia = sign_in(make_person(Role.APPROVER, tenant))
    assert "4 alike" in words(mia.get("/inbox/?q=hotfix").content.decode())
    card = words(mia.get(f"/inbox/{wanted[1]}/?q=hotfix").content.decode())
    assert "Decide all 4 calls like this one" in card
    url = f"/inbox/{wanted[0]}/alike?q=hotfix"
    page = mia.get(url).content.decode()
    assert [int(one) for one in re.findall(r'name="question" value="(\d+)"', page)] == wanted
    assert "4 of 8 such calls: those that the filters of the inbox leave. All 8" in words(page)
    assert f'href="/inbox/{questions[0].pk}/alike"' in page
    # What is left of them comes next, with the same filter.
    response = mia.post(url, {"verdict": "approve", "question": wanted[:1]})
    assert response["Location"] == f"/inbox/{wanted[1]}/alike?q=hotfix"
    response = mia.post(url, {"verdict": "approve", "question": wanted[1:]})
    assert response["Location"] == "/inbox/?q=hotfix"
    undone = mia.post("/inbox/undo?q=hotfix", {"questions": ",".join(map(str, wanted[1:]))})
    assert undone["Location"] == f"/inbox/{wanted[1]}/alike?q=hotfix"
    everything = words(mia.get(f"/inbox/{questions[0].pk}/alike?tool=deploy").content.decode())
    assert "7 calls of deploy" in everything
    assert "such calls" not in everything  # the filter leaves all of them


def test_skipped_calls_give_way_to_what_comes_next(tenant: Any, sign_in: Login) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    first, *_ = deploys(tenant, 4)
    mia = sign_in(make_person(Role.APPROVER, tenant))
    at = f"/inbox/{first.pk}/alike"
    assert 'data-key="s"' not in mia.get(at).content.decode()  # nothing else waits
    other = deploys(tenant, 1, server="other", client="bot")[0]
    second, *_, newest = deploys(tenant, 4, server="third", client="third")

    def skipped(page: str) -> str:
        return re.findall(r'href="([^"]*)"[^>]* data-key="s"', mia.get(page).content.decode())[0]

    assert skipped(at) == f"/inbox/{other.pk}/"
    assert skipped(f"/inbox/{second.pk}/alike") == at
    assert skipped(f"/inbox/{newest.pk}/alike?sort=newest") == f"/inbox/{other.pk}/?sort=newest"
    assert not Decision.objects.exists()


def test_those_selected_are_decided_and_the_next_comes(tenant: Any, sign_in: Login) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    questions = deploys(tenant, 6)
    ids = [question.pk for question in questions]
    mia = sign_in(make_person(Role.APPROVER, tenant))
    url = f"/inbox/{ids[0]}/alike?tool=deploy"
    for posted, said in (
        ({"verdict": "approve"}, "Select at least one call."),
        ({"verdict": "reject", "question": ids[:2]}, "Enter a reason; the caller will see it."),
        ({"question": ids[:2]}, "Choose approve or reject."),
        ({"verdict": "approve", "question": ["x"]}, "Select at least one call."),
    ):
        response = mia.post(url, posted)
        assert response.status_code == 422, posted
        assert said in response.content.decode(), posted
    assert not Decision.objects.exists()
    kept = mia.post(url, {"verdict": "reject", "question": ids[1:3]}).content.decode()
    assert kept.count("checked>") == 2
    response = mia.post(url, {"verdict": "approve", "question": ids[:2], "reason": "release"}, follow=True)
    assert response.redirect_chain == [(f"/inbox/{ids[2]}/alike?tool=deploy", 302)]
    assert "deploy: 2 calls approved." in response.content.decode()
    response = mia.post(url, {"verdict": "reject", "question": ids[1:4], "reason": "no"}, follow=True)
    said = response.content.decode()
    assert f"2 calls rejected. 1 call: Already approved by {Decision.objects.earliest('id').actor}." in said
    # Two are left: each is a question of its own.
    assert response.redirect_chain == [(f"/inbox/{ids[4]}/?tool=deploy", 302)]
    assert "2 calls of deploy" in words(mia.get(f"/inbox/{ids[4]}/alike").content.decode())
    mia.post(url, {"verdict": "approve", "question": ids[4:5]})
    assert "1 call of deploy" in words(mia.get(f"/inbox/{ids[5]}/alike").content.decode())
    assert mia.post(url, {"verdict": "approve", "question": ids[5:]})["Location"] == "/inbox/?tool=deploy"
    assert [(d.verdict, d.reason) for d in Decision.objects.order_by("id")] == [
        ("approve", "release"), ("approve", "release"), ("reject", "no"), ("reject", "no"), ("approve", ""),
        ("approve", ""),
    ]  # fmt: skip


def test_it_says_who_was_faster_and_with_what(tenant: Any, sign_in: Login) -> None:
    questions = deploys(tenant, 4)
    ids = [question.pk for question in questions]
    ann, bea = make_person(Role.APPROVER, tenant), make_person(Role.APPROVER, tenant)
    sign_in(ann).post(f"/inbox/{ids[0]}/alike", {"verdict": "reject", "reason": "no", "question": ids[:2]})
    mia = sign_in(bea)
    said = mia.post(f"/inbox/{ids[0]}/alike", {"verdict": "approve", "question": ids}, follow=True).content.decode()
    assert f"deploy: 2 calls approved. 2 calls: Already rejected by {ann.username}." in said
    said = mia.post(f"/inbox/{ids[0]}/decide", {"verdict": "approve"}, follow=True).content.decode()
    assert f"Already rejected by {ann.username}." in said


def test_what_is_decided_by_itself_has_no_such_page(tenant: Any, sign_in: Login) -> None:
    critical = deploys(tenant, 3, risk="critical")
    mia = sign_in(make_person(Role.APPROVER, tenant))
    assert mia.get(f"/inbox/{critical[0].pk}/alike")["Location"] == f"/inbox/{critical[0].pk}/"
    response = mia.post(f"/inbox/{critical[0].pk}/alike", {"verdict": "approve", "question": [critical[0].pk]})
    assert response["Location"] == f"/inbox/{critical[0].pk}/"
    assert not Decision.objects.exists()
    for person, status in ((make_person(Role.APPROVER), 404), (make_person(Role.OPERATOR, tenant), 403)):
        outside = sign_in(person)
        for method in (outside.get, outside.post):
            assert method(f"/inbox/{critical[0].pk}/alike").status_code == status


def test_a_queue_keeps_its_filters_from_page_to_page(tenant: Any, sign_in: Login) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    first, second = deploys(tenant, 2)
    another = make_tool(first.task.tool.server, "x", asks={})
    other = Question.objects.get(task_id=make_task(make_context(tenant), another).id)
    mia = sign_in(make_person(Role.APPROVER, tenant))
    page = mia.get("/inbox/?tool=deploy&q=staging").content.decode()
    assert f"/inbox/{second.pk}/?q=staging&amp;tool=deploy" in page
    assert f"/inbox/{other.pk}/" not in page
    assert '<option value="deploy" selected>' in page
    response = mia.post(f"/inbox/{first.pk}/decide?q=staging&tool=deploy", {"verdict": "approve"})
    assert response["Location"] == f"/inbox/{second.pk}/?q=staging&tool=deploy"
    assert 'data-key="s"' not in mia.get(f"/inbox/{second.pk}/?tool=deploy").content.decode()
    assert f'href="/inbox/{second.pk}/next" data-key="s"' in mia.get(f"/inbox/{second.pk}/").content.decode()
    assert mia.get(f"/inbox/{second.pk}/next")["Location"] == f"/inbox/{other.pk}/"
    assert mia.get(f"/inbox/{other.pk}/next")["Location"] == f"/inbox/{second.pk}/"
    nothing = mia.get("/inbox/?tool=nothing&kind=nonsense&client=-1&after=%00").content.decode()
    assert "No matching questions." in nothing


def test_the_queue_goes_on_after_a_hundred(tenant: Any, sign_in: Login) -> None:
    server = make_server(tenant)
    made = []
    for n in range(101):
        tool = make_tool(server, f"tool-{n}")
        made.append(make_task(make_context(tenant), tool, state="input_required").id)
    last = Question.objects.get(task_id=made[-1]).pk
    hundredth = Question.objects.get(task_id=made[-2]).pk
    ada = sign_in(make_person(Role.ADMIN, tenant))
    page = ada.get("/inbox/").content.decode()
    assert f'id="question-{last}"' not in page
    assert f'href="/inbox/?after={hundredth}"' in page
    further = ada.get(f"/inbox/?after={hundredth}").content.decode()
    assert f'id="question-{last}"' in further
    assert "Beginning" in further
    assert "Nothing further." in ada.get(f"/inbox/?after={last}").content.decode()


def test_filters_and_order_stay_in_the_address_and_the_card_leads_to_its_conversation(
    tenant: Any, sign_in: Login
) -> None:
    mia, server, bot = sign_in(make_person("admin", tenant, groups=["ops"])), make_server(tenant), make_context(tenant)
    trace = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    made = []
    for name, risk in (("low", "low"), ("high", "high"), ("critical", "critical")):
        tool = make_tool(server, name, asks={"group": "ops", "risk": risk})
        made.append(make_task(bot, tool, trace=trace if name != "high" else {}))
    low, high, critical = (Question.objects.get(task_id=task.id).pk for task in made)
    kept = f"group=ops&age=1h&conversation={made[0].public_id}&sort=risk"
    page = mia.get(f"/inbox/?{kept}").content.decode()
    assert [at for at in (high, low, critical) if f'id="question-{at}"' in page] == [low, critical]
    assert page.index(f'id="question-{critical}"') < page.index(f'id="question-{low}"')
    assert f'href="/inbox/{critical}/?{kept.replace("&", "&amp;")}"' in page
    assert '<option value="risk" selected>' in page
    assert "One conversation" in page
    answer = mia.post(f"/inbox/{low}/decide?{kept}", {"verdict": "approve"})
    assert answer["Location"] == f"/inbox/{critical}/?{kept}"
    assert "of this conversation" not in mia.get(f"/inbox/{critical}/").content.decode()
    again = make_task(bot, make_tool(server, "more", asks={}), trace=trace)
    of_it = f"/inbox/?queue=all&amp;conversation={made[2].public_id}"
    assert f'<a href="{of_it}">1 other of' in " ".join(mia.get(f"/inbox/{critical}/").content.decode().split())
    assert "of this conversation" not in mia.get(f"/inbox/{high}/").content.decode()
    found = mia.get(of_it.replace("&amp;", "&")).content.decode()
    assert f'id="question-{Question.objects.get(task_id=again.id).pk}"' in found
    for nonsense in ("sort=x&age=x&conversation=%00&group=%00", "sort=newest&after=1", "conversation=x"):
        assert mia.get(f"/inbox/?{nonsense}").status_code == 200
