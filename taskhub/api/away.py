"""The 503 responses to programs while the database is away; people get the page of `console/later.py`."""

from __future__ import annotations

import logging
from typing import Final

from django.http import HttpRequest, HttpResponse

from taskhub.core.errors import Unavailable
from taskhub.lib.throttle import Throttle
from taskhub.store.call import LACKING, explained, lacking

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 2
"""The value of `Retry-After`."""
_throttle = Throttle(10.0)


def reason(error: Exception) -> str:
    """If the error means that the database is away, or lacks a table, column or function of this release: the reason
    for a 503, as text for people. Raises any other error again."""
    if lacking(error):
        return LACKING
    known = explained(error)
    if not isinstance(known, Unavailable):
        raise error
    return known.message


def later(request: HttpRequest, response: HttpResponse, why: str) -> HttpResponse:
    """Add `Retry-After` to `response`, a 503, and return it. Logs one line, at most every ten seconds."""
    if _throttle():
        log.warning("503 for %s and others: %s", request.path, why)
    response["Retry-After"] = str(RETRY_SECONDS)
    response._has_been_logged = True  # type: ignore[attr-defined]  # else Django would log each of them
    return response
