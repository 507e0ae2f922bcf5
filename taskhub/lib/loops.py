"""The event loop of TaskHub's processes: uvloop's, or asyncio's own where uvloop is not installed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    from uvloop import new_event_loop
except ImportError:  # not available on some platforms, nor for a new version of Python in its first weeks
    from asyncio import new_event_loop  # type: ignore[assignment]

T = TypeVar("T")

__all__ = ["new_event_loop", "run"]


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` with `new_event_loop` as the loop factory."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
