#!/usr/bin/env python3
"""A hub under load for a long time, while its parts are killed: is anything lost, done twice, or stuck?

    uv run python -m bench.soak [--minutes 30] [--clients 8] [--pause 20] [--seed N] [--keep]

`manage.py up` runs with two workers on its embedded Postgres. Clients call two tools, each call with a key of its own
that is said again until it is acknowledged; what they are promised, they wait for. Every `--pause` seconds one part
is killed with SIGKILL (web, a worker, all of Postgres) or every connection that listens for hints is cut, in an order
drawn by `--seed`; for the last sixth of the time nothing is killed. At the end, for every call:

  lost     it was acknowledged, and then unknown, or its result is not its own
  doubled  a tool that may not run twice did
  stuck    it had no end two minutes after the last call
  failed   it failed with anything but "outcome unknown", which only a call of `once` whose worker was killed may say

Memory, descriptors and threads of the processes, sessions at the database and the size of its tables are printed at
the start, after the kills and at the end. Exit status: 0 where nothing was lost, doubled, stuck or failed, else 1;
2 when it could not run. Only processes that it started are killed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import procfs, sides
from bench.load import TASKS, VERSION
from bench.programs import HOST, ROOT, CannotRunError, Command, Program, attempts, free_port

PATIENCE_S = 90.0
"""For one acknowledgement, kills included."""
STUCK_S = 120.0
READY_S = 120.0
TABLES = ("task", "event", "attempt", "question")
TOOLS = ("once", "again")
PARTS = ("web", "worker", "postgres", "listeners")
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}},
}


@dataclass
class Call:
    """One call, and what became of it."""

    key: str
    tool: str
    asked: int = 0
    task: str = ""
    end: str = ""
    """`completed`, `unknown`, or what went wrong: `lost …`, `failed …`, `stuck`."""


@dataclass
class Ledger:
    calls: list[Call] = field(default_factory=list)
    slowest_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, call: Call, seconds: float) -> None:
        with self.lock:
            self.calls.append(call)
            self.slowest_s = max(self.slowest_s, seconds)


class Caller:
    """One client: a thread with one connection, which it opens anew whenever it breaks."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._connection: http.client.HTTPConnection | None = None
        self._id = 0

    def ask(self, method: str, name: str, params: dict[str, object]) -> dict[str, object] | None:
        """The JSON-RPC answer; `None` when there is none, or one that says to come back."""
        self._id += 1
        body = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": method,
            "Mcp-Name": name,
        }
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(HOST, self._port, timeout=30)
            self._connection.request("POST", "/mcp", json.dumps(body), headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return None
        if answer.status in (429, 503):
            return None
        found = json.loads(content)
        return found if isinstance(found, dict) else None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def one_call(caller: Caller, call: Call) -> None:
    """Call until it is acknowledged, then wait for its end."""
    params: dict[str, object] = {"name": call.tool, "arguments": {"key": call.key}}
    params["_meta"] = {**META, "io.taskhub/idempotencyKey": call.key}
    until = time.monotonic() + PATIENCE_S
    while (answer := caller.ask("tools/call", call.tool, params)) is None or "result" not in answer:
        call.asked += 1
        if answer is not None:
            call.end = f"failed {json.dumps(answer)[:300]}"
            return
        if time.monotonic() > until:
            call.end = "failed: nobody answered"
            return
        time.sleep(0.2)
    result = answer["result"]
    assert isinstance(result, dict)
    if "taskId" in result:
        call.task = str(result["taskId"])
        call.end = _followed(caller, call)
    else:
        call.end = _judged(call, result)


def _followed(caller: Caller, call: Call) -> str:
    pause, until = 0.1, time.monotonic() + STUCK_S
    while time.monotonic() < until:
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)
        answer = caller.ask("tasks/get", call.task, {"taskId": call.task, "_meta": META})
        if answer is None:
            continue
        if "error" in answer:
            return f"lost {json.dumps(answer)[:300]}"
        task = answer["result"]
        assert isinstance(task, dict)
        match task["status"]:
            case "completed":
                return _judged(call, task["result"])
            case "failed" if "outcome" in json.dumps(task.get("error", "")).lower() and call.tool == "once":
                return "unknown"
            case "failed" | "cancelled":
                return f"failed {json.dumps(task)[:300]}"
    return "stuck"


def _judged(call: Call, result: dict[str, object]) -> str:
    content = result.get("content")
    right = isinstance(content, list) and content[0].get("text") == call.key
    return "completed" if right else f"lost: another's result {json.dumps(result)[:300]}"


# ------------------------------------------------------------------------ the hub


class Hub:
    """The running hub, its parts and its database."""

    def __init__(self, program: Program, data: Path, port: int, token: str) -> None:
        self.program, self.data, self.port, self.token = program, data, port, token

    def pids(self, part: str) -> list[int]:
        words = {"web": "web", "worker": "worker"}[part]
        return [pid for pid in procfs.descendants(self.program.pid) if words in procfs.command(pid).split()]

    def answers(self) -> bool:
        return sides._status(self.port, "/healthz") == sides.HTTP_OK

    def database(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect((self.data / "database_url").read_text(), autocommit=True, connect_timeout=5)

    def hurt(self, part: str, drawn: random.Random) -> None:
        """Kill the part. What is not there just now is left alone."""
        with suppress(OSError, psycopg.Error):
            if part == "listeners":
                with self.database() as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
                    )
            elif part == "postgres":
                lines = sides.postmaster(self.data)
                if lines and "postgres" in procfs.command(int(lines[0])):
                    os.kill(int(lines[0]), signal.SIGKILL)
            elif pids := self.pids(part):
                os.kill(drawn.choice(pids), signal.SIGKILL)


def state(hub: Hub) -> str:
    """Memory, descriptors and threads of each process; sessions and sizes at the database."""
    lines = []
    named = [("up", [hub.program.pid]), ("web", hub.pids("web")), ("worker", hub.pids("worker"))]
    for name, pids in named:
        for pid in pids:
            with suppress(OSError):
                status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
                memory = int(status["VmRSS"].split()[0]) / 1024
                files = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
                lines.append(
                    f"  {name:8} {memory:6.0f} MiB {files:4} descriptors {status['Threads'].strip():>3} threads"
                )
    with hub.database() as connection:
        for (sessions,) in connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        ):
            lines.append(f"  sessions {sessions}")
        for row in connection.execute(
            # Counted: what Postgres remembers of its tables is gone after a crash.
            " UNION ALL ".join(
                f"SELECT '{name}', (SELECT count(*) FROM {name}), pg_relation_size('{name}'), pg_indexes_size('{name}')"
                for name in TABLES
            )
        ):
            name, rows, heap, index = (str(cell) for cell in row)
            lines.append(
                f"  {name:8} {rows:>8} rows {int(heap) / 2**20:7.1f} MiB {int(index) / 2**20:7.1f} MiB of indexes"
            )
    return "\n".join(lines)


def started(work: Path, stack: ExitStack) -> Hub:
    """As its users start it, with all of the load coming from one client."""
    data, port = sides.hub_data(work), free_port()
    command: Command = [Path(sys.executable), ROOT / "manage.py", "up", "--no-demo", "--verbose", "--workers", "2"]
    command += ["--server", "python:bench.soak_tools:server", "--host", HOST, "--port", str(port), "--data-dir", data]
    environment = {**sides.hub_environment(), "SOAK_RUNS": str(work / "runs"), "TASKHUB_OUTCOME_HOURS": "0"}
    (work / "runs").touch()
    stack.callback(sides._stop_postgres, data)
    program = stack.enter_context(Program("hub", command, work / "hub.log", environment))
    for _ in attempts(program, "200 of /readyz", READY_S):
        if sides._status(port, "/readyz?full") == sides.HTTP_OK:
            break
    return Hub(program, data, port, sides.hub_token(Path(sys.executable), data))


# ----------------------------------------------------------------------- the soak


def kills(seed: int) -> Iterator[str]:
    """All parts, and all of them again, each time in another order."""
    drawn = random.Random(seed)
    while True:
        yield from drawn.sample(PARTS, len(PARTS))


def soak(hub: Hub, *, minutes: float, clients: int, pause: float, seed: int, say: Callable[[str], None]) -> Ledger:
    ledger, over = Ledger(), threading.Event()

    def client(number: int) -> None:
        drawn, caller = random.Random(f"{seed}/{number}"), Caller(hub.port, hub.token)
        while not over.is_set():
            call = Call(secrets.token_hex(8), drawn.choice(TOOLS))
            began = time.monotonic()
            try:
                one_call(caller, call)
            except Exception as error:
                call.end = f"failed: {error!r}"
            ledger.note(call, time.monotonic() - began)
        caller.close()

    threads = [threading.Thread(target=client, args=[number], daemon=True) for number in range(clients)]
    began, end = time.monotonic(), time.monotonic() + 60 * minutes
    for thread in threads:
        thread.start()
    killed: Counter[str] = Counter()
    over.wait(min(pause, 10 * minutes))
    say(f"after {time.monotonic() - began:.0f} s\n{state(hub)}")
    drawn = random.Random(seed)
    for part in kills(seed):
        if time.monotonic() > end - 10 * minutes:
            break
        hub.program.check()
        hub.hurt(part, drawn)
        killed[part] += 1
        over.wait(pause)
    say(f"killed: {', '.join(f'{part} {count} times' for part, count in sorted(killed.items()))}")
    until = time.monotonic() + READY_S
    while not hub.answers() and time.monotonic() < until:
        time.sleep(0.5)
    say(f"after {time.monotonic() - began:.0f} s\n{state(hub)}")
    over.wait(max(0.0, end - time.monotonic()))
    over.set()
    for thread in threads:
        thread.join(PATIENCE_S + STUCK_S)
    say(f"after {time.monotonic() - began:.0f} s\n{state(hub)}")
    return ledger


def verdict(ledger: Ledger, runs: Path, say: Callable[[str], None]) -> bool:
    """Whether all is well; says what is not."""
    began = Counter(line.split()[1] for line in runs.read_text().splitlines() if line.startswith("began "))
    ends = Counter(call.end.split()[0].rstrip(":") for call in ledger.calls)
    doubled = [call for call in ledger.calls if call.tool == "once" and began[call.key] > 1]
    repeated = sum(call.tool == "again" and began[call.key] > 1 for call in ledger.calls)
    said_again = sum(call.asked > 0 for call in ledger.calls)
    say(
        f"{len(ledger.calls)} calls, {said_again} of them said again until they were acknowledged: "
        f"{ends['completed']} completed, {ends['unknown']} with an unknown outcome since their worker was killed, "
        f"{repeated} run again since they may be; the slowest took {ledger.slowest_s:.1f} s"
    )
    say(f"lost {ends['lost']}, doubled {len(doubled)}, stuck {ends['stuck']}, failed {ends['failed']}")
    for call in [call for call in ledger.calls if call.end not in ("completed", "unknown")][:10] + doubled[:10]:
        say(f"  {call.tool} {call.key} {call.task}: {call.end}, ran {began[call.key]} times")
    return not (doubled or ends["lost"] or ends["stuck"] or ends["failed"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--pause", type=float, default=20.0, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--keep", action="store_true", help="keep the directory with logs and data")
    given = parser.parse_args()

    def say(text: str) -> None:
        print(text, flush=True)

    say(f"seed {given.seed}")
    with ExitStack() as stack:
        work = Path(tempfile.mkdtemp(prefix="soak-"))
        if given.keep:
            say(f"kept: {work}")
        else:
            stack.callback(shutil.rmtree, work, ignore_errors=True)
        work.chmod(0o755)
        try:
            hub = started(work, stack)
            ledger = soak(
                hub, minutes=given.minutes, clients=given.clients, pause=given.pause, seed=given.seed, say=say
            )
        except CannotRunError as error:
            print(error, file=sys.stderr)
            return 2
        return 0 if verdict(ledger, work / "runs", say) else 1


if __name__ == "__main__":
    sys.exit(main())
