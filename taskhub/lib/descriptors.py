"""How many files and sockets a process may have open."""

from __future__ import annotations

import resource


def raise_open_files() -> None:
    """Raise the limit of open files to the highest that is allowed, because each stream needs a file, and most shells
    begin with a limit of 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
