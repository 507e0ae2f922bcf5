"""Random histories against the model; see `machine.py`, and `test_mutants.py` for proof it can fail."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.domain.tasks.machine import TaskMachine

pytestmark = pytest.mark.long


@pytest.mark.django_db
def test_no_history_leaves_the_model() -> None:
    run_state_machine_as_test(
        TaskMachine,
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
