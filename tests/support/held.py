"""Settings of a process whose interpreter somebody will hold for ever: given as DJANGO_SETTINGS_MODULE."""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path

from django.apps import AppConfig

from taskhub.config.settings import *  # noqa: F403 - a settings module is made of all names of another
from taskhub.config.settings import INSTALLED_APPS as USUAL

INSTALLED_APPS = [*USUAL, f"{__name__}.Held"]


class Held(AppConfig):
    """From when the file `HOLD` is there, nothing else in the process has a turn. It is stuck sooner than usual."""

    name = "tests.support"
    label = "held"

    def ready(self) -> None:
        """Before the command runs."""
        from taskhub.lib import ending

        ending.STUCK_SECONDS = 20.0
        threading.Thread(target=_hold, args=(Path(os.environ["HOLD"]),), daemon=True).start()


def _hold(file: Path) -> None:
    while not file.exists():
        time.sleep(0.02)
    re.match(r"(a+)+$", "a" * 60 + "b")  # which holds the interpreter for longer than anybody lives
