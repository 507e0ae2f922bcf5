"""Reads the header `Retry-After` of an answer."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def seconds_of(told: str, most: float) -> float | None:
    """The seconds that a `Retry-After` names, as a number or as a date, at most `most`; `None` if it names none."""
    if told.strip().isdecimal():
        return min(float(told.strip()[:9]), most)
    try:
        at = parsedate_to_datetime(told)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return min(max((at - datetime.now(UTC)).total_seconds(), 0.0), most)
