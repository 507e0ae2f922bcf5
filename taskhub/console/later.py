"""503: not now. For any request that Django would serve, whether or not a view was reached."""

from __future__ import annotations

import logging
from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader

from taskhub.console.htmx import in_words
from taskhub.lib.throttle import Throttle

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 2
"""Seconds, sent as `Retry-After`."""
CROWDED: Final = "All lanes of this process are busy; try again shortly."
_throttle = Throttle(10.0)


def unavailable(request: HttpRequest, why: str) -> HttpResponse:
    """503 with Retry-After: a page for people, JSON for programs. Needs neither session nor database. Logs one line,
    once in a while."""
    if _throttle():
        log.warning("503 for %s and others: %s", request.path, why)
    response: HttpResponse
    if "HX-Request" in request.headers:
        response = in_words(why, 503)
    elif "text/html" in request.headers.get("Accept", ""):
        response = HttpResponse(loader.render_to_string("503.html", {"why": why}), status=503)
    else:
        response = JsonResponse({"error": "temporarily_unavailable", "error_description": why}, status=503)
    return later(response)


def later(response: HttpResponse) -> HttpResponse:
    """`response`, which is a 503, with the headers that all of them have."""
    response["Retry-After"] = str(RETRY_SECONDS)
    response["Cache-Control"] = "no-store"
    # Django would log each of them, with a traceback.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response
