"""A worker makes the tests that people ask for, and stays at work whatever the server does."""

from __future__ import annotations

import pytest

from taskhub.domain.catalogue.connection_tests import LatestTest, latest_test, request_test
from taskhub.store.models import Server
from taskhub.worker import connection_tests
from tests.factories import WORKER
from tests.upstream import servers
from tests.upstream.kit import COMMAND
from tests.worker.kit import WORKSHOP, Hall, call, ended, wait_until


def outcome_of(hall: Hall, server: Server) -> LatestTest:
    request_test(tenant_id=hall.context.tenant_id, server_id=server.pk, actor=WORKER)
    wait_until(lambda: getattr(latest_test(server.pk), "ended_at", None) is not None, "the outcome")
    found = latest_test(server.pk)
    assert found is not None
    return found


def test_a_python_server_and_a_command_are_tested_by_the_worker_that_calls_them(hall: Hall) -> None:
    python, command = hall.server(WORKSHOP), hall.server(COMMAND)
    engine = hall.start()
    for server, names in ((python, ["Import", "MCP", "Tools"]), (command, ["Program", "Start", "MCP", "Tools"])):
        found = outcome_of(hall, server)
        assert [(step["name"], step["ok"]) for step in found.steps] == [(name, True) for name in names]
        assert found.worker == engine.name


def test_a_server_that_holds_up_its_thread_ends_the_test_and_nothing_else(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_tests, "TEST_SECONDS", connection_tests.ENDING_SECONDS + 0.5)
    python, other = hall.server(WORKSHOP), hall.server(COMMAND)
    hall.start()
    call(hall.tool(python, "block"))
    wait_until(servers.gates.entered.is_set, "the tool to hold up the thread")
    found = outcome_of(hall, python)
    assert found.steps[-1]["ok"] is False
    assert ended(call(hall.tool(other, "echo"), text="x")).result_json is not None
    servers.gates.opened.set()
