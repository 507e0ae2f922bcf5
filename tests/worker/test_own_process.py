"""A `python:` server in a process of its own: its end costs the worker nothing."""

from __future__ import annotations

import json

import pytest

from taskhub.core.states import QuestionKind
from taskhub.domain.workers.lines import lines_of
from taskhub.store.models import UpstreamSession, Worker
from taskhub.upstream.target import Target
from tests.domain import kit
from tests.upstream.servers import gates
from tests.worker.kit import Hall, attempts, call, ended, wait_until

FRAGILE = Target("python", "tests.upstream.fragile:fragile")


def text(task_id: int) -> str:
    found: str = json.loads(ended(task_id).result_json or "{}")["content"][0]["text"]
    return found


@pytest.mark.parametrize("how", ["leave", "crash"])
def test_a_tool_that_ends_its_process_ends_no_other(hall: Hall, how: str) -> None:
    server = hall.server(FRAGILE, own_process=True)
    beside = call(hall.tool(hall.server(), "wait_for_gate"))
    worker = hall.start()
    pid = int(text(call(hall.tool(server, "pid"))))
    wait_until(gates.entered.is_set, "a call beside it")
    lost = call(hall.tool(server, how))
    wait_until(lambda: [each.kind for each in kit.look(lost).questions] == [QuestionKind.OUTCOME], "the loss")
    assert attempts(lost) == ["lost"]
    assert int(text(call(hall.tool(server, "pid")))) != pid
    again = call(hall.tool(server, how, policy_at_least_once=True, max_attempts=2))
    assert "was lost while the tool ran" in json.loads(ended(again).error_json or "{}")["message"]
    assert len(attempts(again)) == 2, "it may run twice, so it did"
    gates.opened.set()
    assert text(beside) == "let go"
    assert attempts(beside) == ["finished"]
    assert Worker.objects.get(name=worker.name).stopped_at is None


def test_clients_share_it_and_its_lines_are_kept(hall: Hall) -> None:
    server = hall.server(FRAGILE, own_process=True)
    hall.start()
    assert text(call(hall.tool(server, "remember"), word="x")) == "x"
    other = Hall()
    other.context = kit.factories.make_context(hall.context.tenant)
    assert text(call(other.tool(server, "remember"), word="y")) == "x y"
    assert text(call(hall.tool(server, "output"), word="hello")) == ""
    hall.stop()
    assert {"a line of its module", "hello"} <= {row.text for row in lines_of(server.pk)}
    assert not UpstreamSession.objects.exists(), "it belongs to no client"
