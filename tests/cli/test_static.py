"""Static files of processes that start together, as two web processes of a machine do."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.hub import ROOT, wait_until


def waits(process: subprocess.Popen[bytes], lock: Path) -> bool:
    """Whether it waits for this lock, as the system tells."""
    assert process.poll() is None, "it did not wait"
    waiting = f" {process.pid} "
    number = f":{lock.stat().st_ino} "
    return any(
        "->" in line and waiting in line and number in line for line in Path("/proc/locks").read_text().splitlines()
    )


def test_one_process_collects_at_a_time(tmp_path: Path) -> None:
    collected = tmp_path / "static"
    collected.mkdir()
    lock = collected / ".lock"
    command = [sys.executable, "-m", "taskhub.cli.static"]
    environment = {**os.environ, "TASKHUB_DATA_DIR": str(tmp_path), "SECRET_KEY": "k" * 32}
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = subprocess.Popen(command, cwd=ROOT, env=environment)
        wait_until(lambda: waits(process, lock), "the process to wait for the other", 60)
        assert [file.name for file in collected.iterdir()] == [".lock"]
    assert process.wait(60) == 0
    manifest = json.loads((collected / "staticfiles.json").read_text())
    assert [name for name in manifest["paths"].values() if not (collected / name).exists()] == []
