"""The database for a command that runs beside `up`, or without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import SubprocessError

from django.conf import settings
from django.core.management.base import CommandError
from django.db import OperationalError, ProgrammingError, connection
from psycopg.errors import UndefinedFunction, UndefinedTable

from taskhub.cli.embedded import Embedded
from taskhub.cli.lockfile import LockHeld
from taskhub.cli.sockets import NotPrivate
from taskhub.store.functions import NewerSchemaError, check_newer


def refuse_newer() -> None:
    """Raises `CommandError` where the database belongs to a release this one does not work beside. Says nothing
    while it is away: whoever starts waits for it."""
    try:
        check_newer()
    except NewerSchemaError as error:
        raise CommandError(str(error)) from None
    except OperationalError:
        pass
    finally:
        connection.close()


@contextmanager
def need_database() -> Iterator[None]:
    """A reachable database. The embedded one is started for the duration if `up` does not run it.
    Raises `CommandError` with one clear line."""
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
        raise CommandError(f"The database is away: {str(error).strip().splitlines()[0]}") from None
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
