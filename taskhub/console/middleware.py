"""Middleware that finds the person of each console request, and makes them change a password that is due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from taskhub.console.htmx import leave, wants_partial
from taskhub.core.records import Person
from taskhub.domain.clients.principals import person_of

OPEN: Final = ("account_change_password", "account_logout", "account_reauthenticate")
"""The URL names that stay open while a change of password is due."""


def person_middleware(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Set `request.person` to a `Person`, or to `None` for anonymous users and users without a role."""

    def middleware(request: HttpRequest) -> HttpResponse:
        user = request.user
        person: Person | None = person_of(user.pk, user.get_username()) if user.is_authenticated else None
        request.person = person  # type: ignore[attr-defined]  # console/requests.py types it for views
        # Somebody else has set this person's password. Until they change it, every other page leads there.
        if person is not None and person.password_due and request.path not in {reverse(name) for name in OPEN}:
            return leave(request, _change_first(request))
        return get_response(request)

    return middleware


def _change_first(request: HttpRequest) -> str:
    """The URL of the page where the password is changed. After the change, it leads to the page that was asked for, if
    that was a whole page."""
    there = reverse("account_change_password")
    wanted = request.get_full_path()
    if request.method != "GET" or wants_partial(request):
        return there
    return f"{there}?{urlencode({'next': wanted})}"
