"""Parses JSON that an MCP server sent, for pages. It may be of any type, or unreadable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskhub.lib import jsonx
from taskhub.store.statements import from_json


@dataclass(frozen=True, slots=True)
class Foreign:
    """A JSON object from a server. If there is none, `found` is empty and `unreadable` says why."""

    found: dict[str, Any]
    unreadable: str = ""


def foreign(value: Any) -> Foreign:
    """Parse a JSON column, selected as text, that holds JSON from a server. Does not raise for an unreadable value, so
    that a page can show its other rows."""
    try:
        found = from_json(value)
        jsonx.check(found)
    except RecursionError:
        return Foreign({}, "It is nested too deep.")
    except ValueError as error:  # such as a number of more digits than Python reads
        return Foreign({}, f"It cannot be read: {str(error)[:200]}.")
    return Foreign(found) if isinstance(found, dict) else Foreign({}, "It is no object.")


def object_of(value: Any) -> dict[str, Any]:
    """The object in a JSON column, selected as text; an empty object if the column holds anything else."""
    found = from_json(value)
    return found if isinstance(found, dict) else {}
