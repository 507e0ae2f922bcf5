"""Where there is no uvloop, asyncio's own loop does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub

pytestmark = pytest.mark.processes


def test_calls_are_run_waited_for_and_listened_to(tmp_path: Path) -> None:
    (tmp_path / "uvloop.py").write_text("raise ImportError('there is none')")
    hub = RunningHub(PYTHONPATH=str(tmp_path))
    try:
        with Client(hub.base, hub.tokens["agent-a"]) as client:
            assert client.tool("greet", {"name": "x"}).text == "Hello, x!"
            task_id = client.create("slow_compute", {"seconds": 1, "label": "x"})
            with client.stream("subscriptions/listen", {"notifications": {"taskIds": [task_id]}}, caps=TASKS) as stream:
                while stream.next().get("params", {}).get("status") != "completed":
                    pass
        web = hub.part("web")
        assert "uvloop" not in " ".join(mapped.path for mapped in web.memory_maps())
    finally:
        hub.stop()
