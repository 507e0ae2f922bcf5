"""What `up` prints while it starts: a line for each step, then what went wrong or where the hub is."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path


class Steps:
    """`write` puts text on the terminal as it is."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._open = False

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print what is done now, and on the same line that it is done, unless the block raises."""
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
        """End an unfinished line, before something else is printed."""
        if self._open:
            self._write("\n")
            self._open = False


def runner() -> str:
    """How commands are run here, as a person would type it."""
    return "uv run manage.py" if shutil.which("uv") else f"{Path(sys.executable).name} manage.py"
