"""Partial or page: the only module that reads htmx headers."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers
from django_htmx.http import HttpResponseClientRedirect

from taskhub.lib.signs import spelled

REQUEST_SECONDS: Final = 30
"""How long the console's pages wait for an answer: longer than a request may wait for a lane and for the database."""
CONFIG: Final[dict[str, Any]] = {
    "allowEval": False,
    "includeIndicatorStyles": False,
    "allowScriptTags": False,
    "selfRequestsOnly": True,
    "historyCacheSize": 0,
    "refreshOnHistoryMiss": True,
    "scrollIntoViewOnBoost": False,
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
    """Whether htmx asks for a part of the page: boosted links and restored history get all of it."""
    htmx = request.htmx  # type: ignore[attr-defined]  # set by django_htmx's middleware
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request


def partial_or_page(
    request: HttpRequest, template: str, partial: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    """All of `template`, or only its partial when htmx asks: one view, one template, both tested.

    `partial` is the name of a `{% partialdef %}` in `template`. `live` tells the template that it is swapped into a
    page, so that it may include parts outside the target, out of band.
    """
    part = wants_partial(request)
    name = f"{template}#{partial}" if part else template
    response = render(request, name, {**context, "live": part}, status=status)
    patch_vary_headers(response, ["HX-Request"])
    return response


def leave(request: HttpRequest, url: str) -> HttpResponse:
    """Go to `url`: a plain redirect, or `HX-Redirect` during an htmx request, so that the sign-in page, say, never
    lands inside a table cell.
    """
    if bool(request.htmx):  # type: ignore[attr-defined]
        return HttpResponseClientRedirect(url)
    return redirect(url)


def in_words(message: str, status: int) -> HttpResponse:
    """Why a request of htmx failed, as plain text: failed.js puts it beside the button that was pressed, where there is
    no room for a page.
    """
    return HttpResponse(spelled(message), status=status, content_type="text/plain; charset=utf-8")
