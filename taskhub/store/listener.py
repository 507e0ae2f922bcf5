"""One LISTEN connection that comes back by itself.

Postgres drops notifications for a listener that is away, so every (re)connection is
announced as a gap: the owner must look at the truth again. A hint is never the data.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import psycopg
from django.conf import settings
from psycopg import sql

from taskhub.core.names import HINT_CHANNEL

logger = logging.getLogger(__name__)

PROBE_SECONDS = 5.0
"""A silent connection is asked for a sign of life this often: a half-dead one is noticed."""


async def listen(on_hint: Callable[[str], None], on_gap: Callable[[], None], *, channel: str = HINT_CHANNEL) -> None:
    """Call `on_hint(hint)` for each hint (a notification may carry several), and `on_gap()`
    after each (re)connection, for ever.

    Ends only by cancellation; a database that is away is waited for (0.2 s, doubling to 5 s).
    """
    pause = 0.2
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(**_parameters(), autocommit=True)
            async with connection:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                pause = 0.2
                on_gap()
                while True:
                    async for notify in connection.notifies(timeout=PROBE_SECONDS):
                        for hint in notify.payload.split(";"):
                            on_hint(hint)
                    async with asyncio.timeout(PROBE_SECONDS):
                        await connection.execute("SELECT 1")
        except (psycopg.Error, OSError, TimeoutError) as error:
            logger.warning("hints are away, trying again in %.1f s: %s", pause, str(error).splitlines()[0:1])
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5.0)


def _parameters() -> dict[str, Any]:
    database: dict[str, Any] = settings.DATABASES["default"]
    given = {
        "dbname": database["NAME"],
        "user": database["USER"],
        "password": database["PASSWORD"],
        "host": database["HOST"],
        "port": database["PORT"],
        "application_name": "taskhub-hints",
        "connect_timeout": 5,
    }
    options = {
        key: value
        for key, value in database["OPTIONS"].items()
        if key not in ("options", "application_name", "pool", "prepare_threshold")
    }
    return {key: value for key, value in {**given, **options}.items() if value}
