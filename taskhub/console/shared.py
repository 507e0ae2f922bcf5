"""A cache of rendered partials: when one hint makes a hundred browsers refetch the same list, the list is read and
rendered once per process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from django.http import HttpResponse

from taskhub.console.requests import ConsoleRequest
from taskhub.domain.hints.generation import heard

MOST_SHARED: Final = 64
"""How many partials a process keeps: the most recently used."""
SHARED_SECONDS: Final = 5.0
"""The most seconds for which a partial is reused, even if no hint arrives, because a hint may be lost."""


@dataclass
class _Part:
    """A rendered partial, with the number of the tenant's hints (`generation.heard`) before its data was read. The lock
    `making` is held while the partial is checked or rendered again."""

    making: threading.Lock = field(default_factory=threading.Lock)
    heard: int = -1
    until: float = 0.0
    body: bytes = b""


_parts: OrderedDict[tuple[int, str, str], _Part] = OrderedDict()
_adding = threading.Lock()


def shared(request: ConsoleRequest, element: str, make: Callable[[], HttpResponse]) -> HttpResponse:
    """The response of `make()`. Its last response for somebody of the same tenant and role at the same URL is used
    again, if no hint has arrived since, for `SHARED_SECONDS` at most.

    Only requests that `element` sends by itself, on a hint, are served from the cache, never a person's click.
    """
    if request.htmx.trigger != element:
        return make()
    part = _part((request.person.tenant_id, str(request.person.role), request.get_full_path()))
    with part.making:
        now = heard(request.person.tenant_id)
        if part.heard == now and time.monotonic() < part.until:
            return HttpResponse(part.body)
        response = make()
        if response.status_code == 200:
            part.heard, part.until, part.body = now, time.monotonic() + SHARED_SECONDS, response.content
        return response


def _part(key: tuple[int, str, str]) -> _Part:
    with _adding:
        part = _parts.setdefault(key, _Part())
        _parts.move_to_end(key)
        while len(_parts) > MOST_SHARED:
            _parts.popitem(last=False)
        return part
