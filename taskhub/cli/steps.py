"""The lines that `up` prints while it starts, one for each step."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path


class Steps:
    """Prints steps by `write`, a function that puts text on the terminal unchanged."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._open = False

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print `text` before the block, and `done` on the same line after it, unless the block raises."""
        self._write(f"  {text} … ")
        self._open = True
        try:
            yield
        except BaseException:
            self.interrupt()
            raise
        self._write("done\n" if self._open else f"  {text} … done\n")
        self._open = False

    def interrupt(self) -> None:
        """End an unfinished line. Call this before anything else is printed."""
        if self._open:
            self._write("\n")
            self._open = False


def runner() -> str:
    """The beginning of the command line with which a person runs `manage.py` on this machine."""
    return "uv run manage.py" if shutil.which("uv") else f"{Path(sys.executable).name} manage.py"
