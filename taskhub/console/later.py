"""The 503 response for any request that Django serves, whether or not it reached a view."""

from __future__ import annotations

import logging
from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader

from taskhub.console.htmx import in_words
from taskhub.lib.throttle import Throttle

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 2
"""The value of `Retry-After`, in seconds."""
CROWDED: Final = "All lanes of this process are busy; try again shortly."
_throttle = Throttle(10.0)


def unavailable(request: HttpRequest, why: str) -> HttpResponse:
    """A 503 response: plain text for htmx, a page for browsers, JSON for other programs. Needs neither session nor
    database. Logs at most one line in ten seconds."""
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
    """Add to a 503 response the headers that every 503 has, and return it."""
    response["Retry-After"] = str(RETRY_SECONDS)
    response["Cache-Control"] = "no-store"
    # Django would log every 503 as an error.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response
