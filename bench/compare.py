#!/usr/bin/env python3
"""TaskHub beside FastMCP tasks on Redis, in one run on this machine.

  uv run bench/compare.py [--rounds 3] [--seconds 5] [--database-url URL] [--json FILE]

Starts both sides with one web and one worker process each, measures them in turns
(A B A B) for each operation, prints a table with the ratios and the bars, then
what pgbench reads on TaskHub's Postgres. Everything listens on 127.0.0.1, lives in
a temporary directory and is gone afterwards. Exit status: 0 every bar is met, 1
one is not, 2 there is nothing to compare. bench/README.md says what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import pgfloor, procfs, sides
from bench.load import Report, describe
from bench.programs import ROOT, CannotRunError, Command, attempts

BARS = {"get": 6.0, "create": 4.0, "e2e": 3.0, "list-tools": 2.0}
NAMES = {
    "get": "tasks/get",
    "create": "create",
    "e2e": "end to end",
    "list-tools": "tools/list",
}
PGBENCH_BAR = 8.0  # tasks/get in percent of what pgbench reads
BUSY_GENERATOR = 85.0  # percent of a core: above it the generator may be the limit
FIRST_ANSWER_S = 60.0
GIVE_UP_S = 300.0  # a run that takes this much longer than its rounds
MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")


@dataclass(frozen=True)
class Plan:
    rounds: int
    seconds: float
    connections: int
    modes: list[str]
    side: str
    peer_events: bool
    database_url: str | None
    keep: bool
    json: Path | None


class Figures(TypedDict):
    """One side of one operation; medians of its rounds."""

    ops_s: float
    p50_ms: float
    p99_ms: float
    errors: int


class Operation(TypedDict):
    name: str
    hub: Figures | None
    given: Figures | None
    peer: Figures | None
    ratio: float | None
    bar: float
    passed: bool | None
    notes: list[str]


class Floor(TypedDict):
    reads_s: float | None
    reason: str | None
    get_percent: float | None
    bar_percent: float
    passed: bool | None


Reports = dict[str, list[Report]]


def measure(side: sides.Side, mode: str, plan: Plan, generator: Path, seconds: float) -> Report:
    """One run of the load generator, in a process of its own."""
    command: Command = [generator, "-m", "bench.load", "--json", "--url", side.url]
    command += ["--mode", mode, "--label", side.name, "--duration", str(seconds)]
    command += ["--concurrency", str(plan.connections)]
    for name, pid in side.watch.items():
        command += ["--watch", f"{name}={pid}"]
    command += ["--token", side.token]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds + GIVE_UP_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CannotRunError(f"{side.name}, {mode}: it stopped answering") from None
    if not done.stdout.strip():
        raise CannotRunError(f"{side.name}, {mode}: {done.stderr.strip()[-2000:]}")
    return cast("Report", json.loads(done.stdout))


def prove(side: sides.Side, plan: Plan, generator: Path) -> None:
    """Waits until a task has gone all the way through `side`."""
    last = ""
    try:
        for _ in attempts(side.program, f"whole task of the {side.name}", FIRST_ANSWER_S):
            report = measure(side, "e2e", plan, generator, 0.5)
            if report["ops"] and not report["errors"]:
                return
            last = report["first_error"] or ""
    except CannotRunError as error:
        raise CannotRunError(f"{error}\n{last}") from None


def measure_all(both: list[sides.Side], plan: Plan, generator: Path) -> dict[str, Reports]:
    """The reports of every mode and side, taken in turns."""
    found: dict[str, Reports] = {}
    for mode in plan.modes:
        found[mode] = {side.name: [] for side in both}
        for _ in range(plan.rounds):
            for side in both:
                report = measure(side, mode, plan, generator, plan.seconds)
                found[mode][side.name].append(report)
                print(describe(report), file=sys.stderr, flush=True)
    return found


def summarise(mode: str, reports: Reports) -> Operation:
    hub, given, peer = (_figures(reports.get(name)) for name in ("hub", "given", "peer"))
    notes = [
        f"{name}: {report['errors']} errors, first: {report['first_error']}"
        for name, each in reports.items()
        for report in each
        if report["errors"]
    ]
    if any(r["load_cpu"] > BUSY_GENERATOR for each in reports.values() for r in each):
        notes.append("the load generator was busy: the figure may be its own limit")
    ratio = passed = None
    if hub and peer:
        pairs = zip(reports["hub"], reports["peer"], strict=True)
        ratio = statistics.median(a["ops_s"] / b["ops_s"] if b["ops_s"] else 0.0 for a, b in pairs)
        clean = not hub["errors"] and not peer["errors"]
        passed = clean and ratio >= BARS[mode] and hub["p99_ms"] < peer["p99_ms"]
    return Operation(
        name=NAMES[mode],
        hub=hub,
        given=given,
        peer=peer,
        ratio=ratio,
        bar=BARS[mode],
        passed=passed,
        notes=notes,
    )


def _figures(reports: list[Report] | None) -> Figures | None:
    if not reports:
        return None
    return Figures(
        ops_s=statistics.median(report["ops_s"] for report in reports),
        p50_ms=statistics.median(report["p50_ms"] for report in reports),
        p99_ms=statistics.median(report["p99_ms"] for report in reports),
        errors=sum(report["errors"] for report in reports),
    )


def floor(plan: Plan, work: Path, python: Path, operations: dict[str, Operation]) -> Floor:
    found = pgfloor.reads_per_second(
        work,
        python,
        clients=plan.connections,
        seconds=plan.seconds,
        rounds=plan.rounds,
    )
    if isinstance(found, str):
        return Floor(
            reads_s=None,
            reason=found,
            get_percent=None,
            bar_percent=PGBENCH_BAR,
            passed=None,
        )
    get = operations["get"]["hub"] if "get" in operations else None
    percent = 100 * get["ops_s"] / found if get else None
    return Floor(
        reads_s=found,
        reason=None,
        get_percent=percent,
        bar_percent=PGBENCH_BAR,
        passed=None if percent is None else percent >= PGBENCH_BAR,
    )


def table(operations: list[Operation]) -> str:
    head = (
        f"{'operation':<12}{'hub/s':>9}{'peer/s':>9}{'ratio':>8}{'bar':>7}"
        f"{'hub p50':>9}{'p99 ms':>9}{'peer p50':>10}{'p99 ms':>9}  verdict"
    )
    lines = [head, "-" * len(head)]
    for one in operations:
        ratio = "-" if one["ratio"] is None else f"{one['ratio']:.2f}x"
        lines.append(
            f"{one['name']:<12}{_number(one['hub'], 'ops_s', 9)}"
            f"{_number(one['peer'], 'ops_s', 9)}{ratio:>8}"
            f"{'>=' + format(one['bar'], 'g') + 'x':>7}"
            f"{_number(one['hub'], 'p50_ms', 9)}{_number(one['hub'], 'p99_ms', 9)}"
            f"{_number(one['peer'], 'p50_ms', 10)}{_number(one['peer'], 'p99_ms', 9)}"
            f"  {_verdict(one['passed'])}"
        )
        lines += [f"    {note}" for note in one["notes"]]
    return "\n".join(lines)


def given_table(operations: list[Operation], version: str) -> str:
    """The hub on the Postgres of `--database-url` beside the one on its embedded Postgres."""
    lines = [f"{'on ' + version:<40}{'ops/s':>9}{'ratio':>8}{'p50 ms':>9}{'p99 ms':>9}{'p50 ratio':>11}"]
    for one in operations:
        hub, given = one["hub"], one["given"]
        ratios = [f"{given[key] / hub[key]:.2f}x" if hub and given and hub[key] else "-" for key in ("ops_s", "p50_ms")]
        lines.append(
            f"{one['name']:<40}{_number(given, 'ops_s', 9)}{ratios[0]:>8}"
            f"{_number(given, 'p50_ms', 9)}{_number(given, 'p99_ms', 9)}{ratios[1]:>11}"
        )
    return "\n".join(lines)


def _number(figures: Figures | None, key: str, width: int) -> str:
    if figures is None:
        return f"{'-':>{width}}"
    value = cast("dict[str, float]", figures)[key]
    return f"{value:>{width}.{0 if key == 'ops_s' else 1}f}"


def _verdict(passed: bool | None) -> str:
    return "not compared" if passed is None else "pass" if passed else "FAIL"


def describe_floor(found: Floor) -> str:
    if found["reads_s"] is None:
        return f"pgbench: skipped: {found['reason']}"
    text = f"pgbench: {found['reads_s']:.0f} rows read by key per second, prepared"
    if found["get_percent"] is None:
        return text
    return (
        f"{text}; tasks/get is {found['get_percent']:.1f} % of it"
        f" (bar >= {found['bar_percent']:g} %)  {_verdict(found['passed'])}"
    )


def versions(python: Path) -> dict[str, str]:
    """What the peer is made of."""
    ask = (
        "import json; from importlib.metadata import version as v; print(json.dumps("
        "{n: v(n) for n in ('fastmcp', 'fastmcp-tasks', 'pydocket', 'redis', 'mcp')}))"
    )
    output = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout
    found = cast("dict[str, str]", json.loads(output))
    if not shutil.which("redis-server"):  # the hub is measured without it
        return found | {"redis-server": "-"}
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    server = [word[2:] for word in redis.split() if word.startswith("v=")]
    return found | {"redis-server": server[0] if server else "-"}


def machine(work: Path) -> dict[str, str | int]:
    return {
        "cpu": procfs.cpu_model(),
        "cores": os.cpu_count() or 0,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "data_on": procfs.file_system(work),
    }


@contextmanager
def work_directory(*, keep: bool) -> Iterator[Path]:
    """A directory that the embedded Postgres's own user may pass through."""
    work = Path(tempfile.mkdtemp(prefix="taskhub-bench-"))
    work.chmod(0o711)
    try:
        yield work
    finally:
        if keep:
            print(f"kept: {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)


def compare(plan: Plan) -> int:
    hub_python = sides.hub_python() if plan.side != "peer" else Path(sys.executable)
    version = f"PostgreSQL {sides.version_of(hub_python, plan.database_url)}" if plan.database_url else ""
    generator = sides.peer_python(hub_python)
    with ExitStack() as stack:
        work = stack.enter_context(work_directory(keep=plan.keep))
        about = machine(work)
        print(" ".join(f"{key}={value}" for key, value in about.items()))
        if about["data_on"] in MEMORY_FILE_SYSTEMS:
            print("warning: the data lies in memory, so fsync costs nothing (TMPDIR)")
        starts: dict[str, AbstractContextManager[sides.Side]] = {
            "hub": sides.hub(work, hub_python),
        }
        if plan.database_url:
            starts["given"] = sides.hub_on(plan.database_url, work, hub_python)
        starts["peer"] = sides.peer(work, generator, events=plan.peer_events)
        wanted = [name for name in starts if plan.side == "both" or (plan.side == "peer") == (name == "peer")]
        both = [stack.enter_context(starts[name]) for name in wanted]
        for side in both:
            prove(side, plan, generator)
        reports = measure_all(both, plan, generator)
        operations = {mode: summarise(mode, reports[mode]) for mode in plan.modes}
        reading = floor(plan, work, hub_python, operations) if "hub" in wanted else None
    peer = versions(generator)
    answers = "text/event-stream" if plan.peer_events else "application/json"
    print(" ".join(f"{name}={version}" for name, version in peer.items()), answers)
    print(f"{plan.connections} connections, {plan.rounds} x {plan.seconds:g} s each\n")
    print(table(list(operations.values())))
    if version:
        print(f"\n{given_table(list(operations.values()), version)}\n")
    if reading:
        print(describe_floor(reading))
    verdicts = [one["passed"] for one in operations.values()]
    verdicts += [reading["passed"]] if reading else []
    if plan.json:
        document = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": about,
            "peer": {**peer, "answers": answers},
            "given": version,
            "connections": plan.connections,
            "rounds": plan.rounds,
            "seconds": plan.seconds,
            "operations": operations,
            "pgbench": reading,
            "reports": reports,
        }
        plan.json.write_text(json.dumps(document, indent=2) + "\n")
    return 1 if False in verdicts else 0


def parse() -> Plan:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=3)
    add("--seconds", type=float, default=5, help="of each round, after 1 s of warm-up")
    add("--connections", type=int, default=16)
    add("--modes", nargs="+", choices=BARS, default=list(BARS))
    add("--side", choices=["both", "hub", "peer"], default="both")
    add(
        "--peer-events",
        action="store_true",
        help="the peer answers text/event-stream, as FastMCP does by default (here its default is application/json)",
    )
    add(
        "--database-url",
        metavar="URL",
        help="a second hub, on this Postgres, whose role may create databases: postgresql://USER:PASSWORD@HOST:PORT/postgres",
    )
    add("--keep", action="store_true", help="keep the temporary directory with logs")
    add("--json", type=Path, help="write everything that was measured here")
    return Plan(**vars(parser.parse_args()))


def interrupt(number: int, _: object) -> None:
    """Ends the run once; the cleaning up that follows is not to be interrupted."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupt)
    try:
        sys.exit(compare(parse()))
    except CannotRunError as error:
        print(f"cannot compare: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as error:
        print(f"stopped by {error}", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
