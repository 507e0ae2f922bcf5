"""How servers are spoken to."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

CALLS_AT_ONCE: Final = MappingProxyType({"python": 64, "stdio": 1, "http": 20})
"""Calls of one worker at one server at once, by transport, unless the server has a number of its own. A command is one
process with its own state, so its calls take turns."""

MOST_AT_ONCE: Final = 1_000
"""The highest number that can be set for a server."""
