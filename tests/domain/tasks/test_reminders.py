"""A reminder of an approval that nobody has decided: once for each question, by whichever sweep comes first."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, connection

from taskhub.core.names import HINT_CHANNEL
from taskhub.core.records import Actor, TaskRecord
from taskhub.core.rules import Otherwise, Rule, Then, Verdict
from taskhub.core.states import Door, State
from taskhub.domain.questions.answer import decide_approval
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Event, Question
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import make_person
from tests.store import raw as sql
from tests.store.touched import rows_looked_at

WITHIN, REMIND = 30, 10
SHELL = Actor(name="manage.py", door=Door.CLI)


def asked(world: World, *, remind: int = REMIND, wanted_seconds: int | None = None, **says: Any) -> TaskRecord:
    """A call that the rule in force asks about, which reminds people."""
    rule = Rule(name="Production", when="", then=Then.ASK, expires_minutes=WITHIN, remind_minutes=remind, **says)
    tenant = world.context.tenant_id
    saved = save_rules(tenant, [rule], expected=present(tenant).version, actor=SHELL)
    return kit.create(world, verdict=Verdict(Then.ASK, rule, saved.version), wanted_seconds=wanted_seconds)


def time_passes(task: TaskRecord, minutes: float) -> None:
    """For the open question of the task."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE question SET due_at = due_at - make_interval(secs => %(gone)s),"
            " remind_at = remind_at - make_interval(secs => %(gone)s) WHERE task_id = %(task)s AND state = 'open'",
            {"gone": minutes * 60, "task": task.id},
        )


def opened(task: TaskRecord) -> Question:
    return Question.objects.get(task_id=task.id, state="open")


def reminders(task: TaskRecord) -> list[dict[str, Any] | None]:
    return [event.after for event in Event.objects.filter(task_id=task.id, action="question.reminded").order_by("id")]


def approver(world: World) -> Actor:
    person = make_person("approver", world.context.tenant, groups=["ops", "leads"])
    return Actor(name=person.username, door=Door.WEB, user_id=person.user_id)


def test_people_are_reminded_once_of_what_they_have_not_decided(world: World) -> None:
    task = asked(world, group="ops", quorum=2)
    question = opened(task)
    assert question.remind_at is not None
    assert round((question.remind_at - question.opened_at) / timedelta(minutes=1), 2) == REMIND
    assert question.params["decided"]["remind_minutes"] == REMIND
    decide_approval(task.id, kit.opened(task.id), approve=True, actor=approver(world))
    time_passes(task, REMIND - 1)
    assert sweep() == 0
    before = kit.look(task.id)
    time_passes(task, 1.1)
    assert sweep() == 1
    assert sweep() == 0
    (event,) = Event.objects.filter(action="question.reminded")
    assert (event.actor, event.door, event.user_id) == ("rule Production", "policy", None)
    assert event.target == world.tool.exposed_name
    assert reminders(task) == [
        {
            "key": "approval",
            "kind": "approval",
            "rule": "Production",
            "version": 1,
            "group": "ops",
            "needed": 1,
        }
    ]
    assert opened(task).reminded_at is not None
    now = kit.look(task.id)
    assert (now.state, now.message, now.version) == (State.INPUT_REQUIRED, before.message, before.version)
    decide_approval(task.id, kit.opened(task.id), approve=True, actor=approver(world))
    assert kit.claim_one().task_id == task.id


def test_where_no_group_is_named_the_event_names_none(world: World) -> None:
    task = asked(world)
    time_passes(task, REMIND + 1)
    sweep()
    (after,) = reminders(task)
    assert after is not None
    assert "group" not in after
    assert after["needed"] == 1


def test_nobody_is_reminded_of_what_is_decided_over_or_has_no_reminder(world: World) -> None:
    decided, ended, over, without = asked(world), asked(world), asked(world), asked(world, remind=0)
    decide_approval(decided.id, kit.opened(decided.id), approve=True, actor=approver(world))
    request_cancel(ended.id, actor=SHELL)
    assert opened(without).remind_at is None
    for task in (over, without):
        time_passes(task, WITHIN + 1)
    assert sweep() == 2, "the two whose time is over are denied"
    for task in (decided, ended, over, without):
        assert reminders(task) == []


def test_the_next_group_has_its_own_time_and_reminder(world: World) -> None:
    task = asked(world, group="ops", otherwise=Otherwise.ESCALATE, escalate_to="leads")
    time_passes(task, REMIND + 1)
    assert sweep() == 1
    time_passes(task, WITHIN)
    assert sweep() == 1
    second = opened(task)
    assert (second.group, second.reminded_at) == ("leads", None)
    assert second.remind_at is not None
    assert round((second.remind_at - second.opened_at) / timedelta(minutes=1), 2) == REMIND
    time_passes(task, REMIND + 1)
    assert sweep() == 1
    assert sweep() == 0
    assert [(after or {})["group"] for after in reminders(task)] == ["ops", "leads"]


@pytest.mark.parametrize(("wanted", "reminds"), [(REMIND * 60 + 60, True), (REMIND * 60 - 60, False)])
def test_who_wants_a_decision_sooner_is_waited_for_with_a_reminder_in_that_time(
    world: World, wanted: int, reminds: bool
) -> None:
    task = asked(world, wanted_seconds=wanted)
    assert (opened(task).remind_at is not None) is reminds


def test_a_reminder_is_taken_back_by_nobody(world: World) -> None:
    task = asked(world)
    time_passes(task, REMIND + 1)
    sweep()
    with pytest.raises(DatabaseError, match="stays as it is"):
        Question.objects.filter(task_id=task.id).update(reminded_at=None)


def test_two_sweeps_at_once_remind_once_and_pages_hear_of_it(transactional_db: None) -> None:
    world = kit.make_world()
    crew = kit.Crew(2)
    try:
        for _ in range(5):
            task = asked(world, quorum=2)
            time_passes(task, REMIND + 1)
            with sql.connect(autocommit=True) as ear:
                ear.execute(f"LISTEN {HINT_CHANNEL}")
                assert sum(crew.race(sweep, sweep)) == 1
                heard = [part for note in ear.notifies(timeout=kit.BOUND, stop_after=1) for part in _hints(note)]
            hint = f"t {world.context.tenant_id} {world.context.pk} {task.id} {task.public_id}"
            assert heard == [hint]
            assert len(reminders(task)) == 1
    finally:
        crew.close()


def _hints(note: Any) -> list[str]:
    return list(note.payload.split(";"))


def test_a_decision_and_a_sweep_at_once_are_both_whole(transactional_db: None) -> None:
    """Whichever is first: a call that is approved runs, and is reminded of once or not at all."""
    world = kit.make_world()
    crew = kit.Crew(2)
    try:
        for _ in range(5):
            task, actor = asked(world), approver(world)
            time_passes(task, REMIND + 1)
            question = kit.opened(task.id)
            crew.race(sweep, partial(decide_approval, task.id, question, approve=True, actor=actor))
            assert kit.look(task.id).state is State.QUEUED
            assert len(reminders(task)) <= 1
    finally:
        crew.close()


WAITING = 3_000


def test_what_is_not_due_yet_costs_a_sweep_nothing(world: World) -> None:
    task = asked(world)
    time_passes(task, REMIND + 1)
    due = "clock_timestamp() + make_interval(hours => n)"
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO question (task_id, tenant_id, key, kind, params, audience, due_at, remind_at)"
            f" SELECT task_id, tenant_id, 'n' || n, kind, params, audience, {due} + interval '1 h', {due}"
            f" FROM question, generate_series(1, {WAITING}) n WHERE task_id = %s",
            [task.id],
        )
        cursor.execute("ANALYZE question")

        def remind() -> None:
            cursor.execute("SELECT th_remind(clock_timestamp(), 500)")
            assert cursor.fetchone() is not None

        for _ in range(6):
            remind()
        assert len(reminders(task)) == 1
        assert rows_looked_at("question", remind) <= 2
