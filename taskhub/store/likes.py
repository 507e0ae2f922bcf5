"""Text in a `LIKE` of SQL."""

from __future__ import annotations


def escaped_like(text: str) -> str:
    """`text` as a pattern of `LIKE` that finds just it: a backslash, `%` and `_` stand for themselves."""
    return text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
