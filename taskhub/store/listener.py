"""A connection that hears hints by LISTEN, and reconnects by itself.

Postgres keeps no notifications for a listener that is away, so every (re)connection is reported as a gap: the caller of
`listen` must read the database again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any, Final

import psycopg
from django.conf import settings
from psycopg import sql

from taskhub.core.names import HINT_CHANNEL
from taskhub.store.session import begin_async

logger = logging.getLogger(__name__)

PROBE_SECONDS = 5.0
"""The interval at which the connection is tested, to notice one that is broken without an error."""
_LOCK: Final = 7225
"""The first key of the advisory locks that living processes hold (`th_web_gone` checks them)."""


async def listen(
    on_hint: Callable[[str], None], on_gap: Callable[[], None], *, channel: str = HINT_CHANNEL, alive: str = ""
) -> None:
    """Call `on_hint(hint)` for each hint (a notification may carry several), and `on_gap()` after each (re)connection,
    for ever. The connection holds an advisory lock for the word `alive`, which shows others that this process lives:
    Postgres releases the lock when the process is killed.

    Ends only by cancellation. While the database is away, it tries again (after 0.2 s, doubling to 5 s).
    """
    pause, away = 0.2, False
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(**_parameters(), autocommit=True)
            async with connection:
                connection.add_notify_handler(lambda notify: _pass_on(notify.payload, on_hint))
                async with asyncio.timeout(PROBE_SECONDS):
                    await begin_async(connection)
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                    if alive:
                        # Shared, since Postgres may not have ended an earlier connection of this process yet.
                        await connection.execute("SELECT pg_advisory_lock_shared(%s, hashtext(%s))", [_LOCK, alive])
                if away:
                    logger.warning("hints are back")
                pause, away = 0.2, False
                on_gap()
                while True:
                    await _hear(connection, on_hint, PROBE_SECONDS)
                    async with asyncio.timeout(PROBE_SECONDS):
                        await connection.execute("SELECT 1")
        except (psycopg.Error, OSError, TimeoutError) as error:
            if not away:
                why = (str(error).strip() or type(error).__name__).splitlines()[0]
                logger.warning("hints are away, and asked for again until they are back: %s", why)
            away = True
            logger.debug("hints are asked for again in %.1f s", pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5.0)


def _pass_on(payload: str, on_hint: Callable[[str], None]) -> None:
    for hint in payload.split(";"):
        on_hint(hint)


async def _hear(connection: psycopg.AsyncConnection[Any], on_hint: Callable[[str], None], seconds: float) -> None:
    """Pass on the hints that arrive within `seconds`. Raises `psycopg.Error` when the connection breaks.

    Under load a notification arrives every few milliseconds in every process. psycopg's own
    generator costs several times as much for each notification as this reader of the socket.
    """
    loop = asyncio.get_running_loop()
    broken: asyncio.Future[None] = loop.create_future()
    # A second descriptor of the same socket. libpq closes its own as soon as it sees the end of the
    # connection, and the number may go to the next client at once: a reader still registered under it, or
    # removed too late, would cut off that client's connection for good.
    watched = os.dup(connection.fileno())

    def read() -> None:
        try:
            connection.pgconn.consume_input()
            while (notify := connection.pgconn.notifies()) is not None:
                _pass_on(notify.extra.decode(), on_hint)
        except Exception as error:  # noqa: BLE001 - handed to the waiting caller
            # At its end a connection stays readable: the loop would call `read` again and again.
            loop.remove_reader(watched)
            if not broken.done():
                broken.set_exception(error)

    loop.add_reader(watched, read)
    try:
        async with asyncio.timeout(seconds):
            await broken
    except TimeoutError:
        pass
    finally:
        loop.remove_reader(watched)
        os.close(watched)


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
        if key not in ("application_name", "pool", "prepare_threshold")
    }
    return {key: value for key, value in {**given, **options}.items() if value}
