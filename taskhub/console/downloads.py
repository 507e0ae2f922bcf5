"""Downloads of JSON that others wrote. A download is complete, where a page shows only the beginning."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpResponse

from taskhub.lib.signs import escaped_json


def download(value: Any, name: str) -> HttpResponse:
    """A download of `value` under the file name `name`. A string is taken as JSON text and stays as it is stored; any
    other value is encoded. Invisible characters and lone surrogates are written as escapes, as on pages."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    response = HttpResponse(escaped_json(text).encode(errors="backslashreplace"), content_type="application/json")
    # The browser must save it: what others wrote is never rendered as a page of this site.
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
