"""How many calls a server gets at once, by transport, and how long it has to connect."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

CALLS_AT_ONCE: Final = MappingProxyType({"python": 64, "stdio": 20, "http": 20})
"""The most calls that one worker makes to one server at once, by transport, if no number is set for the server. The
number for a command (`stdio`) is for all its processes together."""

SSE: Final = "sse+"
"""What is put before the address of a server that speaks HTTP with SSE, as of 2024."""

MOST_AT_ONCE: Final = 1_000
"""The most calls at once that can be set for a server."""

CONNECT_SECONDS: Final = 15
"""Seconds in which a connection has to be made and agreed on, if no number is set for the server."""

MOST_CONNECT_SECONDS: Final = 120
"""The most seconds to connect that can be set for a server."""
