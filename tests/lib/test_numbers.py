"""What stands there in plain digits is a number, and nothing else is."""

from __future__ import annotations

import pytest

from taskhub.lib.numbers import MOST, whole


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("7", 7), ("007", 7), ("123456789", 123_456_789), (str(MOST), MOST)]
)
def test_digits_are_a_number(text: str, number: int) -> None:
    assert whole(text) == number


@pytest.mark.parametrize(
    "text",
    ["", " 7", "7 ", "7\n", "-7", "+7", "7.0", "1_000", "1e3", "0x7", "²", "٣", "７", "7\0", str(MOST + 1), "0" * 20],
)
def test_anything_else_is_none(text: str) -> None:
    assert whole(text) is None


def test_a_number_without_an_end_is_none_and_no_error() -> None:
    assert whole("9" * 5_000) is None
    assert whole("0" * 20 + "9" * 5_000) is None


def test_the_most_is_allowed_and_one_more_is_not() -> None:
    assert whole("10", most=10) == 10
    assert whole("11", most=10) is None
