"""What was read lately is kept for a while, up to a number, and not past a forgetting."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from taskhub.lib.caches import ExpiringCache


def filled(most: int, *keys: str, seconds: float = 30.0) -> ExpiringCache[str, str]:
    kept: ExpiringCache[str, str] = ExpiringCache(seconds, most)
    for key in keys:
        kept.keep(key, key.upper(), kept.since())
    return kept


def test_a_value_is_there_until_its_time_is_over() -> None:
    kept = filled(9, "a", seconds=0.05)
    assert kept.get("a") == "A"
    assert kept.get("b") is None
    time.sleep(0.06)
    assert kept.get("a") is None


def test_the_oldest_makes_room_and_one_kept_again_is_the_newest() -> None:
    kept = filled(2, "a", "b", "a", "c")
    assert [kept.get(key) for key in "abc"] == ["A", None, "C"]
    assert len(kept) == 2


def test_what_was_read_before_a_forgetting_is_not_kept_after_it() -> None:
    kept = filled(9, "a")
    since = kept.since()
    kept.forget()
    kept.keep("b", "B", since)
    assert len(kept) == 0
    kept.keep("b", "B", kept.since())
    assert kept.get("b") == "B"


@pytest.fixture
def restless() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_do_not_break_it(restless: None) -> None:
    kept: ExpiringCache[int, int] = ExpiringCache(30.0, 50)
    together = threading.Barrier(4)

    def work(mine: int) -> None:
        together.wait()
        for number in range(3_000):
            kept.keep(number % 70, mine, kept.since())
            assert kept.get((number + mine) % 70) in (None, 0, 1, 2, 3)
            if number % 500 == 0:
                kept.forget()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(4))) == [None] * 4
    assert len(kept) <= 50
