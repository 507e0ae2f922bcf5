"""Responses to htmx: a partial or the whole page, a redirect, or an error message."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers
from django_htmx.http import HttpResponseClientRedirect

from taskhub.lib.signs import spelled

REQUEST_SECONDS: Final = 30
"""Seconds that pages wait for a response to an htmx request: longer than a request may wait for a lane and the
database."""
CONFIG: Final[dict[str, Any]] = {
    "allowEval": False,
    "includeIndicatorStyles": False,
    "allowScriptTags": False,
    "selfRequestsOnly": True,
    "historyCacheSize": 0,
    "refreshOnHistoryMiss": True,
    "scrollIntoViewOnBoost": False,
    # Not `style`, as by default: the height that somebody gave a text box would be set as an attribute, which the
    # content security policy refuses.
    "attributesToSettle": ["class", "width", "height"],
    "timeout": REQUEST_SECONDS * 1_000,
    "responseHandling": [
        {"code": "204", "swap": False},
        {"code": "[23]..", "swap": True},
        {"code": "422", "swap": True},
        {"code": "[45]..", "swap": False, "error": True},
    ],
}
"""The configuration of htmx on every page."""


def wants_partial(request: HttpRequest) -> bool:
    """Whether htmx asks for a partial. Boosted links and restored history get the whole page."""
    htmx = request.htmx  # type: ignore[attr-defined]  # set by django_htmx's middleware
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request


def partial_or_page(
    request: HttpRequest, template: str, partial: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    """Render `template`, or only its partial if htmx asks for that.

    `partial` is the name of a `{% partialdef %}` in `template`. The context variable `live` is true for a partial: the
    template may then add elements outside of the target, which htmx swaps out of band.
    """
    part = wants_partial(request)
    name = f"{template}#{partial}" if part else template
    response = render(request, name, {**context, "live": part}, status=status)
    patch_vary_headers(response, ["HX-Request"])
    return response


def leave(request: HttpRequest, url: str) -> HttpResponse:
    """Redirect to `url`. An htmx request gets `HX-Redirect`, so that the whole page changes: after an ordinary redirect
    htmx would put the new page into the target element."""
    if bool(request.htmx):  # type: ignore[attr-defined]  # set by its middleware
        return HttpResponseClientRedirect(url)
    return redirect(url)


def in_words(message: str, status: int) -> HttpResponse:
    """An error message for htmx as plain text, which failed.js shows beside the button that was pressed."""
    return HttpResponse(spelled(message), status=status, content_type="text/plain; charset=utf-8")
