"""The error pages that Django's handlers show for errors outside of `access.page`."""

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
    """400: the request could not be read. The page has no frame, since nothing about the request can be trusted."""
    return HttpResponse(loader.render_to_string("400.html"), status=400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403: a view or middleware raised `PermissionDenied`."""
    return render(request, "403.html", {"reason": str(exception)}, status=403)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403: the form was sent from another site, or from a page that was rendered before the person signed in again.

    For htmx the header `Sign-In-Changed` makes failed.js renew the tokens of the page's forms, so that the person can
    send the form again. Another site cannot read the header.
    """
    if "HX-Request" not in request.headers:
        return page_of_csrf_failure(request, reason=reason)
    response = in_words("This form is older than your sign-in, and nothing was changed.", 403)
    response["Sign-In-Changed"] = "1"
    return response


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404: there is no such thing, or it is somebody else's. The page does not repeat the URL."""
    return render(request, "404.html", status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """500; Django has logged the exception. Needs neither session nor database, and works even if the template fails.

    503 if the exception means that the database is unavailable, whether a view or a middleware raised it.
    """
    error = sys.exc_info()[1]
    try:
        if error is not None and isinstance(known := explained(error), Unavailable):
            return unavailable(request, known.message)
        return HttpResponse(loader.render_to_string("500.html"), status=500)
    except Exception:
        log.exception("the error page could not be drawn")
        return HttpResponse("Something broke on our side. It was logged.", status=500, content_type="text/plain")
