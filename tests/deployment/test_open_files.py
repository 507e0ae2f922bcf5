"""A process may have as many files open as the system lets it: a shell's 1,024 would be as many streams."""

from __future__ import annotations

import resource

import psutil
import pytest

from tests.support.hub import RunningHub
from tests.support.web import web

pytestmark = pytest.mark.processes


def test_a_part_raises_its_limit(hub: RunningHub) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1_024, hard - 1), hard))
        with web(hub) as running:
            assert psutil.Process(running.process.pid).rlimit(psutil.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    worker = hub.part("worker").rlimit(psutil.RLIMIT_NOFILE)
    assert worker == (hard, hard)
