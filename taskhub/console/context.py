"""The template context processor for the frame around each page."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest

from taskhub.core.names import HINT_SOCKET


def frame(request: HttpRequest) -> dict[str, object]:
    """The version, the signed-in person and the path of the WebSocket for hints."""
    return {
        "version": settings.VERSION,
        "person": getattr(request, "person", None),
        "socket": f"/{HINT_SOCKET}",
    }
