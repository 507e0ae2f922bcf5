"""The request as the console's views see it: after the middleware, past the gate."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from taskhub.core.records import Actor, Person
from taskhub.core.states import Door


class ConsoleRequest(HttpRequest):
    """A request of a signed-in person with a role. Never built: views are typed with it."""

    person: Person
    htmx: HtmxDetails


def actor_of(request: ConsoleRequest, reason: str = "") -> Actor:
    """Who acts, for the audit: the person, through the web door."""
    return Actor(
        name=request.person.username,
        door=Door.WEB,
        address=request.META.get("REMOTE_ADDR") or "",
        user_id=request.person.user_id,
        reason=reason,
    )
