"""Attaches the person behind the session to every console request."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from taskhub.identity.principals import person_of


def person_middleware(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Sets `request.person` to a `Person`, or `None` for strangers and users without a role."""

    def middleware(request: HttpRequest) -> HttpResponse:
        user = request.user
        request.person = (  # type: ignore[attr-defined]  # console/requests.py types it for views
            person_of(user.pk, user.get_username()) if user.is_authenticated else None
        )
        return get_response(request)

    return middleware
