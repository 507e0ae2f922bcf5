#!/usr/bin/env python3
"""What TaskHub adds to a call of a tool, beside the same server alone and behind FastMCP's proxy, in one run.

  uv run bench/added.py [--rounds 3] [--seconds 4] [--connections 1 16 32] [--json FILE]

Everything listens on 127.0.0.1, lives in a temporary directory and is gone
afterwards. Exit status: 0 both bars are met, 1 one is not, 2 it cannot be measured.
bench/README.md says what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import sides
from bench.compare import FIRST_ANSWER_S, GIVE_UP_S, interrupt, machine, versions, work_directory
from bench.load import Report, describe
from bench.programs import HOST, ROOT, CannotRunError, Command, Program, attempts, free_port

SERVERS = ROOT / "bench" / "added_servers.py"
DIRECT, PROXY = "direct", "proxy http"
HTTP = "hub http"
OWN = "hub own"  # the server of "hub python" in a process of its own
WAYS = (DIRECT, PROXY, "proxy stdio", HTTP, "hub stdio", "hub python", OWN)
ADDED_BAR = 1 / 8  # of what the proxy adds, at one connection
SHARE_BAR = 0.55  # of the calls a second of the server alone, at 32 connections
ONE, MANY = 1, 32


@dataclass(frozen=True)
class Plan:
    rounds: int
    seconds: float
    connections: list[int]
    ways: list[str]
    keep: bool
    json: Path | None


@dataclass(frozen=True)
class Way:
    """An address at which `tool` is called, and the processes that take part."""

    url: str
    tool: str
    token: str
    watch: Mapping[str, int]


@dataclass(frozen=True)
class Figures:
    """Medians of the rounds, and the lowest and highest number of calls a second."""

    ops_s: float
    lowest: float
    highest: float
    p50_ms: float
    p99_ms: float
    errors: int


@contextmanager
def served(name: str, work: Path, python: Path, **environment: str) -> Iterator[tuple[str, int]]:
    """The address and process id of `added_servers.py` over HTTP."""
    port = free_port()
    command: Command = [python, "-m", "uvicorn", "--app-dir", SERVERS.parent, "added_servers:app"]
    command += ["--host", HOST, "--port", str(port), "--loop", "uvloop", "--http", "httptools"]
    command += ["--log-level", "warning"]
    environ = {**os.environ, "FASTMCP_LOG_LEVEL": "WARNING", **environment}
    with Program(name, command, work / f"{name}.log", environ) as program:
        for _ in attempts(program, "answer", sides.READY_S):
            if sides._status(port, "/mcp") is not None:
                break
        yield f"http://{HOST}:{port}/mcp", program.pid


@contextmanager
def all_ways(plan: Plan, work: Path, python: Path, peer: Path) -> Iterator[dict[str, Way]]:
    with ExitStack() as stack:
        url, pid = stack.enter_context(served("server", work, peer, ADDED_TOOL="echo_http"))
        ways = {DIRECT: Way(url, "echo_http", "", {"server": pid})}
        for name, target, tool in ((PROXY, url, "echo_http"), ("proxy stdio", "stdio", "echo_stdio")):
            if name in plan.ways:
                front, its = stack.enter_context(
                    served(name.replace(" ", "-"), work, peer, ADDED_TOOL=tool, ADDED_TARGET=target)
                )
                ways[name] = Way(front, tool, "", {"proxy": its, "server": pid})
        if any(name.startswith("hub") for name in plan.ways):
            command = f"env ADDED_TOOL=echo_stdio FASTMCP_LOG_LEVEL=WARNING {shlex.quote(str(peer))} {SERVERS}"
            servers = (url, f"stdio:{command}", *sides.OWN_SERVERS)
            servers += tuple(f"own={spec}" for spec in sides.OWN_SERVERS if OWN in plan.ways)
            hub = stack.enter_context(sides.hub(work, python, servers))
            if OWN in plan.ways:
                sides.give_process(work, python, "own")
            watch = {name: its for name, its in hub.watch.items() if name != "up"} | {"server": pid}
            tools = {HTTP: "echo_http", "hub stdio": "echo_stdio", "hub python": "echo", OWN: "own__echo"}
            for name, tool in tools.items():
                ways[name] = Way(hub.url, tool, hub.token, watch)
        yield {name: ways[name] for name in plan.ways}


def measure(name: str, way: Way, connections: int, generator: Path, seconds: float) -> Report:
    """One run of the load generator, in a process of its own."""
    command: Command = [generator, "-m", "bench.load", "--json", "--url", way.url, "--mode", "call", "--label", name]
    command += ["--tool", way.tool, "--duration", str(seconds), "--concurrency", str(connections)]
    command += ["--token", way.token] if way.token else []
    for process, pid in way.watch.items():
        command += ["--watch", f"{process}={pid}"]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=seconds + GIVE_UP_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotRunError(f"{name}: it stopped answering") from None
    if not done.stdout.strip():
        raise CannotRunError(f"{name}: {done.stderr.strip()[-2000:]}")
    return cast("Report", json.loads(done.stdout))


def prove(name: str, way: Way, generator: Path) -> None:
    """Waits until a call succeeds."""
    end, last = time.monotonic() + FIRST_ANSWER_S, ""
    while time.monotonic() < end:
        report = measure(name, way, 1, generator, 0.5)
        if report["ops"] and not report["errors"]:
            return
        last = report["first_error"] or ""
    raise CannotRunError(f"{name}: {last}")


def figures(reports: list[Report]) -> Figures:
    rates = [report["ops_s"] for report in reports]
    return Figures(
        ops_s=statistics.median(rates),
        lowest=min(rates),
        highest=max(rates),
        p50_ms=statistics.median(report["p50_ms"] for report in reports),
        p99_ms=statistics.median(report["p99_ms"] for report in reports),
        errors=sum(report["errors"] for report in reports),
    )


def table(found: Mapping[tuple[str, int], Figures]) -> str:
    head = f"{'way':<13}{'connections':>12}{'calls/s':>9}{'spread':>14}{'p50 ms':>9}{'p99 ms':>9}{'of direct':>11}"
    lines = [head, "-" * len(head)]
    for (name, connections), one in found.items():
        direct = found.get((DIRECT, connections))
        share = f"{one.ops_s / direct.ops_s:.2f}" if direct and direct.ops_s else "-"
        spread = f"{one.lowest:.0f}-{one.highest:.0f}"
        lines.append(
            f"{name:<13}{connections:>12}{one.ops_s:>9.0f}{spread:>14}{one.p50_ms:>9.1f}{one.p99_ms:>9.1f}{share:>11}"
            + (f"  {one.errors} ERRORS" if one.errors else "")
        )
    return "\n".join(lines)


def verdicts(found: Mapping[tuple[str, int], Figures]) -> list[tuple[str, bool]]:
    """Each bar that can be judged: what was found, and whether it is met."""
    told = []
    if all((name, ONE) in found for name in (DIRECT, PROXY, HTTP)):
        alone, proxy, hub = (found[name, ONE].p50_ms for name in (DIRECT, PROXY, HTTP))
        part = (hub - alone) / (proxy - alone) if proxy > alone else 1.0
        words = f"one connection: the hub adds {hub - alone:.1f} ms, the proxy {proxy - alone:.1f} ms"
        told.append((f"{words}: {part:.3f} of it (bar <= {ADDED_BAR:g})", part <= ADDED_BAR))
    if all((name, MANY) in found for name in (DIRECT, HTTP)):
        share = found[HTTP, MANY].ops_s / found[DIRECT, MANY].ops_s
        told.append((f"{MANY} connections: {share:.2f} of the server alone (bar >= {SHARE_BAR:g})", share >= SHARE_BAR))
    return told


def run(plan: Plan) -> int:
    hub_python = sides.hub_python()
    generator = sides.peer_python(hub_python)
    reports: dict[tuple[str, int], list[Report]] = {}
    with ExitStack() as stack:
        work = stack.enter_context(work_directory(keep=plan.keep))
        about = machine(work)
        ways = stack.enter_context(all_ways(plan, work, hub_python, generator))
        for name, way in ways.items():
            prove(name, way, generator)
        for connections in plan.connections:
            for _ in range(plan.rounds):
                for name, way in ways.items():
                    report = measure(name, way, connections, generator, plan.seconds)
                    reports.setdefault((name, connections), []).append(report)
                    print(describe(report), file=sys.stderr, flush=True)
    found = {key: figures(each) for key, each in reports.items()}
    print(" ".join(f"{key}={value}" for key, value in {**about, **versions(generator)}.items()))
    print(f"{plan.rounds} x {plan.seconds:g} s each\n")
    print(table(found))
    told = verdicts(found)
    clean = not any(one.errors for one in found.values())
    for words, met in told:
        print(f"{words}  {'pass' if met and clean else 'FAIL'}")
    if plan.json:
        plan.json.write_text(json.dumps({"machine": about, "reports": [*reports.values()]}, indent=2) + "\n")
    return 0 if clean and all(met for _, met in told) else 1


def parse() -> Plan:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=3)
    add("--seconds", type=float, default=4, help="of each round, after 1 s of warm-up")
    add("--connections", type=int, nargs="+", default=[ONE, 16, MANY])
    add("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    add("--keep", action="store_true", help="keep the temporary directory with logs")
    add("--json", type=Path, help="write every round here")
    return Plan(**vars(parser.parse_args()))


def main() -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupt)
    try:
        sys.exit(run(parse()))
    except CannotRunError as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as error:
        print(f"stopped by {error}", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
