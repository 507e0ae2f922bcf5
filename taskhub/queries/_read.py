"""Reading for pages: Django's own cursor, so that tests can count and the debug log can show it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import Error, connection

from taskhub.lib import jsonx
from taskhub.store import call


def read(sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
    """All rows. Raises `Unavailable` when the database is away or takes too long."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            found: list[tuple[Any, ...]] = cursor.fetchall()
    except Error as error:
        call.raise_for(error)
        raise
    return found


def foreign(value: Any) -> tuple[dict[str, Any], str]:
    """A json column that holds what a server sent, selected as text: the object, or an empty one and why it
    cannot be read. It is one row among those of others, who want to read theirs."""
    try:
        found = loaded(value)
        jsonx.check(found)
    except RecursionError:
        return {}, "It is nested too deep."
    except ValueError as error:  # such as a number of more digits than Python reads
        return {}, f"It cannot be read: {str(error)[:200]}."
    return (found, "") if isinstance(found, dict) else ({}, "It is no object.")


def loaded(value: Any) -> Any:
    """A json column: Django's cursor hands it over as text."""
    return json.loads(value) if isinstance(value, str) else value
