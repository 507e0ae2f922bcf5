"""Parts of pages that are the same for many people. When a hundred who look at one list get the same hint, the list is
read and rendered once."""

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
"""Parts that a process keeps: those that were last asked for."""
SHARED_SECONDS: Final = 5.0
"""How long a part is reused at most, even without news, since a hint may be lost."""


@dataclass
class _Part:
    """A rendered part, and how much had been heard when it was made. `making` is held to check or renew it."""

    making: threading.Lock = field(default_factory=threading.Lock)
    heard: int = -1
    until: float = 0.0
    body: bytes = b""


_parts: OrderedDict[tuple[int, str, str], _Part] = OrderedDict()
_adding = threading.Lock()


def shared(request: ConsoleRequest, element: str, make: Callable[[], HttpResponse]) -> HttpResponse:
    """`make()`, or the content that it had for somebody of the same role at the same address, if there was no news
    since. Only for the element that refetches itself on a hint: a person who presses something gets a fresh read."""
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
