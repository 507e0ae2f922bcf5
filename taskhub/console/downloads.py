"""JSON of others as a file, whole, where a page shows only the beginning."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpResponse

from taskhub.lib.signs import escaped_json


def download(value: Any, name: str) -> HttpResponse:
    """`value` as a file with this name; JSON text as it is stored. What nobody would see in it, a lone surrogate among
    that, is written as an escape, as on pages."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    response = HttpResponse(escaped_json(text).encode(errors="backslashreplace"), content_type="application/json")
    # The browser must save it: what others wrote is never rendered as a page of this site.
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
