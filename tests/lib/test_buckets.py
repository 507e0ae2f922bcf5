"""Rates that are told by a clock of ours."""

from __future__ import annotations

import pytest

from taskhub.lib import buckets
from taskhub.lib.buckets import Buckets


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_as_many_as_fit_at_once_then_as_many_as_come_in(clock: Clock) -> None:
    rates = Buckets(2.0, seconds=3.0, clock=clock)
    assert [rates.take("a") for _ in range(6)] == [0.0] * 6
    assert rates.take("a") > 0
    clock.now += 0.5
    assert rates.take("a") == 0.0
    assert rates.take("a") > 0
    clock.now += 3_600
    assert sum(rates.take("a") == 0.0 for _ in range(20)) == 6, "no more is saved up than the span's"


def test_what_was_refused_took_nothing_and_knows_when_to_come_back(clock: Clock) -> None:
    rates = Buckets(100.0, seconds=1.0, clock=clock)
    assert rates.take("a", 350.0) == 0.0, "what is left allows any amount"
    waits = {rates.take("a", 1.0) for _ in range(5)}
    assert waits == {2.5}
    clock.now += 2.4
    assert rates.take("a") == pytest.approx(0.1)
    clock.now += 0.11
    assert rates.take("a") == 0.0


def test_an_empty_bucket_is_never_said_to_be_open_now(clock: Clock) -> None:
    rates = Buckets(1.0, seconds=1.0, clock=clock)
    assert rates.take("a") == 0.0
    assert rates.take("a") > 0.0


def test_one_key_is_not_the_others(clock: Clock) -> None:
    rates = Buckets(1.0, seconds=1.0, clock=clock)
    assert [rates.take("a"), rates.take("b")] == [0.0, 0.0]
    assert rates.take("a") > 0
    assert rates.take("b") > 0


def test_no_more_keys_are_kept_than_the_bound(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "MOST_KEPT", 2)
    rates = Buckets(1.0, seconds=1.0, clock=clock)
    assert [rates.take(key) for key in "abc"] == [0.0] * 3
    assert rates.take("c") > 0
    assert rates.take("b") > 0
    assert rates.take("a") == 0.0, "the one that took least recently starts anew"


@pytest.mark.parametrize(("per_second", "seconds"), [(0, 1), (-1, 1), (1, 0)])
def test_no_rate_is_refused(per_second: float, seconds: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Buckets(per_second, seconds=seconds)
