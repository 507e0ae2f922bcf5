"""Loads the functions, views and triggers of the database. Their source files are edited in place, without migrations.

A subject's functions and views are in its folder (`domain/*/*.sql` but for `*statements.sql`), guards and triggers in
`store/sql`. After all migrations, `migrate` loads the files in one transaction if their text has changed.

A function that processes call keeps its name and signature, so that processes of the previous release work until they
are restarted. `docs/dev/release.md` says how a release changes a signature.
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
"""The version of the whole schema: one higher in each release that changes tables, or functions that processes call."""

WORKS_WITH: Final = 1
"""The lowest `VERSION` of code that works on a database of this version: that of the previous release."""

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_TRIGGERS: Final = "store/sql/triggers.sql"
_STATEMENTS: Final = "statements.sql"
_FUNCTION: Final = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)", re.MULTILINE)
_TRIGGER: Final = re.compile(r"^CREATE (?:CONSTRAINT )?TRIGGER (\w+)", re.MULTILINE)
_LOCK: Final = 7_225_941_807_011_217
"""The key of `load`'s advisory lock: if two processes migrate at once, the second waits, and then has nothing to
load."""


class NewerSchemaError(Exception):
    """The database was migrated by a newer release, with which this code does not work."""


def trigger_names() -> frozenset[str]:
    """The names of all triggers that the database should have."""
    return frozenset(_TRIGGER.findall(_text(_TRIGGERS)))


def load() -> bool:
    """Load the files into the database, unless it already has the same functions and triggers. Returns whether anything
    was loaded. Does nothing while a migration is still to be applied, or if a newer release has migrated the
    database."""
    if not _fully_migrated():
        return False
    functions, triggers = _digest(_functions()), _digest(_text(_TRIGGERS))
    with unhurried(connection), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        cursor.execute("SELECT version, functions, triggers FROM schema_state")
        version, *loaded = cursor.fetchone() or (0, "", "")
        if version > VERSION or (version, *loaded) == (VERSION, functions, triggers):
            return False
        # Bodies are not checked: a function may call one that is created after it.
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
    """How the database's functions differ from those of this version, as text for people; empty if they do not."""
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
    """Raise `NewerSchemaError`, with a message for the operator, if this code does not work with the database."""
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
    """A digest of TaskHub's functions as they are in the database."""
    cursor.execute(
        "SELECT md5(string_agg(concat(proname, prosrc, proconfig::text, prolang), '|' ORDER BY proname)) FROM pg_proc"
        " WHERE proname = ANY (%s) AND pg_function_is_visible(oid)",
        [_FUNCTION.findall(_functions())],
    )
    return str(cursor.fetchone()[0])


def _drop_triggers(cursor: Any) -> None:
    """Drop all triggers that call a function of TaskHub, also those that are in no file any more."""
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
    """The SQL of all functions and views: all files but that of the triggers, and `th_words`, made from `WORDS`."""
    found = [*_PACKAGE.glob("domain/*/*.sql"), *_PACKAGE.glob("store/sql/*.sql")]
    names = sorted(file.relative_to(_PACKAGE).as_posix() for file in found if not file.name.endswith(_STATEMENTS))
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
