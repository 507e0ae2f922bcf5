"""What the poll of a deferred call costs: CPU of the hub's worker and its Postgres, for each `tasks/get` of a server.

    uv run python -m bench.polls                     # 200 calls, polled once a second each, for 20 s
    uv run python -m bench.polls --calls 20

A server in this process takes every call as a task that does not end. What the hub uses without them is measured
first, and taken off. Exit status: 0 if a poll costs at most a millisecond in all.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import django

from bench import procfs, sides
from bench.programs import HOST, Program, attempts, free_port

BAR_MS: Final = 1.0
PREFIX: Final = "io.modelcontextprotocol/"
EXTENSION: Final = f"{PREFIX}tasks"


def call(url: str, token: str, number: int) -> dict[str, Any]:
    """One `tools/call` that may answer with a handle."""
    meta = {
        f"{PREFIX}protocolVersion": "2026-07-28",
        f"{PREFIX}clientInfo": {"name": "bench", "version": "1"},
        f"{PREFIX}clientCapabilities": {"extensions": {EXTENSION: {}}},
    }
    params = {"name": "research", "arguments": {"n": number}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
    headers = {
        "authorization": f"Bearer {token}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "research",
    }
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
        found: dict[str, Any] = json.loads(answer.read())["result"]
    return found


def used(watch: dict[str, int]) -> dict[str, float]:
    """CPU seconds so far of the worker and of Postgres."""
    return {name: procfs.usage(watch[name]).cpu_s for name in ("worker", "postgres")}


def over(seconds: float, watch: dict[str, int]) -> dict[str, float]:
    before = used(watch)
    time.sleep(seconds)
    return {name: now - before[name] for name, now in used(watch).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--interval-ms", type=int, default=1000, help="the server's pollIntervalMs")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskhub.config.settings")
    django.setup()
    from tests.upstream.tasking_server import TaskingServer

    with tempfile.TemporaryDirectory() as place, TaskingServer(pollIntervalMs=options.interval_ms) as upstream:
        work, python, port = Path(place), sides.hub_python(), free_port()
        data, environment = sides.hub_data(work), {**sides.hub_environment(), "TASKHUB_INLINE_WAIT_MS": "50"}
        command = [python, sides.ROOT / "manage.py", "up", "--no-demo", "--verbose", "--workers", "1"]
        command += ["--server", f"tasking={upstream.target.target}", "--host", HOST, "--port", str(port)]
        with Program("hub", [*command, "--data-dir", data], work / "hub.log", environment) as hub:
            for _ in attempts(hub, "200 of /readyz", sides.READY_S):
                if sides._status(port, "/readyz?full") == sides.HTTP_OK:
                    break
            token = sides.hub_token(python, data, environment)
            watch = sides._hub_processes(hub, data)
            time.sleep(5)
            idle = over(options.seconds, watch)
            for number in range(options.calls):
                call(f"http://{HOST}:{port}/mcp", token, number)
            time.sleep(5)  # until all are polled as often as the server wants
            polls = upstream.polls()
            busy = over(options.seconds, watch)
            polls = upstream.polls() - polls
    each = {name: (busy[name] - idle[name]) / polls * 1000 for name in busy}
    total = sum(each.values())
    sys.stdout.write(
        f"{options.calls} deferred calls: {polls / options.seconds:.0f} polls a second; a poll costs"
        f" {each['worker']:.2f} ms of the worker and {each['postgres']:.2f} ms of Postgres: {total:.2f} ms in all"
        f" (at most {BAR_MS:g})\n"
    )
    return int(total > BAR_MS)


if __name__ == "__main__":
    sys.exit(main())
