"""Parts of pages that are the same for many. A hundred people look at one list, all are told at the same moment to look
again: it is read and rendered once."""

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
"""Parts that a process keeps, the latest asked for."""
SHARED_SECONDS: Final = 5.0
"""How long one is given out, also where no news came: a hint may be lost."""


@dataclass
class _Part:
    """A part as it was made when so much had been heard. Whoever holds `making` looks at it and may make it anew."""

    making: threading.Lock = field(default_factory=threading.Lock)
    heard: int = -1
    until: float = 0.0
    body: bytes = b""


_parts: OrderedDict[tuple[int, str, str], _Part] = OrderedDict()
_adding = threading.Lock()


def shared(request: ConsoleRequest, element: str, make: Callable[[], HttpResponse]) -> HttpResponse:
    """`make()`, or its content as somebody of the same role got it since the last news, at the same address. Only for
    the element that asks by itself because of a hint: who presses something reads for themselves."""
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
