"""The type of the request that console views get, after the middleware and `access.page`."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from taskhub.control.caller import Caller
from taskhub.core.records import Person


class ConsoleRequest(HttpRequest):
    """A request of a signed-in person with a role. A type for annotations, never instantiated."""

    person: Person
    caller: Caller
    htmx: HtmxDetails
