"""An approval that nobody decides in the time of its rule: denied, let run or asked of another group, on record as the
rule's doing and no person's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from taskhub.core.records import Actor, TaskRecord
from taskhub.core.rules import Otherwise, Rule, Then, Verdict
from taskhub.core.states import Door, State
from taskhub.domain.questions.answer import AnswerOutcome, decide_approval
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Decision, Event, Question, Tool
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import make_person
from tests.store.flushing import superuser

WITHIN = 30
SHELL = Actor(name="manage.py", door=Door.CLI)


def asked(world: World, **says: Any) -> TaskRecord:
    """A call that the rule in force asks about, which says this."""
    rule, tenant = Rule(name="Production", when="", then=Then.ASK, expires_minutes=WITHIN, **says), world.context.tenant
    saved = save_rules(tenant.pk, [rule], expected=present(tenant.pk).version, actor=SHELL)
    return kit.create(world, verdict=Verdict(Then.ASK, rule, saved.version))


def time_passes(task: TaskRecord, minutes: float = WITHIN + 0.1) -> None:
    """For the open question of the task, by which it is due."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE question SET due_at = due_at - make_interval(secs => %s) WHERE task_id = %s AND state = 'open'",
            [minutes * 60, task.id],
        )


def actor(world: World) -> Actor:
    person = make_person("approver", world.context.tenant, groups=["ops", "leads"])
    return Actor(name=person.username, door=Door.WEB, user_id=person.user_id)


def undecided(task: TaskRecord) -> Event:
    return Event.objects.get(task_id=task.id, action="question.undecided")


def test_people_have_the_time_of_the_rule(world: World) -> None:
    task = asked(world)
    question = Question.objects.get(task_id=task.id)
    assert question.due_at is not None
    assert round((question.due_at - question.opened_at).total_seconds()) == WITHIN * 60
    time_passes(task, WITHIN - 1)
    assert sweep() == 0
    assert decide_approval(task.id, kit.opened(task.id), approve=True, actor=actor(world)) is AnswerOutcome.ANSWERED


def test_denied_the_agent_reads_why_and_the_tool_does_not_run(world: World) -> None:
    task = asked(world)
    time_passes(task)
    assert sweep() == 1
    now = kit.look(task.id)
    assert (now.state, now.is_error, now.ended_as) == (State.FINISHED, True, "expired")
    assert now.message == "Nobody decided within 30 min, so the rule denied it"
    assert json.loads(now.result_json or "") == {
        "content": [
            {"type": "text", "text": f"{world.tool.exposed_name} was not approved: nobody decided within 30 min."}
        ],
        "isError": True,
    }
    assert kit.claim() == []
    assert Question.objects.get(task_id=task.id).state == "expired"
    decision = Decision.objects.get()
    assert (decision.actor, decision.door, decision.verdict) == ("rule Production", "policy", "deny")
    assert (decision.user_id, decision.context_id, decision.reason) == (None, None, now.message)
    event = undecided(task)
    assert (event.actor, event.door, event.user_id, event.reason) == ("rule Production", "policy", None, now.message)
    assert event.after is not None
    assert event.after["otherwise"] == "deny"
    assert (event.after["rule"], event.after["version"], len(event.after["arguments_sha256"])) == ("Production", 1, 64)
    digest = Question.objects.get(task_id=task.id).call_digest
    assert digest is not None
    assert (event.after["call_sha256"], decision.call_digest) == (bytes(digest).hex(), digest)
    assert kit.actions(task.id) == ["task.created", "question.asked", "question.undecided", "task.finished"]
    assert sweep() == 0


def test_allowed_it_runs_and_is_on_record_as_the_rules_doing(world: World) -> None:
    task = asked(world, otherwise=Otherwise.ALLOW)
    time_passes(task)
    assert sweep() == 1
    assert kit.look(task.id).state is State.QUEUED
    assert kit.wake_ups() == 1
    decision = Decision.objects.get()
    assert (decision.actor, decision.door, decision.verdict, decision.user_id) == (
        "rule Production",
        "policy",
        "allow",
        None,
    )
    assert kit.actions(task.id) == ["task.created", "question.asked", "question.undecided", "task.answered"]
    assert "question.approve" not in kit.actions(task.id)
    assert kit.claim_one().task_id == task.id


def test_what_was_allowed_is_asked_again_where_the_tool_has_changed(world: World) -> None:
    task = asked(world, otherwise=Otherwise.ALLOW)
    time_passes(task)
    sweep()
    Tool.objects.update(digest="1" * 64)
    assert kit.claim() == []
    again = Question.objects.get(task_id=task.id, state="open")
    assert again.key == "approval-2"
    assert again.due_at is not None
    assert round((again.due_at - again.opened_at).total_seconds()) == WITHIN * 60, "for the time of the rule"


def test_a_value_that_sql_cannot_hold_is_escalated_too(world: World) -> None:
    rule = Rule(
        name="Production",
        when="",
        then=Then.ASK,
        sentence="Say {args.text}",
        expires_minutes=WITHIN,
        otherwise=Otherwise.ESCALATE,
        escalate_to="leads",
    )
    save_rules(world.context.tenant_id, [rule], expected=0, actor=SHELL)
    task = kit.create(world, arguments={"text": "a\0b"}, verdict=Verdict(Then.ASK, rule, 1))
    time_passes(task)
    assert sweep() == 1
    assert kit.opened(task.id).group == "leads"


def test_escalated_another_group_is_asked_for_the_same_time_and_then_it_is_denied(world: World) -> None:
    task = asked(world, group="ops", quorum=2, otherwise=Otherwise.ESCALATE, escalate_to="leads")
    decide_approval(task.id, kit.opened(task.id), approve=True, actor=actor(world))
    time_passes(task)
    before = kit.look(task.id).version
    assert sweep() == 1
    now = kit.look(task.id)
    assert (now.state, now.message) == (State.INPUT_REQUIRED, "Waiting for approval by leads, 0 of 2")
    assert now.version > before
    first, second = Question.objects.filter(task_id=task.id).order_by("id")
    assert (first.state, second.key, second.group, second.quorum) == ("expired", "approval-2", "leads", 2)
    assert second.params["decided"] == {
        "rule": "Production",
        "version": 1,
        "doubt": False,
        "expires_minutes": WITHIN,
        "otherwise": "deny",
        "escalated_from": "ops",
    }
    assert second.due_at is not None
    assert round((second.due_at - second.opened_at).total_seconds()) == WITHIN * 60
    event = undecided(task)
    assert event.after is not None
    assert (event.after["otherwise"], event.after["group"], event.actor) == ("escalate", "leads", "rule Production")
    assert not Decision.objects.filter(verdict__in=["allow", "deny"]).exists()
    assert sweep() == 0
    time_passes(task)
    assert sweep() == 1
    assert kit.look(task.id).message == "Nobody decided within 30 min, so the rule denied it"


def test_the_second_group_may_approve(world: World) -> None:
    task = asked(world, otherwise=Otherwise.ESCALATE, escalate_to="leads")
    time_passes(task)
    sweep()
    assert decide_approval(task.id, kit.opened(task.id), approve=True, actor=actor(world)) is AnswerOutcome.ANSWERED
    assert kit.claim_one().task_id == task.id


def test_what_the_second_group_approved_stands_when_other_rules_have_changed(world: World) -> None:
    """The same rule asks, and it is that group whom it asked then."""
    rule = Rule(name="Production", when="", then=Then.ASK, otherwise=Otherwise.ESCALATE, escalate_to="leads")
    tenant = world.context.tenant_id
    save_rules(tenant, [rule], expected=0, actor=SHELL)
    tasks = [kit.create(world, verdict=Verdict(Then.ASK, rule, 1)) for _ in range(2)]
    for task in tasks:
        time_passes(task, 1_441)
    assert sweep() == 2
    for task in tasks:
        decide_approval(task.id, kit.opened(task.id), approve=True, actor=actor(world))
    save_rules(tenant, [rule, replace(rule, name="Other", when="tool.readOnly")], expected=1, actor=SHELL)
    assert kit.claim_one().task_id == tasks[0].id
    save_rules(tenant, [replace(rule, escalate_to="admins")], expected=2, actor=SHELL)
    assert kit.claim() == []
    assert kit.look(tasks[1].id).state is State.INPUT_REQUIRED


@pytest.mark.parametrize("otherwise", Otherwise)
@pytest.mark.parametrize("approve", [True, False])
def test_nobody_decides_after_the_time_even_if_no_sweep_has_come(
    world: World, otherwise: Otherwise, approve: bool
) -> None:
    task = asked(world, otherwise=otherwise, escalate_to="leads" if otherwise is Otherwise.ESCALATE else "")
    question = kit.opened(task.id)
    time_passes(task)
    assert decide_approval(task.id, question, approve=approve, actor=actor(world)) is AnswerOutcome.BARRED
    assert decide_approval(task.id, question, approve=approve, actor=SHELL) is AnswerOutcome.BARRED
    assert not Decision.objects.exists()


def test_a_question_that_says_nothing_of_it_fails_as_ever(world: World) -> None:
    task = asked(world)
    with superuser() as raw:
        raw.execute("SET session_replication_role = replica")
        raw.execute(
            "UPDATE question SET params = ((params::jsonb) #- '{decided,otherwise}')::json WHERE task_id = %s",
            [task.id],
        )
    time_passes(task)
    assert sweep() == 1
    now = kit.look(task.id)
    assert (now.state, now.message) == (State.FAULTED, "Nobody answered in time")


def test_one_sweep_at_a_time_decides(transactional_db: None) -> None:
    world = kit.make_world()
    crew = kit.Crew(4)
    try:
        for otherwise in Otherwise:
            escalates = otherwise is Otherwise.ESCALATE
            task = asked(world, otherwise=otherwise, escalate_to="leads" if escalates else "")
            time_passes(task)
            assert sum(crew.race(*[sweep] * 4)) == 1
            assert Event.objects.filter(task_id=task.id, action="question.undecided").count() == 1
            expected = {"deny": State.FINISHED, "allow": State.QUEUED, "escalate": State.INPUT_REQUIRED}[otherwise]
            assert kit.look(task.id).state is expected
    finally:
        crew.close()
