"""The request as views of the console get it: after the middleware and the check of access."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from taskhub.control.caller import Caller
from taskhub.core.records import Person


class ConsoleRequest(HttpRequest):
    """A request of a signed-in person with a role. Never instantiated: only a type for views."""

    person: Person
    caller: Caller
    htmx: HtmxDetails
