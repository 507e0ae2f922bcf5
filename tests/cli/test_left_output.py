"""A command whose output nobody reads any more, as in `manage.py server list | head -1`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

MANAGE = Path(__file__).resolve().parents[2] / "manage.py"


@pytest.mark.parametrize("words", [("help",), ("check", "--list-tags")], ids=" ".join)
def test_it_ends_without_a_word_as_unix_commands_do(words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, MANAGE, *words]
        ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(write)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")
