"""The decorator of the console's views: checks a permission, and turns domain errors into pages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, cast
from urllib.parse import urlencode, urlsplit

from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render, resolve_url
from django.utils.cache import add_never_cache_headers

from taskhub.console.confirmed import remembered
from taskhub.console.htmx import in_words, leave, wants_partial
from taskhub.console.later import unavailable
from taskhub.console.requests import ConsoleRequest
from taskhub.control import caller
from taskhub.core.errors import (
    Forbidden,
    Invalid,
    KeyReused,
    LimitReached,
    NotFound,
    Refused,
    TaskHubError,
    Unavailable,
)
from taskhub.core.states import Door

P = ParamSpec("P")
View = Callable[Concatenate[ConsoleRequest, P], HttpResponse]

STATUS: dict[type[TaskHubError], tuple[int, str]] = {
    NotFound: (404, "Not found"),
    Forbidden: (403, "Not allowed"),
    Invalid: (400, "That cannot be right"),
    Refused: (409, "Not possible any more"),
    KeyReused: (409, "Not possible"),
    LimitReached: (429, "A limit is reached"),
}
"""For each domain error: the HTTP status and the title of its page."""


def page(permission: str) -> Callable[[View[P]], Callable[Concatenate[HttpRequest, P], HttpResponse]]:
    """Decorate a view: only people whose role has `permission` reach it.

    Anonymous users are redirected to the sign-in page and then back; a user without a role, or whose role lacks the
    permission, gets a 403 page. A `TaskHubError` of the view becomes a page (`problem`). Browsers cache no response.
    """

    def decorate(view: View[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
        @functools.wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            if not request.user.is_authenticated:
                return leave(request, _sign_in(request))
            request = cast("ConsoleRequest", request)
            try:
                if request.person is None:
                    raise Forbidden("Your account has no role here yet. Ask an administrator to give it one.")
                identify(request)
                request.caller.require(permission, f"{request.method} {request.path}")
                response = view(request, *args, **kwargs)
            except TaskHubError as error:
                response = problem(request, error)
            add_never_cache_headers(response)
            return response

        return guarded

    return decorate


def identify(request: ConsoleRequest) -> None:
    """Set the caller of the request: its person, with the second factor that they confirmed in this session."""
    request.caller = caller.of_person(
        request.person,
        door=Door.WEB,
        address=request.META.get("REMOTE_ADDR") or "",
        confirmed=remembered(request.session, request.person.user_id),
    )


def problem(request: HttpRequest, error: TaskHubError) -> HttpResponse:
    """The page of a domain error with the error's message; for htmx the message alone, as plain text.

    `Unavailable` gets the 503 page, which has no frame, because the frame would read the database.
    """
    if isinstance(error, Unavailable):
        return unavailable(request, error.message)
    status, title = STATUS.get(type(error), (500, "Something is wrong"))
    if wants_partial(request):
        return in_words(error.message, status)
    return render(request, "error.html", {"status": status, "title": title, "message": error.message}, status=status)


def _sign_in(request: HttpRequest) -> str:
    """The URL of the sign-in page, with `next`: the page that the person was on, never a partial or a URL for POST."""
    here = request.get_full_path()
    if bool(request.htmx):  # type: ignore[attr-defined]  # set by its middleware
        current = urlsplit(request.htmx.current_url_abs_path or "/")  # type: ignore[attr-defined]
        here = current.path + (f"?{current.query}" if current.query else "")
    elif request.method != "GET":
        here = "/"
    return f"{resolve_url('account_login')}?{urlencode({REDIRECT_FIELD_NAME: here})}"
