"""How servers are spoken to."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

CALLS_AT_ONCE: Final = MappingProxyType({"python": 64, "stdio": 1, "http": 20})
"""Of one worker at one server, by transport, where nobody has said otherwise. A command is one process, because its
state is its own: its calls take turns."""

MOST_AT_ONCE: Final = 1_000
"""What a person may say for one server."""
