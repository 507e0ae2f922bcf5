"""Reads the parameters of a URL's query. A value that cannot be valid counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from django.http import HttpRequest

from taskhub.lib.numbers import whole

MAX_TEXT = 200
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def text(request: HttpRequest, name: str, *, longest: int = MAX_TEXT) -> str:
    """The value without surrounding blanks; empty if it is longer than `longest` or holds characters that Postgres
    cannot store."""
    value = request.GET.get(name, "").strip()
    if len(value) > longest or not storable(value):
        return ""
    return value


def number(request: HttpRequest, name: str) -> int | None:
    """A positive whole number that fits a database id, or `None`."""
    return whole(request.GET.get(name, "")) or None


def choice(request: HttpRequest, name: str, choices: Mapping[str, object] | tuple[str, ...]) -> str:
    """The value if it is one of `choices`, else empty."""
    value = request.GET.get(name, "")
    return value if value in choices else ""


def moment(request: HttpRequest, name: str, *, now: datetime) -> datetime | None:
    """The time that the parameter names: a date, a date with time (UTC unless it has an offset), or an age before `now`
    such as `24h` or `7d`. `None` if it is absent or invalid."""
    value = text(request, name, longest=40)
    if not value:
        return None
    age = whole(value[:-1], most=99_999)
    if age is not None and value[-1] in _UNITS:
        return now - timedelta(**{_UNITS[value[-1]]: age})
    try:
        found = datetime.fromisoformat(value)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    # Date arithmetic overflows near the years 1 and 9999, where there are no events anyway.
    return found if 1970 <= found.year <= 9000 else None


def storable(value: str) -> bool:
    """Whether Postgres can store the text: it has no U+0000 and no lone surrogates."""
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


def url(**parts: object) -> str:
    """A query string of those values that are not empty, with its question mark. `?` alone if all are empty, because an
    empty `href` would keep the query of the page."""
    return "?" + urlencode({name: value for name, value in parts.items() if value not in ("", None)})
