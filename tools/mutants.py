#!/usr/bin/env python
"""Seed mutants at random and see whether the tests notice.

    uv run tools/mutants.py [--count 50] [--seed N] [--jobs 2] [--room core ...] [--only TEXT ...] [--list]

A mutant is one small change that a person could make by mistake: a bound off by one, a condition turned round, a
statement left out. The rooms `core`, `domain`, `lib`, `protocol`, the functions in the database (`sql`) and the
SQL we run by name (`statements`) get the same number each. A seed goes on choosing the same ones while other lines
are edited, and `--only` tries those whose line in the list has the text, such as `hints.py:123`. A mutant is tried in
a copy of the working tree, first against the tests of its own room, then against those of the rooms that use it; the
first failure kills it. Every run has a limit of time. At the end stand those that survived, with their places: each
is a hole in the tests, or changes nothing that could be told.
Exit status: 0 where at least 90 % were killed and none hung, else 1.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
SQL = ("sql", "statements")
USERS = {
    "core": ["tests/core tests/docs", "tests/domain tests/upstream", "tests/protocol", "tests/console"],
    "lib": ["tests/lib", "tests/domain tests/upstream", "tests/protocol tests/api tests/worker tests/docs"],
    "domain": ["tests/domain", "tests/worker", "tests/protocol tests/docs"],
    "protocol": ["tests/protocol", "tests/push tests/api tests/docs"],
    "sql": ["tests/store tests/domain", "tests/worker", "tests/protocol"],
    "statements": ["tests/store tests/domain", "tests/worker", "tests/protocol tests/push", "tests/console"],
}
"""Which tests see a room, nearest first."""
TEST_SECONDS = 60
"""For one test: a mutant that loops is stopped there, and counts as killed."""
RUN_SECONDS = 900
"""For one run of tests. A mutant that is not done by then hung."""
GOOD = 0.9
SKIPPED_SQL = ("triggers.sql",)


@dataclass(frozen=True)
class Mutant:
    """Characters `start` to `end` of the file become `put`."""

    room: str
    file: str
    start: int
    end: int
    put: str
    what: str

    def applied(self, text: str) -> str:
        """The file with it."""
        return text[: self.start] + self.put + text[self.end :]

    def __str__(self) -> str:
        text = (ROOT / self.file).read_text()
        line = text.count("\n", 0, self.start) + 1
        was = " ".join(text[self.start : self.end].split())
        return f"{self.file}:{line}: {self.what}: {was[:90]} -> {' '.join(self.put.split())[:90] or 'nothing'}"


# ---------------------------------------------------------------------------- Python

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_RECKONED: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add}
_SAID = ("logger", "warnings")
"""What goes to people's logs is not the tests' affair."""


def of_python(room: str, path: Path) -> Iterator[Mutant]:
    """All there are of one module."""
    text = path.read_text()
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    raw = text.encode()

    def mutant(node: ast.expr | ast.stmt, put: str, what: str) -> Mutant:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = len(raw[: lines[node.lineno - 1] + node.col_offset].decode())
        end = len(raw[: lines[node.end_lineno - 1] + node.end_col_offset].decode())
        return Mutant(room, str(path.relative_to(ROOT)), start, end, put, what)

    for node in _live_code(ast.parse(text)):
        match node:
            case ast.Compare(ops=[op], left=left, comparators=[right]) if type(op) in _COMPARED:
                turned = ast.Compare(left, [_COMPARED[type(op)]()], [right])
                yield mutant(node, f"({ast.unparse(turned)})", "another comparison")
            case ast.BoolOp(op=op, values=values):
                turned_op = ast.Or() if isinstance(op, ast.And) else ast.And()
                yield mutant(node, f"({ast.unparse(ast.BoolOp(turned_op, values))})", "and for or")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield mutant(node, f"({ast.unparse(operand)})", "not left out")
            case ast.BinOp(op=operator, left=left, right=right) if type(operator) in _RECKONED and not _is_text(node):
                turned_sum = ast.BinOp(left, _RECKONED[type(operator)](), right)
                yield mutant(node, f"({ast.unparse(turned_sum)})", "another sum")
            case ast.Constant(value=bool() as value):
                yield mutant(node, str(not value), "the other of the two")
            case ast.Constant(value=int() as number):
                yield mutant(node, str(number + 1), "one more")
            case ast.If(test=test) | ast.IfExp(test=test):
                yield mutant(test, f"(not ({ast.unparse(test)}))", "condition turned round")
            case ast.Raise():
                yield mutant(node, "pass", "raise left out")
            case ast.Expr(value=ast.Call() | ast.Await()) if not ast.unparse(node).startswith(_SAID):
                yield mutant(node, "pass", "call left out")
            case ast.Return(value=ast.Name() | ast.Call() | ast.Attribute()):
                yield mutant(node, "return None", "nothing returned")


def _live_code(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations, names for type checkers, and texts that explain."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, (ast.Import, ast.ImportFrom, ast.arguments, ast.JoinedStr)):
            continue
        if isinstance(child, ast.Assert):  # for type checkers: nobody may rely on it
            continue
        if isinstance(child, ast.AnnAssign):
            if child.value is not None:
                yield child.value
                yield from _live_code(child.value)
            continue
        yield child
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in child.body:
                yield statement
                yield from _live_code(statement)
            continue
        yield from _live_code(child)


def _is_text(node: ast.BinOp) -> bool:
    """A sum of texts or lists cannot be subtracted: such a mutant could not even run."""
    parts = (node.left, node.right)
    return any(
        isinstance(part, (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict))
        or (isinstance(part, ast.Constant) and isinstance(part.value, (str, bytes)))
        for part in parts
    )


# ------------------------------------------------------------------------------- SQL

_TURNED = (
    (re.compile(r"(?<![<>=!|:-])<(?![<>=])"), "<=", "another comparison"),
    (re.compile(r"(?<![<>=!|:-])>(?![<>=])"), ">=", "another comparison"),
    (re.compile(r"<="), "<", "another comparison"),
    (re.compile(r">="), ">", "another comparison"),
    (re.compile(r"<>"), "=", "another comparison"),
    (re.compile(r"\bIS NOT NULL\b"), "IS NULL", "null for not null"),
    (re.compile(r"\bIS NULL\b"), "IS NOT NULL", "null for not null"),
    (re.compile(r"\bAND NOT\b"), "AND", "not left out"),
    (re.compile(r"\bIF NOT\b"), "IF", "not left out"),
    (re.compile(r"(?<!BETWEEN moment )\bAND\b(?! moment)"), "OR", "and for or"),
    (re.compile(r"\bOR\b(?! REPLACE)"), "AND", "and for or"),
    (re.compile(r" \+ 1\b"), " + 2", "one more"),
)
_TURNED_IN = {
    "sql": (
        (re.compile(r"(?<=\w )=(?= (?:'|p_|[a-z]\.)\w*)"), "<>", "another comparison"),
        (re.compile(r"^ +PERFORM (?!set_config)[^;]*;", re.MULTILINE), "", "statement left out"),
        (re.compile(r"^ +RETURN (?:true|false);", re.MULTILINE), " RETURN NULL;", "nothing returned"),
    ),
    "statements": (
        (re.compile(r"\b(?:WHERE|AND|OR|ON|WHEN) \(?[\w.:]+ (=)(?= )"), "<>", "another comparison"),
        (re.compile(r"(?<!AND )\bNOT(?= EXISTS| [a-z])"), "", "not left out"),
        (re.compile(r" DESC\b"), "", "the other order"),
        (re.compile(r"(?<=\bLIMIT )(?=:)"), "1 + ", "one more"),
        (re.compile(r"\bON CONFLICT [^;]*? DO NOTHING"), "", "conflict not met"),
        (re.compile(r"\bgreatest\b"), "least", "the other of the two"),
        (re.compile(r"\btrue\b"), "false", "the other of the two"),
        (re.compile(r"\bfalse\b"), "true", "the other of the two"),
    ),
}
"""Besides: an `=` of a statement also assigns, and there nothing else could stand."""
_SILENT = {
    "sql": re.compile(r"--.*|'(?:[^']|'')*'|RAISE EXCEPTION [^;]*;|^(?:CREATE|LANGUAGE|RETURNS|SET) .*", re.MULTILINE),
    "statements": re.compile(r"--.*|/\* fragment: .*|'(?:[^']|'')*'"),
}


def of_sql(room: str, path: Path) -> Iterator[Mutant]:
    """All there are of one file of functions or statements."""
    text = path.read_text()
    silent = [found.span() for found in _SILENT[room].finditer(text)]
    for pattern, put, what in _TURNED + _TURNED_IN[room]:
        for found in pattern.finditer(text):
            start, end = found.span(found.lastindex or 0)
            if not any(first <= start < last for first, last in silent):
                yield Mutant(room, str(path.relative_to(ROOT)), start, end, put, what)


# --------------------------------------------------------------------------- a trial


def of_room(room: str) -> list[Mutant]:
    """All there are of a room."""
    if room in SQL:
        statements = room == "statements"
        files = [
            path
            for path in sorted((ROOT / "taskhub").glob("*/*/*.sql"))
            if path.name.endswith("statements.sql") is statements and path.name not in SKIPPED_SQL
        ]
        return [mutant for path in files for mutant in of_sql(room, path)]
    return [mutant for path in sorted((ROOT / "taskhub" / room).rglob("*.py")) for mutant in of_python(room, path)]


def chosen(rooms: list[str], count: int, seed: int) -> list[Mutant]:
    """So many, in turns of the rooms; of the same seed the same, but for what is on the lines that were edited."""
    shuffled = [_by_lot(of_room(room), seed) for room in rooms]
    turns = (mutant for turn in zip_longest(*shuffled) for mutant in turn if mutant is not None)
    return list(islice(turns, count))


def _by_lot(found: list[Mutant], seed: int) -> list[Mutant]:
    """In an order that each mutant's own text decides: a shuffle would choose others after every edit."""
    texts = {file: (ROOT / file).read_text() for file in {mutant.file for mutant in found}}
    alike: Counter[str] = Counter()
    lots = []
    for mutant in found:
        text = texts[mutant.file]
        line = text[text.rfind("\n", 0, mutant.start) + 1 : mutant.end]
        name = f"{seed}/{mutant.file}/{mutant.what}/{line.strip()}/{mutant.put}"
        alike[name] += 1
        lots.append((hashlib.sha256(f"{name}/{alike[name]}".encode()).digest(), mutant))
    return [mutant for _, mutant in sorted(lots, key=lambda lot: lot[0])]


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in that copy, up to the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command += [f"--timeout={TEST_SECONDS}", *arguments]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)


def tried(mutant: Mutant, tree: Path) -> str:
    """`killed by …`, `survived` or `hung`."""
    file = tree / mutant.file
    whole = file.read_text()
    file.write_text(mutant.applied(whole))
    try:
        for tests in USERS[mutant.room]:
            try:
                done = run(tree, *tests.split())
            except subprocess.TimeoutExpired:
                return "hung"
            if done.returncode != 0:
                last = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return f"killed by {last[0].partition(' - ')[0][7:] if last else f'exit code {done.returncode}'}"
        return "survived"
    finally:
        file.write_text(whole)


def main() -> int:
    """Choose, try, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--room", action="append", choices=[*USERS])
    parser.add_argument("--only", action="append", metavar="TEXT", help="those whose line has it, however many")
    parser.add_argument("--list", action="store_true", help="show them and try none")
    options = parser.parse_args()
    rooms = options.room or [*USERS]
    if options.only:
        mutants = [mutant for room in rooms for mutant in of_room(room) if any(t in str(mutant) for t in options.only)]
    else:
        mutants = chosen(rooms, options.count, options.seed)
    print(f"seed {options.seed}: {len(mutants)} mutants", flush=True)
    if options.list:
        print(*mutants, sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="taskhub-mutants-") as place:
        trees: SimpleQueue[Path] = SimpleQueue()
        for n in range(options.jobs):
            ignored = shutil.ignore_patterns(".venv", ".git", ".taskhub", "*_cache", "__pycache__", "node_modules")
            trees.put(shutil.copytree(ROOT, Path(place) / str(n), ignore=ignored))

        whole = trees.get()
        if (done := run(whole, "--collect-only", "tests")).returncode != 0:
            print(f"The tests cannot even be collected:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
            return 1
        trees.put(whole)

        sound: set[str] = set()

        def trial(mutant: Mutant) -> str:
            tree, began = trees.get(), time.monotonic()
            try:
                outcome = tried(mutant, tree)
                test = outcome.removeprefix("killed by ").partition("[")[0]
                if "::" in test and test not in sound:
                    # What fails without a mutant would kill them all.
                    if run(tree, test).returncode == 0:
                        sound.add(test)
                    else:
                        outcome = f"not told: without it fails as well {test}"
            finally:
                trees.put(tree)
            print(f"{time.monotonic() - began:5.0f} s  {outcome}\n         {mutant}", flush=True)
            return outcome

        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(trial, mutants))
    killed = sum(outcome.startswith("killed") for outcome in outcomes)
    hung = outcomes.count("hung")
    print(f"\n{killed} of {len(mutants)} killed ({killed / len(mutants):.0%}), {hung} hung. Left:")
    for mutant, outcome in zip(mutants, outcomes, strict=True):
        if not outcome.startswith("killed"):
            print(f"  {outcome}: {mutant}")
    return 0 if killed >= GOOD * len(mutants) and not hung else 1


if __name__ == "__main__":
    sys.exit(main())
