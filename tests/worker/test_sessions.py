"""The processes that clients have of commands, as a worker keeps them on record."""

from __future__ import annotations

import json

import pytest

from taskhub.domain.workers.lines import lines_of
from taskhub.store.models import UpstreamSession
from taskhub.upstream.target import Target
from taskhub.worker import engine
from tests.upstream import kit as upstream
from tests.worker.kit import Hall, call, ended, wait_until


def text(task_id: int) -> str:
    found: str = json.loads(ended(task_id).result_json or "{}")["content"][0]["text"]
    return found


def test_the_memory_of_clients_processes_is_known(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MEMORY_SECONDS", 0.1)
    tool = hall.tool(hall.server(upstream.NOTEBOOK), "pid")
    hall.start()
    pid = int(text(call(tool)))
    row = wait_until(lambda: UpstreamSession.objects.filter(memory__gt=1_000_000).first(), "its memory")
    assert (row.pid, row.context_id) == (pid, hall.context.pk)
    hall.stop()
    row.refresh_from_db()
    assert (row.pid, row.why) == (None, "its server was disconnected")


def test_what_a_command_says_is_kept(hall: Hall) -> None:
    server = hall.server(Target("stdio", f"env TOKEN=sw0rdfish {upstream.OLD.target}"))
    hall.start()
    answer = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"said"}]}}'
    assert text(call(hall.tool(server, "say"), lines=["it is sw0rdfish", answer])) == "said"
    hall.stop()
    assert [row.text for row in lines_of(server.pk)] == ["it is •••"]
