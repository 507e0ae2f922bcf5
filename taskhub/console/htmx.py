"""Partial or page: the only place that reads htmx headers."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers
from django_htmx.http import HttpResponseClientRedirect


def wants_partial(request: HttpRequest) -> bool:
    """Whether htmx asks for a part of the page: boosted links and restored history get it whole."""
    htmx = request.htmx  # type: ignore[attr-defined]  # set by django_htmx's middleware
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request


def partial_or_page(
    request: HttpRequest, template: str, partial: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    """`template` whole, or only its partial when htmx asks: one view, one template, both tested.

    `partial` is the name of a `{% partialdef %}` in `template`; `live` tells the template that
    it is being swapped, so that parts outside the target may travel along out of band.
    """
    part = wants_partial(request)
    name = f"{template}#{partial}" if part else template
    response = render(request, name, {**context, "live": part}, status=status)
    patch_vary_headers(response, ["HX-Request"])
    return response


def leave(request: HttpRequest, url: str) -> HttpResponse:
    """Go to `url`: a plain redirect, or `HX-Redirect` during an htmx request, so that a sign-in
    page never lands inside a table cell.
    """
    if bool(request.htmx):  # type: ignore[attr-defined]
        return HttpResponseClientRedirect(url)
    return redirect(url)
