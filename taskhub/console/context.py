"""What every page's frame needs."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def frame(request: HttpRequest) -> dict[str, object]:
    """Version and person for the frame around each page."""
    return {"version": settings.VERSION, "person": getattr(request, "person", None)}
