"""The request that console views get, after the middleware and `access.page`, and what is read once for it."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from taskhub.control.caller import Caller
from taskhub.core.records import Person
from taskhub.domain.questions.inbox import Waiting, waiting


class ConsoleRequest(HttpRequest):
    """A request of a signed-in person with a role. A type for annotations, never instantiated."""

    person: Person
    caller: Caller
    htmx: HtmxDetails


def waiting_of(request: HttpRequest, person: Person) -> Waiting:
    """How many questions wait for the person, read once per request."""
    known: Waiting | None = getattr(request, "_waiting", None)
    if known is None:
        known = waiting(person)
        request._waiting = known  # type: ignore[attr-defined]  # kept for this request
    return known
