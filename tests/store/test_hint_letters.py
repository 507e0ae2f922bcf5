"""Everybody who sends a hint, and everybody who listens: one table for Python, SQL and the templates."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from taskhub.core import hints
from taskhub.core.hints import Hint, TaskHint, decode

ROOT = Path(settings.BASE_DIR)
LISTENERS = ("push/listener.py", "worker/engine.py")
_NOTIFY = re.compile(r"pg_notify\('taskhub',\s*(.+?)\)(?=[:;,\s\"]|$)", re.M)
_PART = re.compile(r"'([^']*)'|([\w.]+)")


def sent_by(text: str) -> list[str]:
    """A sample of each hint that is written out in SQL: what is joined to its letter becomes a 7."""
    found = [made[1] for made in _NOTIFY.finditer(text)]
    return ["".join(quoted or "7" for quoted, _ in _PART.findall(made)) for made in found if made.startswith("'")]


def letters_of_tasks(definition: str) -> list[str]:
    """What `th_hint` begins with."""
    return re.findall(r"(?:THEN|ELSE) '(\w+)'", definition)


@pytest.fixture
def functions(db: None) -> dict[str, str]:
    """The functions as they are live that notify, and the one that makes the hint of a task."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.proname, pg_get_functiondef(p.oid) FROM pg_proc p"
            " WHERE p.pronamespace = 'public'::regnamespace AND p.prokind = 'f'"
            " AND p.proname NOT LIKE 'procrastinate%' AND (p.prosrc ~ 'pg_notify' OR p.proname = 'th_hint')"
        )
        return dict(cursor.fetchall())


def sources() -> dict[str, str]:
    """Our code: whatever a statement notifies of is one of its parameters."""
    return {str(path.relative_to(ROOT / "taskhub")): path.read_text() for path in (ROOT / "taskhub").rglob("*.py")}


def named_in(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def test_every_hint_of_a_live_function_is_one_of_the_table(functions: dict[str, str]) -> None:
    for name, definition in functions.items():
        samples = sent_by(definition)
        assert len(samples) == definition.count("pg_notify") - definition.count("pg_notify('taskhub', th_hint("), (
            f"{name}: {definition}"
        )
        for sample in samples:
            assert decode(sample) is not None, f"{name} sends {sample!r}"
    letters = letters_of_tasks(functions["th_hint"])
    assert {type(decode(f"{letter} 1 2 3 abc")) for letter in letters} == set(TaskHint.__subclasses__())


def test_no_hint_is_in_the_table_that_nobody_sends(functions: dict[str, str]) -> None:
    sent = {type(decode(sample)) for text in functions.values() for sample in sent_by(text)}
    sent |= {type(decode(f"{letter} 1 2 3 abc")) for letter in letters_of_tasks(functions["th_hint"])}
    named = {
        name for path, text in sources().items() if path not in (*LISTENERS, "core/hints.py") for name in named_in(text)
    }
    assert {kind for kind in hints.KINDS if kind not in sent and kind.__name__ not in named} == set()


def test_no_hint_is_in_the_table_that_nobody_hears() -> None:
    named = {name for path in LISTENERS for name in named_in((ROOT / "taskhub" / path).read_text())}
    deaf = {kind for kind in hints.KINDS if kind.rings is Hint.rings and not kind.everywhere}
    assert {kind for kind in deaf if kind.__name__ not in named} == set()


def test_the_pages_listen_for_what_the_consoles_are_told_and_nothing_else() -> None:
    told = {topic for kind in hints.KINDS for topic in kind.everywhere}
    told |= set(hints.TaskChanged(1, 2, 3, "").in_tenant())
    heard = {
        topic.replace("-", ":")
        for path in (ROOT / "templates").rglob("*.html")
        for trigger in re.findall(r'hx-trigger="([^"]*)"', path.read_text())
        for topic in re.findall(r"hint-([\w-]+)", trigger)
    }
    assert heard == told
