"""The page of a task whose call its server runs as a task of its own."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskhub.core.records import UpstreamTask
from taskhub.core.states import QuestionKind, Role
from taskhub.domain.tasks import deferred
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.deferred import take_polls
from taskhub.domain.workers.writes import goodbye, heartbeat
from taskhub.store.models import Deferred, Server
from tests.console.conftest import Login
from tests.console.test_tasks_page import text_of
from tests.factories import (
    WORKER,
    claim_task,
    make_context,
    make_person,
    make_question,
    make_server,
    make_task,
    make_tool,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(tenant: Any, sign_in: Login) -> Any:
    return sign_in(make_person(Role.OPERATOR, tenant))


@pytest.fixture
def task(tenant: Any) -> Any:
    """A deferred call at a server named demo, in a session of the worker w1."""
    made = make_task(make_context(tenant, "agent-a"), make_tool(make_server(tenant, "demo")))
    heartbeat("w1", slots=1, busy=0)
    up = UpstreamTask("up\u202e-1", "2025-11-25", "working", "Reading", 2_000)
    assert deferred.defer(
        claim_task(made), up, poll_ms=2_000, ran_seconds=0.0, home="w1", delay_ms=60_000, actor=WORKER
    )
    return made


def shown(operator: Any, task: Any) -> tuple[str, str]:
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    return page, re.sub(r"\s+", " ", text_of(page))


def test_the_page_says_which_task_of_the_server_it_is_since_when_and_how_it_is_asked(operator: Any, task: Any) -> None:
    page, words = shown(operator, task)
    assert re.search(r"Running at server demo, as a task of its own, for <time [^>]*data-since>", page)
    assert "up\u202e-1" not in page
    assert re.search(
        r"Its task up.*-1 Since .* Said last it is working Asked every 2\.0 s by w1, in whose session", words
    )
    assert "Running on" not in words


def test_it_says_that_nobody_asks_and_that_the_worker_is_gone(operator: Any, task: Any) -> None:
    goodbye("w1")
    Deferred.objects.update(poll_at=datetime.now(UTC) - timedelta(seconds=20))
    _, words = shown(operator, task)
    assert re.search(r"No worker has asked the server for 2\d s, but the tool may go on\.", words)
    assert "by any worker, since the one that made the call is gone" in words


def test_it_says_that_nobody_asks_a_disabled_server(operator: Any, task: Any) -> None:
    Server.objects.update(enabled=False)
    Deferred.objects.update(poll_at=datetime.now(UTC) - timedelta(seconds=20))
    _, words = shown(operator, task)
    assert "The server is disabled, so it is not asked for the result, but the tool may go on." in words
    assert "Asked when the server is enabled again" in words
    request_cancel(task.id, actor=WORKER)
    assert "; the server is disabled, so it is not asked." in shown(operator, task)[1]


def test_it_says_that_the_server_is_not_asked_before_it_is_authorized(operator: Any, task: Any) -> None:
    Deferred.objects.update(poll_at=datetime.now(UTC))
    (taken,) = take_polls("w1", {Deferred.objects.get().server_id: 1})
    asked = [make_question(kind=QuestionKind.AUTHORIZATION)]
    assert deferred.ask_deferred(taken, asked, message="It waits", delay_ms=60_000, actor=WORKER)
    _, words = shown(operator, task)
    assert "Said last nothing, since it is not asked Asked when the server is authorized again" in words


def test_it_says_that_a_cancellation_was_requested(operator: Any, task: Any) -> None:
    request_cancel(task.id, actor=WORKER)
    assert re.search(r"Cancel was requested .*; the server has ten seconds to stop the tool", shown(operator, task)[1])


def test_earlier_attempts_tell_their_tasks_too(operator: Any, task: Any) -> None:
    Deferred.objects.update(poll_at=datetime.now(UTC))
    (taken,) = take_polls("w1", {Deferred.objects.get().server_id: 1})
    assert deferred.lose_deferred(taken, told="Forgotten", actor=WORKER)
    _, words = shown(operator, task)
    assert "Forgotten. Nobody knows whether the tool did its work" in words
    assert "Said last nothing that tells how it ended" in words
    assert "Asked" not in words
