"""Column types Django lacks."""

from __future__ import annotations

import json
from typing import Any

from django.db import models


class JsonText(models.JSONField):
    """JSON stored as `json`, not `jsonb`, so that the order of keys is kept.

    For foreign JSON that is only shown or passed on (tool definitions, forms): the order of a
    form's properties is the order of its fields. Not for searching.
    """

    def db_type(self, connection: Any) -> str:
        """Postgres `json`."""
        return "json"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """The decoded value: psycopg decodes `json`, but a cast in the query may return text."""
        return json.loads(value) if isinstance(value, str) else value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """The value as JSON text: Django's own would send `jsonb`, which loses the order of keys."""
        if value is None or hasattr(value, "as_sql"):
            return value
        return json.dumps(value, ensure_ascii=False)
