"""The pages of errors outside of views."""

from __future__ import annotations

import logging
import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import loader
from django.views.csrf import csrf_failure as page_of_csrf_failure

from taskhub.console.htmx import in_words
from taskhub.console.later import unavailable
from taskhub.core.errors import Unavailable
from taskhub.store.call import explained

log = logging.getLogger(__name__)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400: the request could not be read. Without the frame, since nothing about the request can be trusted."""
    return HttpResponse(loader.render_to_string("400.html"), status=400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403."""
    return render(request, "403.html", {"reason": str(exception)}, status=403)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403: sent from another site, or from a page that is older than the sign-in. A header tells failed.js of the
    latter, so that it has the form sent again; another site cannot read it.
    """
    if "HX-Request" not in request.headers:
        return page_of_csrf_failure(request, reason=reason)
    response = in_words("This form is older than your sign-in, and nothing was changed.", 403)
    response["Sign-In-Changed"] = "1"
    return response


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404: missing, or somebody else's. The address that was asked for is not repeated."""
    return render(request, "404.html", status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """500: logged already. Needs neither session nor database, and works even when the templates are broken. 503 while
    the database is away, whether a view or a middleware met that: when Django calls this, the exception is at hand.
    """
    error = sys.exc_info()[1]
    try:
        if error is not None and isinstance(known := explained(error), Unavailable):
            return unavailable(request, known.message)
        return HttpResponse(loader.render_to_string("500.html"), status=500)
    except Exception:
        log.exception("the error page could not be drawn")
        return HttpResponse("Something broke on our side. It was logged.", status=500, content_type="text/plain")
