"""allauth's sign-in page, with an HTTP status for too many attempts."""

from __future__ import annotations

from allauth.account import views
from django.http import HttpRequest
from django.http.response import HttpResponseBase


def login(request: HttpRequest) -> HttpResponseBase:
    """Sign in. The response is a 429 after too many attempts for the username or the address; the page says so too."""
    response = views.login(request)
    form = (getattr(response, "context_data", None) or {}).get("form")
    if form is not None and form.has_error("__all__", "too_many_login_attempts"):
        response.status_code = 429
    return response
