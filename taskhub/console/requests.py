"""The request as the console's views see it: after the middleware, past the gate."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from taskhub.control.caller import Caller
from taskhub.core.records import Person


class ConsoleRequest(HttpRequest):
    """A request of a signed-in person with a role. Never built: views are typed with it."""

    person: Person
    caller: Caller
    htmx: HtmxDetails
