"""What a URL's query may say, to the edge of each bound."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import RequestFactory

from taskhub.console import query

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def moment(value: str) -> datetime | None:
    return query.moment(RequestFactory().get("/", {"at": value}), "at", now=NOW)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("1970-01-01", datetime(1970, 1, 1, tzinfo=UTC)),
        ("1969-12-31T23:59:59.999999", None),
        ("9000-12-31T23:59:59.999999", datetime(9000, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("9001-01-01", None),
        # The year counts as it is in UTC, on either side.
        ("1970-01-01T00:30+01:00", None),
        ("1969-12-31T23:30-01:00", datetime(1970, 1, 1, 0, 30, tzinfo=UTC)),
        ("9001-01-01T00:30+01:00", datetime(9000, 12, 31, 23, 30, tzinfo=UTC)),
        ("9000-12-31T23:30-01:00", None),
        ("0001-01-01T00:00+01:00", None),
        ("9999-12-31T23:59-01:00", None),
    ],
)
def test_a_date_counts_from_1970_to_9000(value: str, found: datetime | None) -> None:
    assert moment(value) == found


@pytest.mark.parametrize(
    ("value", "age"),
    [
        ("0m", timedelta(0)),
        ("1m", timedelta(minutes=1)),
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
        ("99999w", timedelta(weeks=99_999)),
    ],
)
def test_an_age_is_counted_back_from_now(value: str, age: timedelta) -> None:
    assert moment(value) == NOW - age


@pytest.mark.parametrize("value", ["", "m", "-1d", "1.5h", "7y", "100000m", "٣d", "yesterday", "x" * 41])
def test_what_is_no_moment_is_as_good_as_absent(value: str) -> None:
    assert moment(value) is None


@pytest.mark.parametrize(
    ("value", "found"),
    [("1", 1), ("0", None), (str(2**63 - 1), 2**63 - 1), (str(2**63), None), ("-1", None), ("٣", None), ("", None)],
)
def test_a_number_fits_a_database_id(value: str, found: int | None) -> None:
    assert query.number(RequestFactory().get("/", {"n": value}), "n") == found


def test_a_text_may_be_as_long_as_is_allowed_and_no_longer() -> None:
    texts = ["x" * query.MAX_TEXT, "x" * (query.MAX_TEXT + 1), " a ", "a\0b"]
    assert [query.text(RequestFactory().get("/", {"q": text}), "q") for text in texts] == [texts[0], "", "a", ""]
