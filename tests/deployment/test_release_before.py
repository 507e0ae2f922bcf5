"""The release before beside this one on one database: web and worker of both, whichever serves and whichever runs."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from taskhub.core.hints import SchemaChanged, encode
from taskhub.core.names import HINT_CHANNEL
from taskhub.store.functions import VERSION
from tests.support.client import Client, accept
from tests.support.hub import ROOT, RunningHub, wait_until

pytestmark = pytest.mark.processes

BEFORE = "c18d5fea56bdcd702885b713e253ecea9dfabfb9"
"""Stands for the release before until there is one: the last commit that loaded its functions by migrations."""


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, timeout=60).stdout


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the release before."""
    place = tmp_path_factory.mktemp("before")
    try:
        tags = _git("tag", "--list", "v*", "--no-contains", "HEAD", "--sort=-v:refname").decode().split()
        archive = _git("archive", tags[0] if tags else BEFORE)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the history of the repository")
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(place, filter="data")
    return place


class Part:
    """`manage.py …` of one of the two releases, until the block ends."""

    address = ""

    def __init__(self, hub: RunningHub, source: Path, *command: str) -> None:
        self.log = hub.directory / f"{source.name}-{command[0]}-{os.urandom(4).hex()}"
        environment = {**hub.environment, "TASKHUB_DATA_DIR": str(hub.data)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", *command], cwd=source, env=environment, stdout=log, stderr=log
            )

    def end(self) -> None:
        """SIGTERM, and wait."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(15)


@contextmanager
def web(hub: RunningHub, source: Path) -> Iterator[str]:
    """The address of a web process."""
    with web_part(hub, source) as part:
        yield part.address


@contextmanager
def web_part(hub: RunningHub, source: Path) -> Iterator[Part]:
    """A web process that answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    part = Part(hub, source, "web", "--port", str(port))
    part.address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert part.process.poll() is None, part.log.read_text()
        try:
            return httpx2.get(f"{part.address}/healthz", trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False

    try:
        wait_until(answers, "a web process", 60)
        yield part
    finally:
        part.end()


@contextmanager
def worker(hub: RunningHub, source: Path) -> Iterator[int]:
    """The pid of a worker that is connected to its servers."""
    with worker_part(hub, source) as part:
        yield part.process.pid


@contextmanager
def worker_part(hub: RunningHub, source: Path) -> Iterator[Part]:
    """A worker that is connected to its servers."""
    part = Part(hub, source, "worker")
    name = f"%:{part.process.pid}"

    def alive() -> bool:
        assert part.process.poll() is None, part.log.read_text()
        return bool(hub.sql("SELECT 1 FROM worker WHERE name LIKE %s AND stopped_at IS NULL", [name]))

    try:
        wait_until(alive, "a worker", 60)
        yield part
    finally:
        part.end()


def ran(hub: RunningHub, base: str, token: str) -> set[int]:
    """A task whose tool asks its client, through this web process: the pids of the workers that ran it."""
    with Client(base, token) as agent:
        task = agent.create("ask_twice")
        shown = agent.until(task, "input_required", seconds=40)
        agent.update(task, {key: accept(word="done") for key in shown["inputRequests"]})
        assert agent.until(task, "completed", seconds=40)["result"]["content"][0]["text"] == "Heard: done"
    found = hub.sql("SELECT a.worker FROM attempt a JOIN task t ON t.id = a.task_id WHERE t.public_id = %s", [task])
    assert len(found) == 2
    return {int(name.rpartition(":")[2]) for (name,) in found}


def test_old_and_new_serve_and_run_each_others_tasks(before: Path) -> None:
    with ExitStack() as stack:
        hub = RunningHub(source=before, other_tables=True)
        stack.callback(hub.drop)
        token = hub.tokens["agent-a"]
        hub.end()
        old_web = stack.enter_context(web(hub, before))
        with worker(hub, before) as old:
            assert ran(hub, old_web, token) == {old}
            done = subprocess.run(
                [sys.executable, "manage.py", "migrate", "-v0"],
                check=False, cwd=ROOT, env=hub.environment, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (0, "")
            assert ran(hub, old_web, token) == {old}, "what was there works on"
        with worker(hub, ROOT) as new:
            assert ran(hub, old_web, token) == {new}
            new_web = stack.enter_context(web(hub, ROOT))
            assert ran(hub, new_web, token) == {new}
        with worker(hub, before) as old:
            assert ran(hub, new_web, token) == {old}, "it may even be started again"
        running = [stack.enter_context(part) for part in (web_part(hub, ROOT), worker_part(hub, ROOT))]
        hub.sql("UPDATE schema_state SET version = %s, works_with = %s", [VERSION + 1, VERSION + 1])
        hub.sql("SELECT pg_notify(%s, %s)", [HINT_CHANNEL, encode(SchemaChanged())])
        commands = (["web", "--port", "1"], ["worker"], ["doctor"], ["up", "--port", str(hub.port), "--no-demo"])
        for part in [*running, *(Part(hub, ROOT, *command) for command in commands)]:
            assert part.process.wait(30) == 1, part.log.read_text()
            newer = f"migrated by a newer TaskHub (schema {VERSION + 1}; this one knows {VERSION})"
            assert newer in part.log.read_text()
