"""`taskhub/store/schema.sql`, and how functions and triggers get into a database and stay as they are written."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from taskhub.core.words import WORDS, waiting_for_approval, words
from taskhub.store import functions
from tests.store import schema

pytestmark = pytest.mark.django_db


def value(sql: str, *params: object) -> Any:
    """The one value of a query."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchone()[0]


def source_of(function: str) -> str:
    """Its text in the database."""
    return str(value("SELECT prosrc FROM pg_proc WHERE proname = %s", function))


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Texts that stand in for the files of these names, as an edit would."""
    edited: dict[str, str] = {}
    read = functions._text.__wrapped__
    monkeypatch.setattr(functions, "_text", lambda name: edited.get(name) or read(name))
    monkeypatch.setattr(functions, "_functions", functions._functions.__wrapped__)
    return edited


def edit(files: dict[str, str], name: str, old: str, new: str) -> None:
    """One edit of a file; it must be one."""
    text = functions._text(name)
    assert old in text
    files[name] = text.replace(old, new, 1)


def test_the_schema_in_one_piece_is_what_a_migrated_database_has() -> None:
    if value("SELECT current_setting('server_version_num')::int / 10000") != 18:
        pytest.skip("the file is written by Postgres 18")
    found = schema.dumped()
    if os.environ.get("TASKHUB_WRITE_SCHEMA"):
        schema.FILE.write_text(found)
    assert schema.FILE.read_text() == found, "run ./dev schema"


def test_migrate_finds_nothing_to_do_until_a_text_changes(files: dict[str, str]) -> None:
    assert functions.load() is False
    edit(
        files,
        "domain/tasks/functions.sql",
        "SELECT coalesce(lease_until, '-infinity') > '-infinity'",
        "SELECT lease_until IS NOT NULL",
    )
    call_command("migrate", verbosity=0)
    assert source_of("th_held").strip() == "SELECT lease_until IS NOT NULL"
    assert functions.load() is False
    files.clear()
    assert functions.load() is True
    assert "-infinity" in source_of("th_held")


def test_a_trigger_that_no_file_names_goes_and_one_that_is_changed_is_made_anew(files: dict[str, str]) -> None:
    whole = functions._text("store/sql/triggers.sql")
    gone = next(part for part in re.split(r"\n{2,}", whole) if "TRIGGER task_keep " in part)
    edit(files, "store/sql/triggers.sql", gone, "")
    assert functions.load() is True
    assert "task_keep" not in functions.trigger_names()
    assert value("SELECT count(*) FROM pg_trigger WHERE tgname = 'task_keep'") == 0
    files.clear()
    assert functions.load() is True
    names = functions.trigger_names()
    assert value("SELECT count(DISTINCT tgname) FROM pg_trigger WHERE tgname = ANY (%s)", [*names]) == len(names)


def test_each_function_has_a_name_of_its_own() -> None:
    names = functions._FUNCTION.findall(functions._functions())
    assert len(names) == len(set(names))
    live = "SELECT array_agg(proname::text) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'"
    assert set(names) == {name for name in value(live) if not name.startswith("procrastinate")}


def test_code_that_meets_a_newer_schema_changes_nothing_and_says_so(files: dict[str, str]) -> None:
    edit(files, "domain/people/functions.sql", "'p')", "'pp')")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE schema_state SET version = version + 1")
    assert functions.load() is False
    functions.check_newer()  # it still works with what we are
    with connection.cursor() as cursor:
        cursor.execute("UPDATE schema_state SET works_with = version")
    with pytest.raises(functions.NewerSchemaError, match=f"schema {functions.VERSION + 1}; this one knows"):
        functions.check_newer()
    assert "'p')" in source_of("announce_people")


def test_nothing_is_loaded_while_a_migration_is_still_to_be_applied(files: dict[str, str]) -> None:
    edit(files, "domain/people/functions.sql", "'p')", "'pp')")
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE id = (SELECT max(id) FROM django_migrations WHERE app = 'store')"
        )
    assert functions.load() is False


def test_what_the_hub_says_stands_once(files: dict[str, str]) -> None:
    """The database has the very sentences of `core.words`, and uses none that is not there."""
    for code, text in WORDS.items():
        given = [f"<{n}>" for n in range(text.count("%s"))]
        assert value("SELECT th_words(%s, VARIADIC %s::text[])", code, given) == words(code, *given)
    used = set(re.findall(r"th_words\('(\w+)'", functions._functions()))
    assert used
    assert used <= WORDS.keys()
    for group, counted, quorum in (("", 0, 1), ("ops", 1, 2)):
        said = value("SELECT th_waiting_for_approval(%s, %s, %s)", group, counted, quorum)
        assert said == waiting_for_approval(group, counted, quorum)


def test_no_function_says_a_sentence_of_its_own() -> None:
    """But to developers: what a guard raises, and what it is in aid of."""
    texts = re.sub(r"RAISE EXCEPTION '[^']*'|--.*", "", functions._functions().partition("$$;")[2])
    said = [text for text in re.findall(r"'([^'\n]*)'", texts) if re.fullmatch(r"[A-Za-z][a-z]+( [a-z]+){2,}.*", text)]
    assert set(said) == {"the lease ran out"}  # a reason in the table of attempts
