#!/usr/bin/env python3
"""What tasks need: bytes on disk by table, and bytes of WAL.

  uv run bench/sizes.py [--tasks 200000] [--seconds 30]

Two hubs, one after the other. In the first, a month of so many tasks is made up by `seed --tasks`, with the questions,
notes and events that such tasks have: what each table and its indexes take of it, and how fast the older half is purged
at the end of its retention. The second runs calls of a tool that
echoes, end to end, for so many seconds: what these write to the WAL, between two checkpoints and with what a checkpoint
costs, and how many updates of tasks were heap-only. Exit status: 0, or 2 where it could not be measured.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

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
COUNT = "SELECT count(*) FROM task"
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


def _numbers(database: psycopg.Connection, statement: LiteralString) -> tuple[int, ...]:
    row = database.execute(statement).fetchone()
    return tuple(row) if row else (0,)


def on_disk(data: Path, tasks: int) -> tuple[int, list[Size], str]:
    """How many tasks are there, the tables that take more than one byte for each, and a line about purging."""
    with growth.hub(data, tasks) as socket, _connected(socket) as database:
        database.execute("VACUUM")
        (count,) = _numbers(database, COUNT)
        sizes = [Size(*found) for found in database.execute(SIZES, [count]).fetchall()]
        return count, sizes, _purged(database)


def _purged(database: psycopg.Connection) -> str:
    from taskhub.domain.tasks.sweep import purge

    database.execute("CHECKPOINT")
    wal, begun, gone = _numbers(database, WRITTEN)[0], time.monotonic(), 0
    while found := purge(retention_days=15):
        gone += found
    seconds = time.monotonic() - begun
    wal = _numbers(database, WRITTEN)[0] - wal
    return f"{gone:,} tasks purged, {gone / seconds:,.0f} a second, {wal / gone:,.0f} bytes of WAL each"


def written(work: Path, seconds: float) -> list[str]:
    """Lines about the WAL of calls that really run."""
    plan = compare.Plan(
        rounds=1, seconds=seconds, connections=CONNECTIONS, modes=["e2e"], side="hub", peer_events=False, keep=False,
        json=None,
    )  # fmt: skip
    python = sides.hub_python()
    with sides.hub(work, python) as side:
        compare.prove(side, plan, python)
        lines = sides.postmaster(sides.hub_data(work))
        if lines is None:
            raise CannotRunError("TaskHub runs no embedded Postgres here")
        with _connected(lines[4]) as database:
            database.execute("CHECKPOINT")
            before, wal, hot = (_numbers(database, each) for each in (COUNT, WRITTEN, UPDATES))
            report = compare.measure(side, "e2e", plan, python, seconds)
            if report["errors"]:
                raise CannotRunError(f"{report['errors']} calls failed: {report['first_error']}")
            made = _numbers(database, COUNT)[0] - before[0]
            bytes_each = (_numbers(database, WRITTEN)[0] - wal[0]) / made
            updates, without = (a - b for a, b in zip(_numbers(database, UPDATES), hot, strict=True))
    return [f"{made:,} calls: {bytes_each:,.0f} bytes of WAL each, {without:,} of {updates:,} updates heap-only"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="taskhub-sizes-") as temporary:
        try:
            count, sizes, purged = on_disk(Path(temporary) / "seeded", options.tasks)
            print(f"{'bytes for a task':<24}{'rows':>10}{'beside':>10}{'indexes':>10}{'all':>10}")
            for one in sizes:
                cells = (one.rows, one.beside, one.indexes, one.all)
                print(f"{one.name:<24}" + "".join(f"{cell / count:>10,.0f}" for cell in cells))
            print(f"{'all':<24}{sum(one.all for one in sizes) / count:>40,.0f}\n{purged}")
            print("\n".join(written(Path(temporary), options.seconds)))
        except (CannotRunError, psycopg.Error) as error:
            print(f"cannot measure: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
