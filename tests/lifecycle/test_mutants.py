"""Proof that the machine can fail: each seeded fault must be found, by a wrong outcome or because the
guards in the database refuse what the faulty function does."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from django.db import connection
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.lifecycle.machine import VIOLATIONS, TaskMachine

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Mutant:
    """A function and what is cut out of it (regular expression: replacement)."""

    function: str
    cut: str
    put: str = ""


BOUNDED = settings(
    max_examples=80,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
# Found after a few histories as a rule; how many it takes changes with every change of the sources.
HUNT = settings(BOUNDED, max_examples=600)

LATE = Mutant(
    "finish_tasks_v1",
    r"WHERE t\.lease_epoch = g\.epoch AND th_held\(t\.lease_until\) ORDER",
    "WHERE t.lease_epoch = g.epoch ORDER",
)
NO_TERMINAL_GUARD = Mutant("task_guard", r"IF OLD\.ended_at IS NOT NULL AND", "IF false AND")

MUTANTS: dict[str, list[Mutant]] = {
    "a zombie may finish": [
        Mutant("finish_tasks_v1", r"WHERE t\.lease_epoch = g\.epoch AND th_held\(t\.lease_until\) ORDER", "ORDER"),
    ],
    "a zombie may fault": [Mutant("fault_v1", r"AND lease_epoch = p_epoch AND", "AND")],
    "a zombie may release": [Mutant("release_v1", r"AND lease_epoch = p_epoch AND", "AND")],
    "a closed question takes answers": [
        Mutant("answer_v2", r"IF asked\.state <> 'open' THEN\s+RETURN 'late';\s+END IF;")
    ],
    "ended tasks are not guarded": [NO_TERMINAL_GUARD],
    "a key is everybody's": [
        Mutant("create_tasks_v3", r"t\.context_id = i\.context AND t\.idempotency_key", "t.idempotency_key"),
    ],
    "a key hides other arguments": [Mutant("create_tasks_v3", r"t\.arguments_digest <> decode\(i\.digest, 'hex'\) OR")],
    "a result after the cancellation": [LATE],
    "a result after the cancellation, and no guard": [LATE, NO_TERMINAL_GUARD],
    "a cancellation of ended tasks": [Mutant("request_cancel_v1", r"held\.ended_at IS NOT NULL OR")],
    "a cancellation leaves its questions open": [
        Mutant("request_cancel_v1", r"UPDATE question.*?state = 'open';", ""),
    ],
    "a claim keeps its epoch": [Mutant("claim_tasks_v4", r"lease_epoch = lease_epoch \+ 1, ")],
    "a released task that was to be cancelled waits for ever": [
        Mutant("release_v1", r"IF held\.cancel_requested_at IS NOT NULL THEN", "IF false THEN"),
    ],
    "every lost task runs again": [
        Mutant("sweep_v1", r"t\.at_least_once AND t\.crashes \+ 1 < t\.max_attempts", "true")
    ],
    "asking does not change the state": [Mutant("ask_v2", r"SET state = 'input_required', message", "SET message")],
    "an answer leaves the task waiting": [Mutant("answer_v2", r"IF left_open = 0 THEN", "IF false THEN")],
    "the version may stand still": [
        Mutant("task_guard", r"NEW\.version := OLD\.version \+ 1;", "NEW.version := OLD.version;"),
    ],
    "changes leave no event": [Mutant("task_record", r"WHERE verb IS NOT NULL", "WHERE false")],
    "an epoch may jump": [Mutant("task_guard", r"IF NEW\.lease_epoch < OLD\.lease_epoch OR", "IF false AND")],
}


def definition(function: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_functiondef(%s::regproc)", [function])
        return str(cursor.fetchone()[0])


def install(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text)


@pytest.mark.django_db
def test_the_same_histories_find_nothing_in_the_functions_as_they_are() -> None:
    """Or a machine that always fails would pass for a good one."""
    run_state_machine_as_test(TaskMachine, settings=BOUNDED)


@pytest.mark.django_db
@pytest.mark.parametrize("name", MUTANTS)
def test_the_machine_finds_the_fault(name: str) -> None:
    whole = {mutant.function: definition(mutant.function) for mutant in MUTANTS[name]}
    try:
        for mutant in MUTANTS[name]:
            text, cuts = re.subn(
                mutant.cut, lambda _, put=mutant.put: put, definition(mutant.function), count=1, flags=re.S
            )
            assert cuts == 1, "the function has changed; so must the mutant"
            install(text)
        with pytest.raises(VIOLATIONS):
            run_state_machine_as_test(TaskMachine, settings=HUNT)
    finally:
        for text in whole.values():
            install(text)
    assert {function: definition(function) for function in whole} == whole
