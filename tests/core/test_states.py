"""The state machine as a table."""

from __future__ import annotations

import re
from pathlib import Path

from taskhub.core.states import (
    PAIRS,
    TERMINAL,
    TRANSITIONS,
    Audience,
    QuestionKind,
    QuestionState,
    Role,
    State,
    TaskMode,
)
from taskhub.store.models import Membership, Question, Task, Tool
from taskhub.store.models.tasks import STATES
from taskhub.store.models.tasks import TERMINAL as STORED_TERMINAL

AUDIT = Path(__file__).resolve().parents[2] / "taskhub" / "domain" / "audit" / "functions.sql"


def allowed(model: type, constraint: str) -> set[str]:
    """The words a CHECK of the model lists."""
    (check,) = [one for one in model._meta.constraints if one.name == constraint]  # type: ignore[attr-defined]
    return set(re.findall(r"'([a-z_]+)'", str(check.condition).split("__in", 1)[1]))


def test_nothing_leaves_a_terminal_state() -> None:
    assert not [pair for pair in PAIRS if pair[0] in TERMINAL]


def test_every_state_can_be_reached_and_every_live_one_left() -> None:
    assert {after for _, after in PAIRS} == set(State)
    assert {before for before, _ in PAIRS} == set(State) - TERMINAL


def test_no_transition_stays_where_it_is() -> None:
    assert not [pair for pair in PAIRS if pair[0] is pair[1]]


def test_a_pair_has_one_name_but_for_a_tool_that_comes_back_from_its_question() -> None:
    named: dict[tuple[State, State], list[str]] = {}
    for name, pairs in TRANSITIONS.items():
        for pair in pairs:
            named.setdefault(pair, []).append(name)
    double = {pair: sorted(names) for pair, names in named.items() if len(names) > 1}
    assert double == {(State.INPUT_REQUIRED, State.QUEUED): ["task.answered", "task.released"]}


def test_every_name_of_a_transition_is_one_the_trigger_writes() -> None:
    source = AUDIT.read_text()
    written = set(re.findall(r"'(task\.[a-z]+)'", source)) | {f"task.{state}" for state in TERMINAL}
    assert set(TRANSITIONS) <= written


def test_the_words_of_the_tables_are_the_words_of_the_core() -> None:
    assert set(STATES) == {str(state) for state in State}
    assert set(STORED_TERMINAL) == {str(state) for state in TERMINAL}
    assert allowed(Task, "task_state_known") == {str(state) for state in State}
    assert allowed(Question, "question_kind_known") == {str(kind) for kind in QuestionKind}
    assert allowed(Question, "question_audience_known") == {str(audience) for audience in Audience}
    assert allowed(Question, "question_state_known") == {str(state) for state in QuestionState}
    assert allowed(Membership, "membership_role_known") == {str(role) for role in Role}
    assert allowed(Tool, "tool_mode_known") == {str(mode) for mode in TaskMode}
    assert allowed(Tool, "tool_hint_known") == {str(mode) for mode in TaskMode}
