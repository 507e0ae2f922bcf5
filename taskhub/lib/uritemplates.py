"""Whether a URI could have come from a URI template (RFC 6570).

The RFC defines expansion only; `matches` is the inverse, without finding the values. It moves a set of positions
through the URI instead of backtracking, so that no template and no URI can make it slow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

MAX_PARTS = 64
"""The most parts of a template. One with more matches no URI."""

_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_EXCLUDED = {"": "/?#", "+": "", "#": "", ".": "/?#", "/": "/?#", ";": "/?#", "?": "#", "&": "#"}
_LEAD = {"#", ".", "/", ";", "?", "&"}


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a template: literal `text`, or an expression. The text of an expression begins with the character
    `lead`, if that is not empty, and ends before any character in `excluded`. An expression with a lead may be absent
    from the URI, as when its variable is undefined."""

    text: str = ""
    lead: str = ""
    excluded: str | None = None


def matches(template: str, uri: str) -> bool:
    """Whether the template expands to the URI for some values of its variables."""
    parts = _parts(template)
    if parts is None:
        return False
    at = {0}
    for part in parts:
        if part.excluded is None:
            at = {start + len(part.text) for start in at if uri.startswith(part.text, start)}
        else:
            at = _after(part, uri, at)
        if not at:
            return False
    return len(uri) in at


def _after(part: _Part, uri: str, at: set[int]) -> set[int]:
    """The positions at which the expression can end, if it begins at one of the positions `at`."""
    assert part.excluded is not None
    found = set(at) if part.lead else set()
    reached = -1
    for start in sorted(at):
        if part.lead and not uri.startswith(part.lead, start):
            continue
        end = start + 1 if part.lead else start
        if part.lead:
            found.add(end)
        # Positions before `reached` are known from an earlier start.
        end = max(end, reached)
        while end < len(uri) and uri[end] not in part.excluded:
            end += 1
            found.add(end)
        reached = max(reached, end)
    return found


@lru_cache(maxsize=4_096)
def _parts(template: str) -> tuple[_Part, ...] | None:
    """The parts of a template; `None` for one that is broken or too long."""
    found: list[_Part] = []
    end = 0
    for expression in _EXPRESSION.finditer(template):
        found.append(_Part(text=template[end : expression.start()]))
        operator, names = expression.groups()
        several = "*" in names or "," in names
        excluded = "?#" if operator == "/" and several else _EXCLUDED[operator]
        found.append(_Part(lead=operator if operator in _LEAD else "", excluded=excluded))
        end = expression.end()
    found.append(_Part(text=template[end:]))
    broken = any("{" in part.text or "}" in part.text for part in found)
    return None if broken or len(found) > MAX_PARTS else tuple(found)
