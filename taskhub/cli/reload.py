"""`up --reload`, for development: parts are restarted when their source files change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from django.conf import settings
from django.core.management.base import CommandError

FOLDERS: Final = ("taskhub", "templates", "static")


def follow_changes(changed: Callable[[str, bool], None]) -> None:
    """Call `changed(file, everywhere)`, from a thread, for each file that changes. `everywhere`: whether both web and
    workers use the file (Python and statements), and not only the web server. Changed functions and tables need a
    migration, which only a new start of `up` makes."""
    try:
        from watchfiles import DefaultFilter, watch
    except ImportError:
        raise CommandError("--reload needs watchfiles, which comes with the tools of developers: uv sync") from None

    ours = DefaultFilter()
    base = Path(settings.BASE_DIR)

    def look() -> None:
        for changes in watch(*(base / folder for folder in FOLDERS), watch_filter=ours, raise_interrupt=False):
            files = sorted(path for _, path in changes)
            python = [path for path in files if path.endswith((".py", "statements.sql"))]
            changed(str(Path((python or files)[0]).relative_to(base)), bool(python))

    threading.Thread(target=look, name="reload", daemon=True).start()
