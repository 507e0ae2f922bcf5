"""The official suite against a server that others wrote, directly and behind a TaskHub: what passes directly passes
through the hub too.

    uv run python -m tests.conformance.behind [REVISION ...]

The server is the one that the Python SDK has for this suite, over HTTP, unmodified from the SDK's source distribution.
One line for each scenario that does not come to the same; the exit code is 1 if one passes directly only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.servers import installed
from tests.servers.hub import Failed, Hub, free_port, reachable

REVISIONS: Final = ("2025-11-25", "2026-07-28")
SUITE_SECONDS: Final = 600
_LINE: Final = re.compile(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)


@contextlib.contextmanager
def example(log: Path) -> Iterator[str]:
    """The address of the SDK's server."""
    home = installed.python("python_sdk")
    (source,) = home.glob("source/mcp-*/examples/servers/everything-server")
    port = free_port()
    words = ["-m", "mcp_everything_server", "--port", str(port), "--log-level", "WARNING"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(home / "bin" / "python"), *words],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdout=file,
            stderr=file,
        )
    try:
        reachable(process, port)
        yield f"http://localhost:{port}/mcp"
    finally:
        process.terminate()
        process.wait(10)


def passed(url: str, revision: str, log: Path) -> dict[str, tuple[int, int]]:
    """By scenario, how many checks passed and how many failed."""
    tools = installed.TOOLS / "node_modules"
    suite = tools / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    if not suite.exists():
        raise Failed("the suite is installed by tests/conformance/run.sh, which has to run first")
    command = [str(tools / "node" / "bin" / "node"), str(suite), "server", "--url", url, "--requirements", revision]
    command += ["--output-dir", str(log.with_suffix(""))]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=SUITE_SECONDS, env={**os.environ, "NO_COLOR": "1"}, check=False
    )
    log.write_text(run.stdout + run.stderr)
    summary = run.stdout.partition("=== SUMMARY ===")[2]
    found = {name: (int(good), int(bad)) for name, good, bad in _LINE.findall(summary)}
    if not found:
        raise Failed(f"the suite ran no scenario: {log}")
    return found


def reasons(scenario: str, results: Path) -> Iterator[str]:
    """What the suite says of each check of a scenario that failed."""
    for file in results.glob(f"server-{scenario}-20*/checks.json"):
        for check in json.loads(file.read_text()):
            if check["status"] == "FAILURE":
                yield f"{check['id']}: {check.get('errorMessage', '')}"[:600]


Checks = dict[str, tuple[int, int]]


def compared(revision: str, direct: Checks, hub: Checks, results: Path) -> int:
    """Print what differs; how many scenarios pass directly only."""
    worse = 0
    for name, (good, bad) in direct.items():
        through, failing = hub.get(name, (0, 0))
        if (through, failing) == (good, bad):
            continue
        # Fewer checks may pass where none fails: some are notes, as on whether an answer is a stream.
        lost = not bad and (failing or name not in hub)
        worse += bool(lost)
        line = f"{name}: directly {good} passed and {bad} failed, through the hub {through} and {failing}"
        print(f"  {'FAILED' if lost else 'better' if failing < bad else 'other '}  {line}")
        if failing > bad:
            print(*(f"          {why}" for why in reasons(name, results)), sep="\n")
    fine = {name for name, (_, bad) in direct.items() if not bad}
    both = {name for name in fine if name in hub and not hub[name][1]}
    print(
        f"{revision}: {len(fine)} of {len(direct)} scenarios pass directly, {len(both)} of them through the hub",
        flush=True,
    )
    return worse


def main(revisions: list[str]) -> int:
    """Run the suite twice for each revision."""
    kept = Path(tempfile.mkdtemp(prefix="conformance-"))
    kept.chmod(0o755)
    worse = 0
    with example(kept / "server.log") as url:
        hub = Hub(kept, "--anonymous", "--server", f"everything={url}")
        try:
            # Its tools ask in the middle of a call where there are sessions, and by their answers where there are none.
            hub.manage("server", "edit", "everything", "--protocol", "caller")
            deadline = time.monotonic() + 60
            while "test_simple_text" not in hub.manage("server", "show", "everything"):
                if time.monotonic() > deadline:
                    raise Failed(f"the hub does not list the server: {kept}")
                time.sleep(0.3)
            for revision in revisions:
                direct = passed(url, revision, kept / f"direct-{revision}.log")
                behind = passed(hub.url.replace("127.0.0.1", "localhost"), revision, kept / f"hub-{revision}.log")
                worse += compared(revision, direct, behind, kept / f"hub-{revision}")
        finally:
            hub.stop()
    if worse:
        print(f"output: {kept}")
        return 1
    shutil.rmtree(kept, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(REVISIONS)))
