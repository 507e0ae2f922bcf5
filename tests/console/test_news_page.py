"""The bell: what reaches whom, what counts as read, and what it costs."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.records import Actor, Person
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Door, QuestionKind, Role
from taskhub.domain.questions import news
from taskhub.domain.questions.answer import answer_question
from taskhub.domain.tasks.sweep import sweep
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import AuthContext, NewsRead, Question, Tenant
from tests.console.admin import words
from tests.console.conftest import Login
from tests.domain import kit
from tests.factories import make_context, make_person, make_question, make_server, make_task, make_tenant, make_tool
from tests.store.flushing import _flush_past_the_guards

__all__ = ["_flush_past_the_guards"]
pytestmark = pytest.mark.django_db(transaction=True)
FRAME_QUERIES = 3
"""Who is asking: the session, the account, the role."""
OTHERS = {"hx-request": "true", "hx-trigger": "news-now"}


def asked(tenant: Tenant, client: str = "ci-bot", **says: Any) -> Question:
    """An approval that waits, as a rule asked for it."""
    heartbeat("worker-1", slots=8, busy=0)
    rule = Rule(name="deploys", when="", then=Then.ASK, **says)
    context = AuthContext.objects.filter(tenant=tenant, name=client).first() or make_context(tenant, client)
    task = make_task(
        context, make_tool(make_server(tenant)), arguments={"service": "web"}, verdict=Verdict(Then.ASK, rule, 1)
    )
    return Question.objects.get(task_id=task.id)


def told(browser: Client) -> list[str]:
    """What happened, of each row, the newest first; what is new has a star."""
    page = browser.get("/news/").content.decode()
    rows = re.findall(r"<li (class=\"unread\")?.*?<span class=\"soft small\">(.*?)</span>", page, re.DOTALL)
    return [f"{'*' if unread else ''}{words(text).partition(' ·')[0]}" for unread, text in rows]


def read(browser: Client) -> None:
    """Mark as read what the page shows."""
    found = re.search(r'name="until"\s+value="([\w-]+)"', browser.get("/news/").content.decode())
    assert found, "nothing to mark as read"
    assert browser.post("/news/read", {"until": found[1]}).url == "/news/"


def count(browser: Client) -> str:
    """The number on the bell."""
    page = browser.get("/news/count", headers=OTHERS).content.decode()
    found = re.search(r'<span hx-swap-oob="innerHTML:.bell-count">(.*?)</span>\s*<span data-newest', page, re.DOTALL)
    assert found, page
    return words(found[1])


def later(*, minutes: int) -> None:
    """Let the time of what is asked go by, and what follows from that happen."""
    with connection.cursor() as cursor:
        gone = timedelta(minutes=minutes)
        cursor.execute(
            "UPDATE question SET due_at = due_at - %s, remind_at = remind_at - %s WHERE closed_at IS NULL", [gone, gone]
        )
    sweep()


def test_it_reaches_whoever_may_decide_and_nobody_else(tenant: Tenant, sign_in: Login) -> None:
    people = {
        "ops": make_person(Role.APPROVER, tenant, groups=["ops"]),
        "dev": make_person(Role.APPROVER, tenant, groups=["dev"]),
        "operator": make_person(Role.OPERATOR, tenant),
        "elsewhere": make_person(Role.APPROVER, make_tenant(), groups=["ops"]),
    }
    question = asked(tenant, group="ops", sentence="Deploy {{ args.service }}")
    seen = {name: told(sign_in(person)) for name, person in people.items()}
    assert seen == {"ops": ["*waits for you"], "dev": [], "operator": [], "elsewhere": []}
    ann = sign_in(people["ops"])
    page = ann.get("/news/").content.decode()
    assert f'href="/inbox/{question.pk}/"' in page
    assert "Deploy" in page
    for role in (Role.VIEWER, Role.AUDITOR):  # nothing can wait for them
        other = sign_in(make_person(role, tenant))
        assert "data-bell" not in other.get("/").content.decode(), role
        assert [other.get(url).status_code for url in ("/news/", "/news/count")] == [403, 403], role
    form = make_task(
        make_context(tenant),
        make_tool(make_server(tenant)),
        state="input_required",
        question=make_question(QuestionKind.ELICITATION),
    )
    assert len(told(sign_in(people["operator"]))) == 1, form.public_id
    ann.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"})
    assert told(ann) == ["*waits for you"]  # the form; what was decided is no news


def test_what_is_marked_is_what_was_shown(tenant: Tenant, sign_in: Login) -> None:
    ann, bea = sign_in(make_person(Role.APPROVER, tenant)), sign_in(make_person(Role.APPROVER, tenant))
    assert count(ann) == ""
    asked(tenant)
    token = re.search(r'name="until"\s+value="([\w-]+)"', ann.get("/news/").content.decode())
    assert token
    asked(tenant)  # after the page was shown
    assert count(ann) == "2 new"
    partial = ann.post("/news/read", {"until": token[1]}, headers={"hx-request": "true", "hx-target": "news-list"})
    assert partial.content.decode().lstrip().startswith('<section id="news-list"')
    assert (told(ann), count(ann)) == (["*waits for you", "waits for you"], "1 new")
    read(ann)
    assert (told(ann), count(ann), count(bea)) == (["waits for you"] * 2, "", "2 new")
    ann.post("/news/read", {"until": token[1]})  # an older list brings nothing back
    assert count(ann) == ""
    for wrong in ("", "x", token[1]):
        assert bea.post("/news/read", {"until": wrong}).status_code == 400, wrong
    assert NewsRead.objects.count() == 1


def test_what_was_not_committed_when_it_was_marked_is_still_new(tenant: Tenant, sign_in: Login) -> None:
    """Its event may have a lower id than what was shown."""
    ann, bea = sign_in(make_person(Role.APPROVER, tenant)), make_person(Role.APPROVER, tenant)
    slow, quick = asked(tenant), asked(tenant)
    read(ann)
    parameters = connection.get_connection_params()
    given = {key: parameters[key] for key in ("host", "port", "user", "password", "dbname") if parameters.get(key)}
    remark = "SELECT remark(%s, %s, false, NULL, '', %s, 100, '{}')"
    with psycopg.connect(**given) as late:
        late.execute(remark, [slow.pk, "late", bea.user_id])
        with connection.cursor() as cursor:
            cursor.execute(remark, [quick.pk, "soon", bea.user_id])
        assert count(ann) == "1 new"
        read(ann)
        assert count(ann) == ""
        late.commit()
    assert count(ann) == "1 new"
    read(ann)
    assert count(ann) == ""


def test_reminded_escalated_handed_over_commented_and_undone(tenant: Tenant, sign_in: Login, settings: Any) -> None:
    settings.TASKHUB_UNDO_SECONDS = 60
    people = [make_person(Role.APPROVER, tenant, groups=groups) for groups in (["ops"], ["ops"], ["leads"])]
    ann, ben, lea = map(sign_in, people)
    first = asked(tenant, group="ops", remind_minutes=10, expires_minutes=30, otherwise="escalate", escalate_to="leads")
    read(ann)
    later(minutes=15)
    assert told(ann) == ["*a reminder: nobody has decided"]
    ben.post(f"/inbox/{first.pk}/hand-over", {"to": f"person:{people[0].username}"})
    assert told(ann) == [f"*handed over to you by {people[1].username}"]
    assert told(ben) == []
    later(minutes=30)
    assert (told(ann), told(lea)) == ([], ["*nobody decided in time: your group is asked"])
    second = asked(tenant, group="ops", quorum=2)
    read(ann)
    ann.post(f"/inbox/{second.pk}/decide", {"verdict": "approve"})
    assert told(ann) == []
    ben.post(f"/inbox/{second.pk}/comment", {"text": "why now?"})
    assert told(ann) == [f"*comment by {people[1].username}"]  # they took part
    assert told(ben) == ["*waits for you"]  # their own comment is no news to them
    ben.post(f"/inbox/{second.pk}/decide", {"verdict": "approve"})
    ben.post("/inbox/undo", {"questions": str(second.pk)})
    assert told(ann) == [f"*a decision was undone by {people[1].username}"]


def test_who_asked_back_hears_of_the_reply(tenant: Tenant, sign_in: Login) -> None:
    people = [make_person(Role.APPROVER, tenant) for _ in range(2)]
    ann, ben = map(sign_in, people)
    for response in ({"action": "accept", "content": {"answer": "because"}}, {"action": "decline"}):
        question = asked(tenant, "agent", quorum=2)
        about = Question.objects.create(
            task_id=question.task_id,
            tenant=tenant,
            key="asked-back-1",
            kind="elicitation",
            params={"message": "why now?", "requestedSchema": {"type": "object", "properties": {}}},
            audience="client",
            about=question,
            asked_by_id=people[0].user_id,
        )
        assert told(ann)[0] == "*waits for you"
        answer_question(
            question.task_id,
            kit.opened(question.task_id, about.key),
            response,
            actor=Actor(name="agent", door=Door.CLIENT, context_id=question.task.context_id),
        )
        assert told(ann)[0] == "*a reply to what you asked, by agent"
        assert f'href="/inbox/{question.pk}/"' in ann.get("/news/").content.decode()
        assert count(ann) == "1 new"
        assert told(ben)[0] == "*waits for you"  # they did not ask
        ann.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"})
        assert told(ann) == ["*a reply to what you asked, by agent"]  # it is open still
        ben.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"})
        assert (told(ann), told(ben)) == ([], [])


def test_administrators_hear_what_too_few_can_decide(tenant: Tenant, sign_in: Login) -> None:
    boss = make_person(Role.ADMIN, tenant)
    ann = make_person(Role.APPROVER, tenant, groups=["dev"])
    asked(tenant, group="nobody")
    asked(tenant, quorum=3)
    asked(tenant, quorum=2)
    asked(tenant)
    stuck = "*too few people can decide this"
    assert told(sign_in(boss)) == ["*waits for you", "*waits for you", stuck, stuck]
    assert told(sign_in(ann)) == ["*waits for you"] * 3
    make_person(Role.APPROVER, tenant, groups=["nobody"])
    with connection.cursor() as cursor:  # they were here before the calls
        cursor.execute("UPDATE membership SET granted_at = now() - interval '1 hour'")
    assert told(sign_in(boss)) == ["*waits for you"] * 3


def test_a_person_without_a_part_in_it_hears_no_comment(tenant: Tenant, sign_in: Login) -> None:
    ann, ben, cy = (make_person(Role.APPROVER, tenant, groups=[group]) for group in ("ops", "ops", "dev"))
    question = asked(tenant, group="ops")
    sign_in(ben).post(f"/inbox/{question.pk}/comment", {"text": "why now?"})
    assert told(sign_in(ann)) == [f"*comment by {ben.username}"]  # it waits for them
    assert told(sign_in(cy)) == []
    # Of whoever made the call, where the rule wants somebody else.
    mine = AuthContext.objects.create(
        tenant=tenant, issuer=OAUTH_ISSUER, subject=f"user:{ann.user_id}", client_id="ide", name="ide"
    )
    asked(tenant, mine.name, not_requester=True, group="ops")
    assert told(sign_in(ann)) == [f"*comment by {ben.username}"]


def test_more_than_are_shown_is_said_and_the_rest_is_in_the_inbox(
    tenant: Tenant, sign_in: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = sign_in(make_person(Role.APPROVER, tenant))
    tool = make_tool(make_server(tenant), asks={})
    for _ in range(news.SHOWN + 1):
        make_task(make_context(tenant), tool)
    assert count(ann) == f"{news.SHOWN}+ new"
    page = words(ann.get("/news/").content.decode())
    assert f"{news.SHOWN} or more new" in page
    assert f"These are the newest {news.SHOWN}." in page
    assert len(told(ann)) == news.SHOWN
    read(ann)
    assert count(ann) == ""
    monkeypatch.setattr("taskhub.domain.questions.news.LOOKED_AT", 3)
    assert len(told(ann)) == 3


def test_a_page_reads_no_news_and_a_bell_reads_them_at_once(
    tenant: Tenant, sign_in: Login, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ann = sign_in(make_person(Role.APPROVER, tenant))
    for _ in range(5):
        asked(tenant)
    with django_assert_num_queries(FRAME_QUERIES + 1):
        assert count(ann) == "5 new"
    with django_assert_num_queries(FRAME_QUERIES + 1):
        ann.get("/news/", headers={"hx-request": "true", "hx-target": "news-list"})
    page = ann.get("/").content.decode()
    assert page.count("data-bell") == 2  # of the wide and the narrow page
    assert 'hx-get="/news/count"' in page


def test_whose_password_is_due_has_no_bell(tenant: Tenant, sign_in: Login) -> None:
    ann: Person = make_person(Role.APPROVER, tenant)
    browser = sign_in(ann)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE membership SET password_due = true WHERE user_id = %s", [ann.user_id])
    browser = sign_in(ann)
    assert "data-bell" not in browser.get("/accounts/password/change/", follow=True).content.decode()
