"""The long hunt for a history that finds each fault of `mutants.py`; too long for every day.

    uv run pytest -n 0 tests/domain/tasks/hunt.py

Writes what it found, made as short as can be, to `histories.json`, which `test_mutants.py` replays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.domain.tasks.machine import VIOLATIONS, Step, TaskMachine, replay
from tests.domain.tasks.mutants import MUTANTS, installed

pytestmark = [pytest.mark.long, pytest.mark.django_db]

HISTORIES = Path(__file__).with_name("histories.json")
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


def test_the_same_histories_find_nothing_in_the_functions_as_they_are() -> None:
    run_state_machine_as_test(TaskMachine, settings=BOUNDED)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_history_finds_the_fault(name: str) -> None:
    last: list[Step] = []

    class Told(TaskMachine):
        def teardown(self) -> None:
            last[:] = self.steps
            super().teardown()

    with installed(name), pytest.raises(VIOLATIONS):
        run_state_machine_as_test(Told, settings=HUNT)
    found = shortened(name, list(last))
    known = json.loads(HISTORIES.read_text()) if HISTORIES.exists() else {}
    known[name] = found
    lines = [f"  {json.dumps(each)}: {json.dumps(known[each])}" for each in MUTANTS if each in known]
    HISTORIES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def shortened(name: str, steps: list[Step]) -> list[Step]:
    """The history without the steps it does not take; Hypothesis would seek a shorter one for minutes."""
    place = len(steps)
    while place:
        place -= 1
        fewer = steps[:place] + steps[place + 1 :]
        if tells_apart(name, fewer):
            steps = fewer
    assert tells_apart(name, steps)
    return steps


def tells_apart(name: str, steps: list[Step]) -> bool:
    """Whether the history finds the fault, and nothing in the functions as they are."""
    try:
        replay(steps)
    except Exception:  # noqa: BLE001 - a step made no sense without the one left out
        return False
    with installed(name):
        try:
            replay(steps)
        except VIOLATIONS:
            return True
    return False
