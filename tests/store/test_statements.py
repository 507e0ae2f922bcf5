"""Every statement does what its header says, and finds its rows by an index."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

import pytest
from django.db import connection, transaction
from psycopg import pq, sql
from psycopg.postgres import types

import taskhub
from taskhub import domain
from taskhub.store.statements import STATEMENTS, USED, Column, Named, files, parse, plain
from tests.store import seeded
from tests.store.raw import Raw

ROOT = Path(taskhub.__file__).parent
VERB = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|TRUNCATE|WITH \w+ AS|SET \w+ = )\b")


@cache
def modules() -> tuple[ModuleType, ...]:
    """All modules of the rooms that use statements."""
    names = [found.name for found in pkgutil.walk_packages(domain.__path__, f"{domain.__name__}.")]
    return tuple(importlib.import_module(name) for name in names)


def trees() -> Iterator[tuple[ModuleType, ast.Module]]:
    for module in modules():
        yield module, ast.parse(Path(str(module.__file__)).read_text())


# --- the files


def test_every_statement_is_used_and_every_one_used_is_there() -> None:
    modules()
    assert USED.keys() == STATEMENTS.keys()


def test_each_statement_lies_in_the_folder_that_uses_it() -> None:
    """Beside the Python that calls it: `statements.one("name", …)` in another folder of the domain would be looked for
    in vain."""
    used = {
        name: path.parent.name
        for path in ROOT.rglob("*.py")
        for name in re.findall(r'statements\.\w+\(\s*"(\w+)"', path.read_text())
    }
    elsewhere = {name: named.file for name, named in STATEMENTS.items() if f"domain/{used[name]}/" not in named.file}
    assert elsewhere == {}


def test_no_file_is_longer_than_a_person_reads() -> None:
    for path in files():
        lines = path.read_text().splitlines()
        assert len(lines) <= 600, path.name
        assert max(map(len, lines)) <= 120, path.name


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT 1;", "above the first header"),
        ("-- read: one() -> int\nSELECT 1;\n-- read: one() -> int\nSELECT 2;", "two of the name one"),
        ("-- read: one(a int) -> int\nSELECT 1;", "header and below it: a"),
        ("-- read: one(a) -> int\nSELECT :a;", "no parameter of its own with a type"),
        ("-- read: one(a int, a int) -> int\nSELECT :a;", "no parameter of its own with a type"),
        ("-- read: one() -> int\nSELECT :a;", "header and below it: a"),
        ("-- read: one() -> int\nSELECT {a};", "no fragment above is named a"),
        ("-- read: one()\nSELECT 1;", "no header"),
        ("-- reads: one() -> int\nSELECT 1;", "no header"),
    ],
)
def test_what_is_not_of_the_form_is_refused(text: str, why: str) -> None:
    text = text.replace("-- reads", "-- read s")
    with pytest.raises(ValueError, match=re.escape(why)):
        parse("some.sql", text)


def test_a_statement_is_put_together_as_it_is_written() -> None:
    found = parse(
        "some.sql",
        "-- Words.\n\n/* fragment: own\nt.a = :a\n*/\n/* fragment: here\n{own} AND t.b = '{}'\n*/\n\n"
        "-- read fresh: one(a bigint,\n--     b text[]) -> int | None\n-- Why.\n"
        "SELECT t.x::int FROM t\n  -- more\nWHERE {here} AND :b::text IS NULL AND :a > 0;\n",
    )
    assert found == {
        "one": Named(
            "some.sql",
            "one",
            "read fresh",
            {"a": "bigint", "b": "text[]"},
            "int | None",
            b"/* one */ SELECT t.x::int FROM t\n"
            b"WHERE t.a = $1::bigint AND t.b = '{}' AND $2::text[]::text IS NULL AND $1::bigint > 0",
        )
    }


# --- the Python


def test_no_sql_stands_in_python() -> None:
    found = [
        f"{module.__name__}:{node.lineno}: {node.value[:60]}"
        for module, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and VERB.search(node.value)
    ]
    assert found == []


def test_every_call_passes_just_the_parameters() -> None:
    wrong, calls = [], 0
    for module, tree in trees():
        own = {
            target.id: node.value.args[0].value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func).startswith("statements.")
            and isinstance(target := node.targets[0], ast.Name)
            and isinstance(node.value.args[0], ast.Constant)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            face = node.args[0] if ast.unparse(node.func) == "change" and node.args else node.func
            if not isinstance(face, ast.Name) or face.id not in own:
                continue
            calls += 1
            params = set(STATEMENTS[str(own[face.id])].params)
            given = {word.arg for word in node.keywords}
            if not (given - {None} <= params if None in given else given == params):
                wrong.append(f"{module.__name__}:{node.lineno}: {own[face.id]}: {sorted(params ^ given)}")
    assert wrong == []
    assert calls >= len(STATEMENTS)


# --- the database


def fits(column: Column, name: str) -> bool:
    """Whether what is read from a column of this type of Postgres is what the record promises."""
    hint = plain(column.type)
    if column.converted or hint is Any:
        return True
    if get_origin(hint) is tuple:
        return name.endswith("[]") or name in {"json", "jsonb"}
    if get_origin(hint) in {dict, list}:
        return name.endswith("[]") if get_origin(hint) is list else name in {"json", "jsonb", "text"}
    wanted = {
        "int": {"int2", "int4", "int8"},
        "float": {"float8", "numeric"},
        "str": {"text", "varchar", "name", "bpchar"},
        "bool": {"bool"},
        "datetime": {"timestamptz"},
        "time": {"time"},
        "bytes": {"bytea"},
    }
    return name in wanted["str" if issubclass(hint, Enum) else hint.__name__]


def type_name(oid: int) -> str:
    info = types[oid]
    return info.name if info.oid == oid else f"{info.name}[]"


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_the_database_knows_it_as_its_header_says(name: str, raw: Raw) -> None:
    modules()
    statement, face = STATEMENTS[name], USED[name]
    prepared = raw.pgconn.prepare(b"it", statement.sql)
    assert prepared.status == pq.ExecStatus.COMMAND_OK, prepared.error_message.decode()
    described = raw.pgconn.describe_prepared(b"it")
    wanted = [raw.execute("SELECT %s::regtype::oid::int", (type_,)).fetchone() for type_ in statement.params.values()]
    assert [(described.param_type(n),) for n in range(described.nparams)] == wanted
    if face.columns:
        found = [
            ((described.fname(n) or b"").decode(), type_name(described.ftype(n))) for n in range(described.nfields)
        ]
        assert len(found) == len(face.columns)
        for (label, type_), column in zip(found, face.columns, strict=True):
            assert column.name in {"", label}
            assert fits(column, type_), f"{label} is {type_} there and {column.type} here"


WATCHED = {"task", "event", "question", "result_read"}


def scans(plan: dict[str, Any]) -> set[str]:
    """Tables that this plan reads from end to end, by their heap or by an index without any bound."""
    found = {part for below in plan.get("Plans", ()) for part in scans(below)}
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in WATCHED:
        found.add(plan["Relation Name"])
    return found


@pytest.mark.django_db(transaction=True)
def test_none_reads_a_long_table_from_end_to_end() -> None:
    modules()
    world = seeded.World()
    found = {}
    for name, statement in STATEMENTS.items():
        for values in world.values(statement):
            for table in scans(plan_of(statement, values)):
                found.setdefault(name, {})[table] = values
    assert found == {}


ONE_ROW = {"task_pkey", "task_public_id_unique"}


def late_filters(plan: dict[str, Any]) -> Iterator[str]:
    """Conditions on long tables with a clock that moves on during the statement: no index can answer them, so every
    row that anything else finds is looked at. Where a key has found its one row, that is no matter."""
    for below in plan.get("Plans", ()):
        yield from late_filters(below)
    condition = plan.get("Filter", "")
    if plan.get("Relation Name") in WATCHED and plan.get("Index Name") not in ONE_ROW and "clock_time" in condition:
        yield condition


@pytest.mark.django_db(transaction=True)
def test_none_compares_the_rows_of_a_long_table_with_a_moving_clock() -> None:
    modules()
    world = seeded.World()
    found = {
        (name, condition)
        for name, statement in STATEMENTS.items()
        for values in world.values(statement)
        for condition in late_filters(plan_of(statement, values))
    }
    assert found == set()


def plan_of(statement: Named, values: dict[str, Any]) -> dict[str, Any]:
    """Its plan for these values if it is planned anew each time, else the one that is kept for any."""
    mode = "custom" if statement.kind == "read fresh" else "generic"
    with transaction.atomic(), connection.cursor() as django:
        cursor = django.cursor
        cursor.execute(f"SET LOCAL plan_cache_mode = force_{mode}_plan")
        cursor.execute(b"PREPARE it AS " + statement.sql)
        literals = sql.SQL(", ").join(
            sql.SQL("{}::{}").format(sql.Literal(values[name]), sql.SQL(type_))
            for name, type_ in statement.params.items()
        )
        run = sql.SQL("EXECUTE it({})").format(literals) if statement.params else sql.SQL("EXECUTE it")
        cursor.execute(sql.SQL("EXPLAIN (FORMAT JSON) ") + run)
        ((((plan,),),),) = (cursor.fetchall(),)
        cursor.execute("DEALLOCATE it")
    result: dict[str, Any] = plan["Plan"]
    return result


@pytest.mark.django_db(transaction=True)
def test_what_is_tried_again_only_reads() -> None:
    modules()
    world = seeded.World()
    for name, statement in STATEMENTS.items():
        if statement.kind != "write":
            for values in world.values(statement):
                with transaction.atomic():
                    with connection.cursor() as cursor:
                        cursor.execute("SET TRANSACTION READ ONLY")
                    USED[name](**values)
