"""A deputy, whom they stand in for, and the return of that person, at the same moment."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from django.db import connection, transaction

from taskhub.control import absences
from taskhub.core.errors import Forbidden
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.store.models import Decision
from tests.domain import kit
from tests.domain.questions.test_deputies import RULE, TWO, Team, by, decide, insert, item, refused, team
from tests.domain.tasks.test_edit_races import together

__all__ = ["team"]

pytestmark = pytest.mark.django_db(transaction=True)


def test_of_a_vote_of_ones_own_and_of_the_deputy_one_counts(team: Team) -> None:
    three = replace(RULE, quorum=3)
    for _ in range(10):
        task = team.call(three)
        of_paul, of_dora = item(team.paul, task), item(team.dora, task)
        outcomes = together(
            lambda one=of_paul: decide(team.paul, of=one),
            lambda one=of_dora: decide(team.dora, of=one),
        )
        paul, dora = outcomes
        assert paul in (AnswerOutcome.COUNTED, AnswerOutcome.TWICE), outcomes
        assert (dora is AnswerOutcome.COUNTED) is (paul is AnswerOutcome.TWICE), outcomes
        assert dora is AnswerOutcome.COUNTED or isinstance(dora, Forbidden), outcomes
        assert Decision.objects.filter(question__task_id=task.id).count() == 1


def test_two_rows_at_the_same_moment_are_one_vote_without_a_lock_on_the_task(team: Team) -> None:
    for _ in range(10):
        task = team.call(TWO)
        found = together(
            lambda one=task: refused(lambda: insert(one, team.paul, None)),
            lambda one=task: refused(lambda: insert(one, team.dora, team.paul)),
        )
        assert sorted(found, key=str) == [None, "TH019"] or sorted(found, key=str) == ["TH019", None], found
        assert Decision.objects.filter(question__task_id=task.id).count() == 1


def waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return bool(cursor.fetchone()[0])


def test_who_comes_back_first_is_decided_for_no_more(team: Team) -> None:
    task = team.call()
    seen = item(team.dora, task)

    def back() -> None:
        with transaction.atomic():
            absences.come_back(by(team.paul))
            held.set()
            kit.wait_until(waits)

    held = threading.Event()

    def deputy() -> AnswerOutcome:
        assert held.wait(kit.BOUND)
        return decide(team.dora, task, of=seen)

    _, outcome = together(back, deputy)
    assert isinstance(outcome, Forbidden), outcome
    assert not Decision.objects.exists()


def test_who_comes_back_waits_for_a_decision_under_way_which_stands(team: Team) -> None:
    task = team.call()
    seen = item(team.dora, task)
    held = threading.Event()

    def deputy() -> AnswerOutcome:
        with transaction.atomic():
            outcome = decide(team.dora, task, of=seen)
            held.set()
            kit.wait_until(waits)
        return outcome

    def back() -> None:
        assert held.wait(kit.BOUND)
        absences.come_back(by(team.paul))

    outcome, ended = together(deputy, back)
    assert (outcome, ended) == (AnswerOutcome.ANSWERED, None)
    assert kit.claim_one().task_id == task.id
