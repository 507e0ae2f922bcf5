"""`up --reload` runs what stands in the files, in a copy of the sources that is really edited."""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from taskhub.cli.reload import FOLDERS
from tests.deployment.test_faults import DEMO
from tests.support.hub import ROOT, RunningHub, wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder)  # what was compiled stays good: times are copied
    shutil.copy(ROOT / "manage.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.fixture
def hub(sources: Path) -> Iterator[RunningHub]:
    running = RunningHub("--reload", servers=(DEMO,), source=sources)
    try:
        yield running
    finally:
        running.stop()


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def body_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def begun_again(hub: RunningHub, name: str, before: psutil.Process) -> bool:
    """Whether another process than this one is that part, and the hub is ready with it."""
    return (
        not before.is_running()
        and any(name in child.cmdline() for child in psutil.Process(hub.process.pid).children())
        and hub._listed()
    )


def test_edited_files_are_what_runs(hub: RunningHub, sources: Path) -> None:
    web, worker = hub.part("web"), hub.part("worker")
    edit(sources / "templates" / "bare.html", "</body>", "<!-- edited --></body>")
    wait_until(lambda: begun_again(hub, "web", web), "the web server to begin again", 60)
    assert "<!-- edited -->" in body_of(f"{hub.base}/accounts/login/")
    assert worker.is_running(), "a template is nothing to a worker"

    web = hub.part("web")
    edit(sources / "taskhub" / "api" / "health.py", '"ok"', '"edited"')
    wait_until(lambda: begun_again(hub, "worker", worker), "the worker to begin again", 60)
    wait_until(lambda: begun_again(hub, "web", web), "the web server to begin again", 60)
    assert "edited" in body_of(f"{hub.base}/healthz")
    assert "taskhub/api/health.py changed; starting web, worker 1 again\n" in hub.log.read_text()
    assert "ended" not in hub.log.read_text(), "none of them died"
