"""What every page's frame needs."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest

from taskhub.core.names import HINT_SOCKET


def frame(request: HttpRequest) -> dict[str, object]:
    """Version, person and the socket of hints, for the frame around each page."""
    return {
        "version": settings.VERSION,
        "person": getattr(request, "person", None),
        "socket": f"/{HINT_SOCKET}",
    }
