"""Settings of a hub that beats, listens and tidies up more often than is good for a database: for tests that would
wait for that. Given to its processes as DJANGO_SETTINGS_MODULE; the worker and the web server are started like `up`."""

from __future__ import annotations

from typing import Any, Final

import procrastinate
from django.apps import AppConfig

from taskhub.config.settings import *  # noqa: F403 - a settings module is made of all names of another
from taskhub.config.settings import INSTALLED_APPS as USUAL

HASTY: Final = {"DJANGO_SETTINGS_MODULE": __name__, "TASKHUB_LEASE_SECONDS": "4"}
"""What to start a `RunningHub` with."""
LOOK_SECONDS: Final = 2.0
"""A busy machine may keep a process still for several times its second between two beats, not for six looks."""
POOL_SECONDS: Final = 3.0

INSTALLED_APPS = [*USUAL, f"{__name__}.Hasty"]


class Hasty(AppConfig):
    """Changes what is no setting, since nobody who runs a hub has a use for it."""

    name = "tests.support"
    label = "hasty"

    def ready(self) -> None:
        """Before the command runs. What the log says of a silence names the usual time."""
        from taskhub.cli import vitals
        from taskhub.worker import engine, jobs

        engine.HEARTBEAT_SECONDS = engine.SWEEP_SECONDS = engine.SEAL_SECONDS = 1.0
        vitals.LOOK_SECONDS = vitals.PROBE_SECONDS = LOOK_SECONDS
        usual = jobs.app

        def impatient() -> procrastinate.App:
            """Its pool hands out no connection for 30 s before it says so."""
            app = usual()
            connector: Any = app.connector  # typed as the base class
            connector._pool_args["timeout"] = POOL_SECONDS
            return app

        jobs.app = impatient
