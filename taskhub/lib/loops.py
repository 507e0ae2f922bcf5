"""The event loop that everything here runs in: uvloop, where there is one for this Python."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    from uvloop import new_event_loop
except ImportError:  # some platforms, and each new Python for its first weeks
    from asyncio import new_event_loop  # type: ignore[assignment]

T = TypeVar("T")

__all__ = ["new_event_loop", "run"]


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in such a loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
