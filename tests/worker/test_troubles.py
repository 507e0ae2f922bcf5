"""What is wrong with a server is logged when that changes or ends, and stands on its page in words."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from taskhub.core.records import Actor
from taskhub.core.states import Door, State
from taskhub.domain.catalogue.reads import server_detail
from taskhub.domain.catalogue.writes import set_server_token
from taskhub.domain.tasks import run
from taskhub.lib.signing import Vault
from taskhub.store.models import Attempt, Question, Server, Task
from taskhub.worker import claiming, engine
from tests.upstream import kit
from tests.worker.kit import Hall, call, ended, wait_until

REFUSED = "HTTP 401 Unauthorized. Its token is missing, expired or refused: set a new one on the server's page."
FAILS = "HTTP 503 Service Unavailable. The server, or a proxy before it, fails: its own log says why."


def test_one_line_tells_of_each_problem_and_one_of_its_end(hall: Hall, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "taskhub.worker.servers")

    def tried_again(before: int) -> None:
        worker.servers.look_again(server.pk)
        wait_until(lambda: len(http.requests) > before, "another try")

    def tried_thrice() -> None:
        """Two tries of now: the first may have begun before."""
        for _ in range(3):
            tried_again(len(http.requests))

    def said() -> list[str]:
        lines = [record.getMessage() for record in caplog.records if record.name == "taskhub.worker.servers"]
        return [line.removeprefix(f"server {server.name}: ") for line in lines]

    def state() -> tuple[str, str]:
        row = server_detail(hall.context.tenant_id, server.pk)
        assert row is not None
        return row.state, row.problem

    with kit.HttpServer() as http:
        server = hall.server(http.target)
        http.refuses = (401, "")
        worker = hall.start()
        assert state() == ("unauthorized", REFUSED)
        tried_thrice()
        http.refuses = (503, "")
        wait_until(lambda: state() == ("unreachable", FAILS), "the other problem")
        tried_thrice()
        assert said() == [REFUSED, FAILS]
        http.refuses = None
        wait_until(lambda: Server.objects.filter(state="ready").exists(), "its end")
        tried_thrice()
        assert said() == [REFUSED, FAILS, "reached again"]
        # A token that is refused later is noticed at the next look, through the connection there is.
        http.refuses = (401, "")
        worker.servers.look_again(server.pk)
        wait_until(lambda: state() == ("unauthorized", REFUSED), "the first problem again")
        hall.stop()
    assert said() == [REFUSED, FAILS, "reached again", REFUSED]


def test_a_server_whose_token_cannot_be_read_is_not_called_without_it(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "taskhub.worker.servers")
    lost = "Its token was encrypted with another SECRET_KEY and cannot be read: set it again on the server's page."
    with kit.HttpServer() as http:
        server = hall.server(http.target, credentials=Vault(b"the key of before").encrypt("s3cret"))
        tool = hall.tool(server, "echo")
        worker = hall.start()
        task = ended(call(tool, text="hello"))
        assert json.loads(task.error_json or "")["message"] == f"Server {server.name} cannot be reached: {lost}"
        server.refresh_from_db()
        assert (server.state, server.problem) == ("unreachable", lost)
        worker.servers.look_again(server.pk)
        assert http.requests == []
        set_server_token(
            tenant_id=server.tenant_id, server_id=server.pk, token="anew", actor=Actor(name="ada", door=Door.WEB)
        )
        wait_until(lambda: Server.objects.filter(state="ready").exists(), "the server with its token")
        assert ended(call(tool, text="hello")).result_json is not None
        assert {headers.get("authorization") for headers in http.requests} == {"Bearer anew"}
        hall.stop()
    assert [record.getMessage() for record in caplog.records if record.name == "taskhub.worker.servers"] == [
        f"server {server.name}: {lost}"
    ]


def test_a_worker_ends_whose_claim_does_not(
    hall: Hall, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine, "HEARTBEAT_SECONDS", 0.05)
    worker = hall.start()
    let_go = threading.Event()
    claims = run.claim_tasks

    def hanging(**named: Any) -> Any:
        let_go.wait()
        return claims(**named)

    monkeypatch.setattr(run, "claim_tasks", hanging)
    monkeypatch.setattr(claiming, "CLAIM_SECONDS", 0.2)
    try:
        wait_until(lambda: worker.failed, "its end")
    finally:
        let_go.set()
    assert "the worker ends, since claiming met an error that it cannot go on with" in caplog.text


def test_a_gateway_that_has_no_answer_leaves_the_outcome_unknown(hall: Hall) -> None:
    with kit.HttpServer() as http:
        server = hall.server(http.target)
        hall.start()
        http.refuses = (504, "tools/call")
        call(hall.tool(server, "echo"), text="hello")
        asked = wait_until(lambda: Question.objects.filter(kind="outcome", state="open").first(), "the question")
        assert asked.params["told"] == (
            f"HTTP 504 Gateway Timeout came instead of an answer of server {server.name}: outcome unknown"
        )
        hall.stop()


@pytest.mark.usefixtures("looks_often")
def test_a_server_that_wants_to_be_called_later_is_called_later(hall: Hall) -> None:
    with kit.HttpServer() as http:
        server = hall.server(http.target)
        hall.start()
        http.refuses, http.refuses_with = (429, "tools/call"), [(b"retry-after", b"1")]
        task = call(hall.tool(server, "echo"), text="hello")
        told = f"Server {server.name} wants to be called later: HTTP 429 Too Many Requests"
        wait_until(lambda: Task.objects.filter(pk=task, state="queued", message=told).exists(), "that it waits")
        http.refuses = None
        assert ended(task).state is State.FINISHED
        assert Attempt.objects.filter(task=task, outcome="finished").count() == 1
        server.refresh_from_db()
        assert server.failures == 0
        hall.stop()
