"""Edits at the same moment as another decision: one wins, and the other is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from taskhub.control import questions
from taskhub.core.rules import Rule, Then
from taskhub.domain.questions.answer import AnswerOutcome, EditOutcome
from tests.domain import kit
from tests.domain.tasks.test_edits import OTHER, SENT, by, called, item, person

pytestmark = pytest.mark.django_db(transaction=True)


def together(*work: Callable[[], Any]) -> list[Any]:
    """What each returned, each on a connection of its own, begun at the same moment."""
    gate = threading.Barrier(len(work))
    found: list[Any] = [None] * len(work)

    def run(n: int) -> None:
        try:
            connection.ensure_connection()
            gate.wait(kit.BOUND)
            found[n] = work[n]()
        except Exception as error:  # noqa: BLE001 - an outcome like any other
            found[n] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(kit.BOUND)
    return found


def test_of_an_edit_and_an_approval_one_wins_and_the_other_is_told() -> None:
    for _ in range(10):
        world, task = called()
        ann, ben = person(world), person(world)
        of_ann, of_ben = item(ann, task), item(ben, task)
        mark = questions.check_edit(by(ann), of_ann, OTHER).mark
        edit_, approve = together(
            lambda one=of_ann, who=ann, seen=mark: questions.edit_call(by(who), one, OTHER, mark=seen),
            lambda one=of_ben, who=ben: questions.decide_approval(by(who), one, approve=True),
        )
        assert {edit_, approve} in (
            {EditOutcome.ANSWERED, AnswerOutcome.LATE},
            {EditOutcome.LATE, AnswerOutcome.ANSWERED},
        )
        claim = kit.claim_one()
        assert claim.arguments == (OTHER if edit_ is EditOutcome.ANSWERED else SENT)
        kit.finish(claim)


def test_of_two_edits_one_wins_and_nothing_is_mixed() -> None:
    star = Rule(name="asks", when="", then=Then.ASK, editable=("*",))
    one, another = {"text": "one", "note": "one"}, {"text": "two"}
    for _ in range(10):
        world, task = called(star)
        ann, ben = person(world), person(world)
        asked = item(ann, task), item(ben, task)
        marks = [
            questions.check_edit(by(who), of, arguments).mark
            for who, of, arguments in ((ann, asked[0], one), (ben, asked[1], another))
        ]
        first, second = together(
            lambda of=asked[0], who=ann, mark=marks[0]: questions.edit_call(by(who), of, one, mark=mark),
            lambda of=asked[1], who=ben, mark=marks[1]: questions.edit_call(by(who), of, another, mark=mark),
        )
        assert {first, second} == {EditOutcome.ANSWERED, EditOutcome.LATE}
        claim = kit.claim_one()
        assert claim.arguments == (one if first is EditOutcome.ANSWERED else another)
        kit.finish(claim)
