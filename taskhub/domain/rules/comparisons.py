"""Comparisons in the expressions of rules. Each returns `None` if it is in doubt, which CEL then treats as an error."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from taskhub.domain.rules.conditions import double, likeness


def same(one: Any, other: Any) -> bool | None:
    """`one == other`, as rules compare. `None` (in doubt) for values of different types, and if only one value is
    null."""
    if one is None or other is None:
        return True if one is other else None
    if isinstance(one, bool) != isinstance(other, bool):
        return None
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        # Many parsers read JSON numbers as doubles, in which 2**53 + 1 equals 2**53.
        return True if one == other else None if double(one) == double(other) else False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and _every([same(*pair) for pair in zip(one, other, strict=True)])
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and _every([same(value, other[name]) for name, value in one.items()])
    return bool(one == other) if type(one) is type(other) else None


def among(one: Any, values: Any) -> bool | None:
    """`one in values`, for the items of a list and the keys of a map."""
    if isinstance(values, dict):
        return one in values if isinstance(one, str) else None
    if not isinstance(values, list):
        return None
    if isinstance(one, str):  # most lists are of texts, and this is ten times as fast
        return True if one in values else None if any(not isinstance(value, str) for value in values) else False
    found = [same(one, value) for value in values]
    return True if True in found else None if None in found else False


def like(found: Any, wanted: Any) -> bool | None:
    """Whether `found` is `wanted`; `None` (in doubt) if a tool could take `found` for `wanted`, because `found` differs
    only in type, case, width, accents, blanks or invisible characters, or contains `wanted` and more
    (`domain.rules.conditions`)."""
    why = likeness(found, wanted)
    return True if why == "is" else None if why else False


def matches(text: Any, regular: Any) -> bool | None:
    """Whether the regular expression matches a part of the text; `None` (in doubt) if `text` is no text."""
    return pattern(regular).search(text) is not None if isinstance(text, str) else None


@lru_cache(maxsize=500)
def pattern(regular: str) -> Any:
    """The compiled regular expression. Raises `ValueError` if `regular` is no regular expression of RE2, or is too
    large."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regular, options)
    except re2.error as error:
        raise ValueError(str(error)) from None


def _every(found: list[bool | None]) -> bool | None:
    return False if False in found else None if None in found else True
