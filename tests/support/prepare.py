"""The first steps of `up`, in the order it takes them, as a program of its own; see `_prepared` in `hub.py`. Its
argument is the name of a database to make from the one that is migrated and has nothing else yet."""

from __future__ import annotations

import os
import sys

import django
import psycopg
from psycopg import sql


def main() -> None:
    """Migrate the database and fill the data directory of the environment."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "taskhub.config.settings"
    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection

    from taskhub.cli.firstrun import make_people
    from taskhub.cli.static import collect_if_changed

    settings.DATA_DIR.chmod(0o711)
    call_command("migrate", verbosity=0, interactive=False)
    for name in sys.argv[1:]:
        connection.close()
        known = connection.get_connection_params()
        known = {key: known[key] for key in ("user", "host")}
        with psycopg.connect(**known, dbname="taskhub", autocommit=True) as other:
            source = str(connection.settings_dict["NAME"])
            other.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(source))
            )
    make_people(settings.DATA_DIR, "http://localhost")
    collect_if_changed()


if __name__ == "__main__":
    main()
