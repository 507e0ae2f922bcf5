"""In a hub with a history of every kind, what is done again and again looks at what it is about and at nothing else.

Counted are the rows that Postgres looks at, as in `test_long_history`; the history has questions, failures and many
clients, which that one has not.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskhub.identity.principals import default_tenant
from taskhub.lifecycle import run
from taskhub.lifecycle.seeding import seed_history
from taskhub.store.models import Question
from tests.factories import WORKER
from tests.store.touched import rows_looked_at

pytestmark = pytest.mark.django_db(transaction=True)

TASKS = 5_000


@pytest.fixture
def home() -> int:
    """The tenant of the history."""
    tenant = default_tenant().pk
    seed_history(tenant, TASKS, report=lambda done, events: None)
    return int(tenant)


def often(work: Callable[[], object]) -> Callable[[], object]:
    """`work`, after so many times that Postgres may plan its statements without their values."""
    for _ in range(6):
        work()
    return work


def test_a_claim_reads_the_questions_of_its_tasks_only(home: int) -> None:
    def claim() -> None:
        taken = run.claim_tasks(worker="w", limit=2, lease_seconds=60, per_context=1_000, actor=WORKER)
        assert len(taken.tasks) == 2
        for task in taken.tasks:
            run.release(task, started=False, delay_seconds=0, reason="", actor=WORKER)

    assert Question.objects.count() > 100
    assert rows_looked_at("question", often(claim)) <= 10
