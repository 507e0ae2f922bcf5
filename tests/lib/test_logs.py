"""Lines of JSON, and what they are about."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from datetime import datetime
from typing import Any

import pytest

from taskhub.lib import logs
from taskhub.lib.lanes import Lanes


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Lines:
    caplog.handler.setFormatter(logs.JsonLine())
    return Lines(caplog)


class Lines:
    """What was logged, line by line."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def __call__(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._caplog.text.splitlines()]


logger = logging.getLogger("taskhub.somewhere")


def test_a_line_tells_when_how_grave_where_and_what(said: Lines) -> None:
    logger.warning("server %s: %s", "demo", 'said "no"\nand went')
    (line,) = said()
    assert datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line.pop("pid") > 0
    assert line == {"level": "WARNING", "logger": "taskhub.somewhere", "message": 'server demo: said "no"\nand went'}


def test_a_traceback_is_in_its_line(said: Lines) -> None:
    try:
        raise ValueError("no such thing: ü")
    except ValueError:
        logger.exception("it failed")
    (line,) = said()
    assert line["message"] == "it failed"
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("ValueError: no such thing: ü")


def test_what_cannot_be_written_as_json_is_written_as_text(said: Lines) -> None:
    logger.warning("odd", extra={"path": object, "request": object(), "status_code": 404, "half": "\ud83d"})
    (line,) = said()
    assert line["message"] == "odd"
    assert "request" not in line, "Django hands it along"


def test_a_line_of_text_stays_one_whatever_is_in_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.setFormatter(logs.TextLine())
    try:
        raise ValueError("of its own\n2026-01-01 00:00:00,000 ERROR   taskhub: \x1b[2J lost\r\u2028too\n\u2028more")
    except ValueError:
        logger.exception("%s had no effect", "a\n2026-01-01 00:00:00,000 ERROR   taskhub: \x1b[2J all is lost\r\u202e")
    first, second, *middle, last = caplog.text.splitlines()
    assert first.endswith(
        "ERROR   taskhub.somewhere: a↵2026-01-01 00:00:00,000 ERROR   taskhub: [U+001B][2J all is lost[U+000D][U+202E]"
        " had no effect"
    )
    assert second == "  Traceback (most recent call last):"
    assert middle.pop() == "  2026-01-01 00:00:00,000 ERROR   taskhub: [U+001B][2J lost[U+000D][U+2028]too"
    assert last == "  [U+2028]more"
    assert all(line.startswith("  ") for line in middle), middle


def test_labels_hold_for_their_block_and_what_it_starts(said: Lines) -> None:
    async def talk() -> None:
        with logs.about({"request_id": "r1"}):
            await asyncio.create_task(asyncio.to_thread(logger.warning, "one"))
            with logs.about({"task": "t1"}):
                logger.warning("two", extra={"task": "not this one"})
            logger.warning("three")
        logger.warning("four")

    asyncio.run(talk())
    assert [{name: line.get(name) for name in ("request_id", "task")} for line in said()] == [
        {"request_id": "r1", "task": None},
        {"request_id": "r1", "task": "t1"},
        {"request_id": "r1", "task": None},
        {"request_id": None, "task": None},
    ]


async def test_a_lane_speaks_for_whoever_it_works_for(said: Lines, lanes: Lanes) -> None:
    """Also when it works for somebody else next, or for nobody."""
    both = threading.Barrier(2)

    def work(what: str) -> None:
        both.wait(5.0)
        logger.warning(what)

    async def asked(by: str) -> None:
        with logs.about({"request_id": by}):
            await lanes.run(work, by)

    for pair in (("r1", "r2"), ("r3", "r4")):
        await asyncio.gather(*map(asked, pair))
    await asyncio.gather(lanes.run(work, "none"), lanes.run(work, "none"))
    lines = said()
    assert len(lines) == 6
    assert all(line.get("request_id", "none") == line["message"] for line in lines)
