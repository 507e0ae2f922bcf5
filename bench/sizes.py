#!/usr/bin/env python3
"""What tasks need: bytes on disk by table, and bytes of WAL.

  uv run bench/sizes.py [--tasks 200000] [--seconds 30] [--keep DIRECTORY]

Two hubs, one after the other. In the first, a month of so many tasks is made up by `seed --tasks`, with the questions,
notes and events that such tasks have: what each table and its indexes take of it. The second runs calls of a tool that
echoes, end to end, for so many seconds: what these write to the WAL, between two checkpoints and with what a checkpoint
costs, and how many updates of tasks were heap-only. Exit status: 0, or 2 where it could not be measured.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import compare, growth, sides
from bench.programs import CannotRunError

CONNECTIONS = 32

SIZES = """
    WITH RECURSIVE parts AS (
        SELECT c.oid, c.relname FROM pg_class c
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
        UNION ALL
        SELECT i.inhrelid, p.relname FROM parts p JOIN pg_inherits i ON i.inhparent = p.oid
    )
    SELECT relname, sum(pg_relation_size(oid))::bigint,
           sum(pg_table_size(oid) - pg_relation_size(oid))::bigint, sum(pg_indexes_size(oid))::bigint
    FROM parts GROUP BY relname HAVING sum(pg_total_relation_size(oid)) > %s
    ORDER BY sum(pg_total_relation_size(oid)) DESC
"""
WRITTEN = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
UPDATES = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'task'"


@dataclass(frozen=True)
class Size:
    """Bytes of a table: its rows, what is beside them and its maps, its indexes."""

    name: str
    rows: int
    beside: int
    indexes: int

    @property
    def all(self) -> int:
        return self.rows + self.beside + self.indexes


def _connected(socket: str) -> psycopg.Connection:
    return psycopg.connect(host=socket, user="postgres", dbname="taskhub", autocommit=True)


def on_disk(data: Path, tasks: int) -> tuple[int, list[Size]]:
    """How many tasks are there, and the tables that take more than one byte for each."""
    with growth.hub(data, tasks) as socket, _connected(socket) as database:
        database.execute("VACUUM")
        row = database.execute("SELECT count(*) FROM task").fetchone()
        count = row[0] if row else 0
        return count, [Size(*found) for found in database.execute(SIZES, [count]).fetchall()]


def written(work: Path, seconds: float) -> list[str]:
    """Lines about the WAL of calls that really run."""
    plan = compare.Plan(1, seconds, CONNECTIONS, ["e2e"])
    python = sides.hub_python()
    with sides.hub(work, python) as side:
        compare.prove(side, plan, python)
        lines = sides.postmaster(sides.hub_data(work))
        if lines is None:
            raise CannotRunError("TaskHub runs no embedded Postgres here")
        with _connected(lines[4]) as database:

            def number(statement: str) -> tuple[int, ...]:
                row = database.execute(statement).fetchone()
                return tuple(row) if row else (0,)

            database.execute("CHECKPOINT")
            before, wal, hot = number("SELECT count(*) FROM task"), number(WRITTEN), number(UPDATES)
            report = compare.measure(side, "e2e", plan, python, seconds)
            if report["errors"]:
                raise CannotRunError(f"{report['errors']} calls failed: {report['first_error']}")
            made = number("SELECT count(*) FROM task")[0] - before[0]
            bytes_each = (number(WRITTEN)[0] - wal[0]) / made
            updates, without = (a - b for a, b in zip(number(UPDATES), hot, strict=True))
    return [f"{made:,} calls: {bytes_each:,.0f} bytes of WAL each, {without:,} of {updates:,} updates heap-only"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--keep", type=Path, help="where the first hub is kept, and used again if it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="taskhub-sizes-") as temporary:
        work = options.keep or Path(temporary)
        try:
            count, sizes = on_disk(work / str(options.tasks), options.tasks)
            print(f"{'bytes for a task':<24}{'rows':>10}{'beside':>10}{'indexes':>10}{'all':>10}")
            for one in sizes:
                cells = (one.rows, one.beside, one.indexes, one.all)
                print(f"{one.name:<24}" + "".join(f"{cell / count:>10,.0f}" for cell in cells))
            print(f"{'all':<24}{sum(one.all for one in sizes) / count:>40,.0f}\n")
            print("\n".join(written(Path(temporary), options.seconds)))
        except (CannotRunError, psycopg.Error) as error:
            print(f"cannot measure: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
