"""The sign-in page: allauth's, with the status that says why nobody gets in."""

from __future__ import annotations

from allauth.account import views
from django.http import HttpRequest
from django.http.response import HttpResponseBase


def login(request: HttpRequest) -> HttpResponseBase:
    """429 when the name or the address was tried too often; the page says it in words as well."""
    response = views.login(request)
    form = (getattr(response, "context_data", None) or {}).get("form")
    if form is not None and form.has_error("__all__", "too_many_login_attempts"):
        response.status_code = 429
    return response
