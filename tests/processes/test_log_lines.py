"""What the parts log of their own start and end, as an operator collects it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.support.hub import ROOT, STOP_SECONDS, RunningHub, wait_until
from tests.support.web import web

pytestmark = pytest.mark.processes


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def of(log: Path, logger: str) -> list[tuple[str, str]]:
    """Level and message, without the host and the pid."""
    return [
        (line["level"], line["message"].split(" ", 2)[0] + " " + line["message"].split(" ", 2)[2])
        for line in lines(log)
        if line["logger"] == logger
    ]


def test_a_web_process_says_that_it_started_and_stopped(hub: RunningHub) -> None:
    with web(hub, LOG_LEVEL="INFO", TASKHUB_LOG_FORMAT="json") as running:
        wait_until(lambda: of(running.log, "taskhub.cli.management.commands.web"), "its start")
    assert of(running.log, "taskhub.cli.management.commands.web") == [
        ("INFO", f"web started: TaskHub {settings.VERSION} at {running.base}"),
        ("INFO", "web stopped"),
    ]
    assert any(line["logger"] == "uvicorn.error" for line in lines(running.log))
    assert "color_message" not in running.log.read_text()


def test_the_query_of_a_sockets_address_is_not_logged(hub: RunningHub) -> None:
    with web(hub, LOG_LEVEL="INFO") as running:
        for path in ("nope", "hints"):
            address = f"ws://127.0.0.1:{running.port}/ws/{path}?token=th_secret&more=x"
            with pytest.raises(InvalidStatus):
                connect(address, origin=Origin(running.base), proxy=None)
        wait_until(lambda: '"WebSocket /ws/hints" 403' in running.log.read_text(), "its line")
    assert '"WebSocket /ws/nope" 403' in running.log.read_text()
    assert "th_secret" not in running.log.read_text()


def test_a_worker_says_that_it_started_with_how_many_slots_and_that_it_stopped(hub: RunningHub) -> None:
    log = hub.directory / "third-worker"
    known = {**hub.environment, "TASKHUB_DATA_DIR": str(hub.data), "LOG_LEVEL": "INFO", "TASKHUB_LOG_FORMAT": "json"}
    with log.open("wb") as file:
        command = [sys.executable, "manage.py", "worker", "--slots", "1"]
        process = subprocess.Popen(command, cwd=ROOT, env=known, stdout=file, stderr=file)
    try:
        wait_until(lambda: of(log, "taskhub.worker.engine"), "its start", 60)
    finally:
        process.terminate()
        assert process.wait(STOP_SECONDS) == 0
    assert of(log, "taskhub.worker.engine") == [
        ("INFO", f"worker started: TaskHub {settings.VERSION}, 1 slots"),
        ("INFO", "worker stopped; tasks that had not ended by themselves: 0"),
    ]
