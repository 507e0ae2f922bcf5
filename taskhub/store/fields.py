"""Column types Django lacks."""

from __future__ import annotations

import json
from typing import Any

from django.db import models


class JsonText(models.JSONField):
    """JSON stored as `json`, not `jsonb`: kept as it came, key order and all.

    For what others wrote and we only show or pass on (tool definitions, forms): the order of a
    form's properties is the order of its fields. Not for searching.
    """

    def db_type(self, connection: Any) -> str:
        """Postgres `json`."""
        return "json"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """psycopg has decoded `json` already; a cast may still hand over text."""
        return json.loads(value) if isinstance(value, str) else value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """Text, so that it never passes through `jsonb` on the way."""
        if value is None or hasattr(value, "as_sql"):
            return value
        return json.dumps(value, ensure_ascii=False)
