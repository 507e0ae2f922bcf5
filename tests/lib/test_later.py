"""The header `Retry-After`, in each of its forms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from taskhub.lib.later import seconds_of


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("999999999999", 60.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
    ],
)
def test_seconds(told: str, seconds: float | None) -> None:
    assert seconds_of(told, 60.0) == seconds


def test_a_date() -> None:
    at = datetime.now(UTC) + timedelta(seconds=30)
    found = seconds_of(format_datetime(at, usegmt=True), 60.0)
    assert found is not None
    assert 25 < found <= 30
