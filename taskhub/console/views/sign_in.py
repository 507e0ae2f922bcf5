"""The sign-in page: allauth's, with a status that says why somebody is refused."""

from __future__ import annotations

from allauth.account import views
from django.http import HttpRequest
from django.http.response import HttpResponseBase


def login(request: HttpRequest) -> HttpResponseBase:
    """429 when there were too many tries for the name or the address; the page says so too."""
    response = views.login(request)
    form = (getattr(response, "context_data", None) or {}).get("form")
    if form is not None and form.has_error("__all__", "too_many_login_attempts"):
        response.status_code = 429
    return response
