"""Database access for commands that run while `up` runs, or without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import SubprocessError

import psycopg
from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, OperationalError, ProgrammingError, connection
from psycopg.errors import UndefinedFunction, UndefinedTable

from taskhub.cli.embedded import Embedded
from taskhub.cli.lockfile import LockHeld
from taskhub.cli.sockets import NotPrivate
from taskhub.core.errors import Unavailable
from taskhub.store.call import explained
from taskhub.store.functions import NewerSchemaError, check_newer


def refuse_newer() -> None:
    """Raise `CommandError` if a newer release has migrated the database so that this one cannot work with it. Does not
    raise while the database is away, because processes wait for it when they start."""
    try:
        check_newer()
    except NewerSchemaError as error:
        raise CommandError(str(error)) from None
    except OperationalError:
        pass
    finally:
        connection.close()


@contextmanager
def need_database(*, failed: int = 1) -> Iterator[None]:
    """Make the database reachable in the block: if `up` does not run, the embedded Postgres is started, and stopped
    after the block. If the database cannot be reached, goes away or is full, raise `CommandError` with one line and the
    exit code `failed`."""
    try:
        with _database():
            yield
    except CommandError as error:
        raise CommandError(str(error), returncode=error.returncode if error.returncode != 1 else failed) from None
    except (Unavailable, psycopg.Error, DatabaseError) as error:
        known = explained(error)
        if not isinstance(known, Unavailable):
            raise
        raise CommandError(known.message, returncode=failed) from None


@contextmanager
def _database() -> Iterator[None]:
    started: Embedded | None = None
    if settings.EMBEDDED_DATABASE:
        if not (settings.DATA_DIR / "pg" / "PG_VERSION").exists():
            raise CommandError(
                f"There is no database in {settings.DATA_DIR} yet: run `manage.py up` once, or set DATABASE_URL."
            )
        embedded = Embedded(settings.DATA_DIR)
        if not embedded.running():
            try:
                embedded.start()
            except (LockHeld, NotPrivate, SubprocessError) as error:
                raise CommandError(f"The embedded Postgres did not start: {error}") from None
            started = embedded
        connection.settings_dict["HOST"] = str(embedded.directory())
    try:
        connection.ensure_connection()
    except OperationalError as error:
        raise CommandError(_unreachable(error)) from None
    try:
        check_newer()
        yield
    except NewerSchemaError as error:
        raise CommandError(str(error)) from None
    except ProgrammingError as error:
        if isinstance(error.__cause__, (UndefinedTable, UndefinedFunction)):
            raise CommandError("The database is not migrated: run `manage.py migrate`.") from None
        raise
    except (UndefinedTable, UndefinedFunction):
        raise CommandError("The database is not migrated: run `manage.py migrate`.") from None
    finally:
        if started is not None:
            connection.close()
            started.stop()


def _unreachable(error: OperationalError) -> str:
    """Why there is no connection, as text for people; the server's own reason if it refused, such as a bad password."""
    said = str(error).strip().splitlines()[0]
    _, fatal, why = said.partition("FATAL:")
    return f"The database refuses us: {why.strip()}" if fatal else f"The database is away: {said}"
