"""JSON that a server sent, for pages: it may hold anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskhub.lib import jsonx
from taskhub.store.statements import from_json


@dataclass(frozen=True, slots=True)
class Foreign:
    """An object; or an empty one, and why what was sent cannot be read."""

    found: dict[str, Any]
    unreadable: str = ""


def foreign(value: Any) -> Foreign:
    """The value of a JSON column, selected as text, that holds what a server sent. An unreadable value must not keep
    people from the other rows of a page."""
    try:
        found = from_json(value)
        jsonx.check(found)
    except RecursionError:
        return Foreign({}, "It is nested too deep.")
    except ValueError as error:  # such as a number of more digits than Python reads
        return Foreign({}, f"It cannot be read: {str(error)[:200]}.")
    return Foreign(found) if isinstance(found, dict) else Foreign({}, "It is no object.")


def object_of(value: Any) -> dict[str, Any]:
    """A JSON column that should hold an object; anything else counts as an empty one."""
    found = from_json(value)
    return found if isinstance(found, dict) else {}
