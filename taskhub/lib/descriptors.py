"""How many files and sockets a process may have open."""

from __future__ import annotations

import resource


def raise_open_files() -> None:
    """As many as the system allows, instead of the 1,024 that most shells begin with: each stream needs one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
