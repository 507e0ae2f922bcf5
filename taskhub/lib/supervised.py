"""A part started by `up` ends with it, also when `up` was killed and could not say goodbye."""

from __future__ import annotations

import os
import signal
import threading
import time


def follow_supervisor() -> None:
    """Send this process SIGTERM once its supervisor is gone."""
    supervisor = os.environ.get("TASKHUB_SUPERVISOR")
    if not supervisor:
        return

    def watch() -> None:
        while os.getppid() == int(supervisor):
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="supervisor-watch", daemon=True).start()
