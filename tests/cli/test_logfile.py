"""The file into which `up` and its parts log."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskhub.cli import logfile
from taskhub.cli.logfile import LogFile


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogFile]:
    """That of an empty data directory."""
    made = LogFile(tmp_path)
    yield made
    made.close()


def test_a_file_that_has_grown_begins_anew_and_its_parts_write_on(
    log: LogFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound holds for as long as they run: nobody starts them again for it."""
    monkeypatch.setattr(logfile, "MAX_BYTES", 1_000)
    script = "import sys\nfor line in sys.stdin: print(line * 20, flush=True); print('ok', file=sys.stderr, flush=True)"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log.stream, stderr=subprocess.PIPE, text=True) as part:
        assert part.stdin is not None
        assert part.stderr is not None
        for number in range(30):
            part.stdin.write(f"line {number}, and more of it\n")
            part.stdin.flush()
            assert part.stderr.readline() == "ok\n"
            log.keep_small()
            assert log.size() <= 1_000
            assert "\0" not in log.path.read_text()
        part.stdin.close()
    assert "line 29" in log.path.read_text() + log.before.read_text()
    assert "line 0," not in log.before.read_text()
    assert {one.name for one in tmp_path.iterdir()} == {"taskhub.log", "taskhub.log.1"}
    assert log.before.stat().st_mode & 0o777 == 0o600


def test_the_last_lines_are_those_of_the_part_and_end_no_terminal(log: LogFile) -> None:
    log.stream.write("of an earlier part\n")
    log.stream.flush()
    since = log.size()
    assert log.last_lines(since) == []
    log.stream.write("".join(f"line {number}\n" for number in range(12)) + "\x1b[2J gone\n")
    log.stream.flush()
    assert log.last_lines(since) == [*(f"line {number}" for number in range(3, 12)), "[U+001B][2J gone"]


def test_what_up_itself_logs_is_in_the_file(log: LogFile) -> None:
    handler = logging.StreamHandler()
    logging.getLogger().addHandler(handler)
    try:
        before = handler.stream
        with log.instead_of_stderr():
            logging.getLogger("taskhub.somewhere").warning("a worker is late")
        assert handler.stream is before
    finally:
        logging.getLogger().removeHandler(handler)
    assert "a worker is late" in log.path.read_text()
