"""Escapes text for `LIKE` in SQL."""

from __future__ import annotations


def escaped_like(text: str) -> str:
    """`text` as a `LIKE` pattern that matches it literally, with any backslash, `%` and `_` escaped."""
    return text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
