"""What a worker does with an outcome that the database refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from taskhub.core.states import State
from taskhub.worker import running
from tests.store.flushing import superuser
from tests.worker.kit import Hall, attempts, call, ended, wait_until


@contextmanager
def refusing_results() -> Iterator[None]:
    """Until the block ends, the database raises an error for every task that finishes."""
    with superuser(autocommit=True) as raw:
        raw.execute(
            "CREATE FUNCTION refuse_result() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'not today'; END $$;"
            " CREATE TRIGGER refuse_result BEFORE UPDATE ON task FOR EACH ROW WHEN (NEW.state = 'finished')"
            " EXECUTE FUNCTION refuse_result()"
        )
        try:
            yield
        finally:
            raw.execute("DROP TRIGGER refuse_result ON task; DROP FUNCTION refuse_result()")


def test_a_result_that_the_database_refuses_for_a_moment_is_stored_after_it(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    echo = hall.tool(hall.server(), "echo", max_attempts=3)
    hall.start()
    with refusing_results():
        task = call(echo, text="kept")
        wait_until(lambda: "its outcome cannot be stored; tried again" in caplog.text, "the error to be logged")
        assert "not today" in caplog.text
    task_now = ended(task)
    assert task_now.state is State.FINISHED
    assert "kept" in (task_now.result_json or "")
    assert attempts(task) == ["finished"]


def test_a_result_that_the_database_goes_on_to_refuse_faults_its_task_which_is_not_run_again(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "STORE_SECONDS", 0.3)
    echo = hall.tool(hall.server(), "echo", max_attempts=3)
    hall.start()
    with refusing_results():
        task = call(echo, text="dropped")
        fault = ended(task)
    assert fault.state is State.FAULTED
    assert json.loads(fault.error_json or "")["message"] == "The tool ran, but what came of it could not be stored"
    assert len(attempts(task)) == 1
