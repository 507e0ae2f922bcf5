"""Decides whether a tool could take an argument for a value that a rule names. If that is not certain, the tool could.

Tools accept more than their schema says (`"false"` for `false`, `"100"` for 100). So an argument certainly has another
value only if it has the same JSON type, and differs even when case, width, accents, blanks and invisible characters are
ignored. A tool could also take an array or object that contains the named value and more for that value.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Set
from typing import Any, Final

from taskhub.lib.signs import without_invisible

LONGEST: Final = 1_000
"""The most characters of a text, and most values of an array, that are compared. Whether a longer text or array is the
value is in doubt."""
MISSING: Final = object()
"""Stands for a value that is not there."""


def schema_of(schema: Any, name: str) -> Any:
    """The schema of one argument by the tool's `inputSchema`; `MISSING` if there is none."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties.get(name, MISSING) if isinstance(properties, dict) else MISSING


def listed_in(schema: Any) -> Set[str]:
    """The names of the arguments that the tool's `inputSchema` lists."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties.keys() if isinstance(properties, dict) else frozenset()


def alone(schema: Any, rule: Any) -> Any:
    """The part `rule` of a schema as a schema of its own, with the definitions that it may refer to."""
    tables = {word: schema[word] for word in ("$defs", "definitions") if word in schema}
    return {**tables, **rule} if isinstance(rule, dict) else rule


def likeness(found: Any, wanted: Any) -> str:
    """Why a tool could take the argument `found` for the value `wanted` of a rule: `is`, `missing`, `null`, `type`
    (another JSON type), `like` (the same but for its spelling), `more` (an array with that and more) or `long` (too
    long to compare). Empty if the tool certainly could not."""
    if found is MISSING:
        return "missing"
    if found is None and wanted is not None:
        return "null"
    if _type(found) != _type(wanted):
        return "type"
    if isinstance(wanted, dict):
        return _worst([likeness(found.get(name, MISSING), value) for name, value in wanted.items()])
    if isinstance(wanted, list):
        return _why_array(found, wanted)
    if found == wanted:
        return "is"
    if isinstance(wanted, str):
        return _why_text(found, wanted)
    # Many parsers read JSON numbers as doubles, in which 2**53 + 1 equals 2**53.
    return "like" if not isinstance(wanted, bool) and double(found) == double(wanted) else ""


def _why_array(found: list[Any], wanted: list[Any]) -> str:
    if len(found) == len(wanted) and (why := _worst([likeness(*pair) for pair in zip(found, wanted, strict=True)])):
        return why
    if max(len(found), len(wanted)) > LONGEST:
        return "long"
    return "more" if all(any(likeness(one, value) for one in found) for value in wanted) else ""


def _why_text(found: str, wanted: str) -> str:
    if max(len(found), len(wanted)) > LONGEST:
        return "long"
    if may_be_json(found):
        return "type"
    return "like" if _plain(found) == _plain(wanted) else ""


def may_be_json(text: str) -> bool:
    """Whether the MCP SDK for Python would read the text as JSON and pass the result on instead. It does for arrays,
    objects and null, if the tool's parameter may be something else than text."""
    return text.lstrip()[:1] in ("[", "{") or text.strip() == "null"


def _worst(reasons: list[str]) -> str:
    """The code for an array or object, from the codes of its parts. If one code is empty, the whole is certainly
    different: empty. Otherwise the first code that is not `is`."""
    if not all(reasons):
        return ""
    return next((why for why in reasons if why != "is"), "is")


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return type(value).__name__


def double(value: float) -> float:
    """The number as many parsers of JSON read it."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _plain(text: str) -> str:
    """The text without what a comparison should ignore: case, width, accents, blanks and invisible characters."""
    apart = without_invisible(unicodedata.normalize("NFKD", text))
    seen = "".join(sign for sign in apart if unicodedata.category(sign)[0] not in "CMZ")
    return seen.upper().casefold()  # `upper` first: only it makes a dotless i the same as an i
