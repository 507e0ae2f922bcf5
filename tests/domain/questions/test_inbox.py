"""Whose a question is: the count beside the menu and the queue say the same, for every kind of person."""

from __future__ import annotations

from itertools import product

import pytest

from taskhub.core.records import Actor, Person
from taskhub.core.states import Audience, Door, QuestionKind
from taskhub.domain.questions.answer import decide_approval
from taskhub.domain.questions.inbox import mine_of, question, questions, votes, waiting
from tests.factories import make_context, make_person, make_question, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db


def test_a_question_is_mine_when_i_am_asked_and_may_decide_it() -> None:
    tenant = make_tenant()
    context, tool = make_context(tenant), make_tool(make_server(tenant))
    make_task(make_context(make_tenant()), state="input_required")
    asked, tasks = {}, {}
    kinds = (QuestionKind.ELICITATION, QuestionKind.APPROVAL)
    for kind, audience, group in product(kinds, Audience, ("", "ops")):
        new = make_question(kind, audience=audience, group=group)
        tasks[new.key] = make_task(context, tool, state="input_required", question=new).id
        asked[new.key] = (kind, audience, group)
    for role, groups in product(("operator", "approver", "admin"), ([], ["ops"], ["OPS", "db"])):
        person = make_person(role, tenant, groups=groups)
        mine = [
            key
            for key, (kind, audience, group) in asked.items()
            if audience is not Audience.CLIENT
            and (role != "operator" or kind is not QuestionKind.APPROVAL)
            and (not group or group in groups)
        ]
        assert [item.key for item in questions(person, "mine")] == mine
        assert waiting(person).mine == len(mine)
        by_task = {key: mine_of(person, task_id) for key, task_id in tasks.items()}
        assert [key for key, found in by_task.items() if found] == mine
        everything = questions(person, "all")
        assert [item.key for item in everything] == list(asked)
        assert [item.key for item in everything if item.mine] == mine
        assert questions(person, "decided") == ()


def test_who_has_decided_is_not_asked_again_while_others_are() -> None:
    tenant = make_tenant()
    tool = make_tool(make_server(tenant), asks={"quorum": 2})
    task = make_task(make_context(tenant), tool)
    first, second = (make_person("approver", tenant) for _ in range(2))
    (item,) = questions(first, "mine")
    assert (item.quorum, item.approvals, item.last_actor) == (2, 0, "")

    def approve(person: Person) -> None:
        actor = Actor(name=person.username, door=Door.WEB, user_id=person.user_id, reason="fine")
        decide_approval(task.id, item.question, approve=True, actor=actor)

    approve(first)
    assert questions(first, "mine") == ()
    assert waiting(first).mine == 0
    assert waiting(second).mine == 1
    (now,) = questions(first, "all")
    assert (now.mine, now.decided_by_me, now.approvals) == (False, True, 1)
    assert (now.last_actor, now.last_verdict) == (first.username, "approve")
    approve(second)
    assert waiting(second).mine == 0
    (done,) = questions(second, "decided")
    assert (done.id, done.approvals, done.last_actor) == (item.id, 2, second.username)
    assert [(vote.actor, vote.reason) for vote in votes(item.id)] == [
        (first.username, "fine"), (second.username, "fine"),
    ]  # fmt: skip


def test_a_question_of_another_tenant_does_not_exist() -> None:
    tenant = make_tenant()
    make_task(make_context(tenant), state="input_required")
    inside, outside = make_person("admin", tenant), make_person("admin")
    (item,) = questions(inside, "all")
    assert question(inside, item.id) == item
    assert question(outside, item.id) is None
    assert (questions(outside, "all"), waiting(outside).mine) == ((), 0)
