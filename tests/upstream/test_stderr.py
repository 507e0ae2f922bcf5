"""The standard error of a command is in our log, and never holds the command up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from taskhub.lib.logs import JsonLine
from taskhub.upstream import stderr
from tests.support.hub import wait_until


def run(program: str) -> None:
    """A process of the server `shop` that runs this, to its end; and the end of who reads what it said."""
    with stderr.logged("shop") as file:
        subprocess.run(
            [sys.executable, "-c", f"import sys\nsay = sys.stderr.write\n{program}"], stderr=file, check=True
        )
    wait_until(lambda: "stderr-shop" not in {thread.name for thread in threading.enumerate()}, "its end")


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", "taskhub.upstream.stderr")
    caplog.handler.setFormatter(JsonLine())
    return caplog


def said(heard: pytest.LogCaptureFixture) -> list[str]:
    lines = [json.loads(line) for line in heard.text.splitlines()]
    assert {line["server"] for line in lines} <= {"shop"}
    return [line["message"].removeprefix("server shop: ") for line in lines]


def test_each_line_is_one_of_ours_and_names_its_server(heard: pytest.LogCaptureFixture) -> None:
    run("say('open\\n\\n  ready: ü\\r\\nand the last'); sys.stderr.flush()")
    assert said(heard) == ["open", "  ready: ü", "and the last"]


def test_a_long_line_is_cut_and_bytes_that_are_no_text_are_shown_as_such(heard: pytest.LogCaptureFixture) -> None:
    run("say('x' * 5_000_000 + '\\nnext\\n'); sys.stderr.flush(); sys.stderr.buffer.write(b'\\xff\\xfe!\\n')")
    assert said(heard) == ["x" * stderr.MAX_LINE + "…", "next", "\ufffd\ufffd!"]


def test_a_flood_is_read_to_its_end_and_counted(heard: pytest.LogCaptureFixture) -> None:
    run("for n in range(50_000): say(f'{n}\\n')")
    lines = said(heard)
    most = stderr.LINES_PER_SECOND * stderr.LINES_SECONDS
    assert lines[: int(most)] == [str(n) for n in range(int(most))]
    assert lines[-1].startswith("and ")
    counts = [re.fullmatch(r"(?:and )?(\d+) lines (?:more|are left out here)", line) for line in lines]
    left_out = sum(int(count[1]) for count in counts if count)
    shown = [line for line in lines if line.isdigit()]
    assert len(shown) + left_out == 50_000
    assert len(shown) < 2_000


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_nothing_stays_open(heard: pytest.LogCaptureFixture) -> None:
    before = open_files()
    for _ in range(5):
        run("say('x')")
    assert open_files() <= before
