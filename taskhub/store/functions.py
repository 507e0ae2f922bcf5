"""The functions, views and triggers of the database, each as it is live now, edited in place.

Those of a subject stand in its folder (`domain/*/*.sql` but for its statements), guards and triggers in `store/sql`.
`migrate` loads them once every migration is applied, in one transaction, when their text has changed.

What a process calls keeps its name as long as it keeps its signature, so that processes of the release before work on
until they are restarted. What a release that changes a signature does is in `docs/dev/release.md`.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader

from taskhub.core.hints import SchemaChanged, encode
from taskhub.core.names import HINT_CHANNEL
from taskhub.core.words import WORDS
from taskhub.store.backend.base import unhurried

VERSION: Final = 1
"""The version of the whole schema. It counts up with every release that changes functions that processes call, or
tables."""

WORKS_WITH: Final = 1
"""The oldest code that works on a database of this version: that of the release before."""

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_TRIGGERS: Final = "store/sql/triggers.sql"
_STATEMENTS: Final = "statements.sql"
_FUNCTION: Final = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)", re.MULTILINE)
_TRIGGER: Final = re.compile(r"^CREATE (?:CONSTRAINT )?TRIGGER (\w+)", re.MULTILINE)
_LOCK: Final = 7_225_941_807_011_217
"""The lock of `load`: if two processes migrate at once, the second waits and finds everything done."""


class NewerSchemaError(Exception):
    """The database was migrated by a release that this code does not work beside."""


def trigger_names() -> frozenset[str]:
    """All triggers there should be."""
    return frozenset(_TRIGGER.findall(_text(_TRIGGERS)))


def load() -> bool:
    """Bring the database's functions and triggers to the text of the files; whether there was anything to do.
    Does nothing while a migration is still to be applied, or where a newer release has been."""
    if not _fully_migrated():
        return False
    functions, triggers = _digest(_functions()), _digest(_text(_TRIGGERS))
    with unhurried(connection), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        cursor.execute("SELECT version, functions, triggers FROM schema_state")
        version, *loaded = cursor.fetchone() or (0, "", "")
        if version > VERSION or (version, *loaded) == (VERSION, functions, triggers):
            return False
        # Not checked yet: a function may call one that is created after it.
        cursor.execute("SET LOCAL check_function_bodies = off")
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute(_functions())
        if loaded[1] != triggers:
            _drop_triggers(cursor)
            cursor.execute(_text(_TRIGGERS))
        cursor.execute(
            "UPDATE schema_state SET version = %s, works_with = %s, functions = %s, triggers = %s, live = %s,"
            " loaded_at = clock_timestamp()",
            [VERSION, WORKS_WITH, functions, triggers, _live(cursor)],
        )
        cursor.execute("SELECT pg_notify(%s, %s)", [HINT_CHANNEL, encode(SchemaChanged())])
    return True


def difference() -> str:
    """How the database's functions differ from those of this version, in words; empty where they do not."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT version, functions, triggers, live FROM schema_state")
        version, functions, triggers, live = cursor.fetchone()
        if version > VERSION:
            return "they are those of a newer version"
        if (version, functions, triggers) != (VERSION, _digest(_functions()), _digest(_text(_TRIGGERS))):
            return "they are not those of this version: run `manage.py migrate`"
        return "" if live == _live(cursor) else "somebody has changed them by hand"


def load_after_migrate(**_: Any) -> None:
    """`load`, as a receiver of `post_migrate`."""
    load()


def check_newer() -> None:
    """Raises `NewerSchemaError`, with a sentence for the operator, on a database this code does not work with."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('schema_state') IS NOT NULL")
        if not cursor.fetchone()[0]:
            return
        cursor.execute("SELECT version, works_with FROM schema_state")
        version, works_with = cursor.fetchone()
    if works_with > VERSION:
        raise NewerSchemaError(
            f"The database was migrated by a newer TaskHub (schema {version}; this one knows {VERSION}): run that one."
        )


def _fully_migrated() -> bool:
    loader = MigrationLoader(connection)
    return set(loader.graph.leaf_nodes("store")) <= set(loader.applied_migrations)


def _live(cursor: Any) -> str:
    """A digest of our functions as the database has them."""
    cursor.execute(
        "SELECT md5(string_agg(concat(proname, prosrc, proconfig::text, prolang), '|' ORDER BY proname)) FROM pg_proc"
        " WHERE proname = ANY (%s) AND pg_function_is_visible(oid)",
        [_FUNCTION.findall(_functions())],
    )
    return str(cursor.fetchone()[0])


def _drop_triggers(cursor: Any) -> None:
    """Drop all triggers that call a function of ours, including those that no file names any more."""
    cursor.execute(
        "SELECT format('DROP TRIGGER %%I ON %%s', t.tgname, t.tgrelid::regclass) FROM pg_trigger t"
        " JOIN pg_proc p ON p.oid = t.tgfoid WHERE NOT t.tgisinternal AND t.tgparentid = 0 AND p.proname = ANY (%s)",
        [_FUNCTION.findall(_functions())],
    )
    for (statement,) in cursor.fetchall():
        cursor.execute(statement)


@cache
def _text(name: str) -> str:
    return (_PACKAGE / name).read_text()


@cache
def _functions() -> str:
    """Of all files but that of the triggers, and the hub's sentences as a function."""
    found = [*_PACKAGE.glob("domain/*/*.sql"), *_PACKAGE.glob("store/sql/*.sql")]
    names = sorted(file.relative_to(_PACKAGE).as_posix() for file in found if file.name != _STATEMENTS)
    return "\n".join([_words(), *(_text(name) for name in names if name != _TRIGGERS)])


def _words() -> str:
    cases = "\n".join(f"        WHEN {_literal(code)} THEN {_literal(text)}" for code, text in WORDS.items())
    return (
        "CREATE OR REPLACE FUNCTION th_words(code text, VARIADIC given text[] DEFAULT '{}') RETURNS text\n"
        f"LANGUAGE sql IMMUTABLE AS $$\n    SELECT format(CASE code\n{cases} END, VARIADIC given)\n$$;\n"
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
