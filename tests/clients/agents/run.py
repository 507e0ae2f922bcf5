"""Agent frameworks, unmodified from their registries, against a running TaskHub, all at once.

    uv run manage.py up --data-dir DIR --server python:tests.clients.extra_server:server
    HUB_DATA=DIR uv run python -m tests.clients.agents.run URL [--patience MS --seconds S] [FRAMEWORK ...]

Each has a client and a token of its own. First the snippet that the docs and the console have for it is run as it
stands, then the script. Meanwhile a person decides what waits in the inbox. In the end it is counted how often tools
ran: each call once, however often its caller left. One line for each; the exit code is 1 if any failed.
`--patience` sets that of the clients, `--seconds` the length of the long call.
`TASKHUB_TOOLS_DIR`: where frameworks are installed (default ~/.cache/taskhub-tools).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg

from taskhub.domain.clients.programs import Program, programs
from tests.clients import snippets
from tests.clients.snippets import TOOLS
from tests.support.person import Person

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PYTHON_VERSION = "3.11"
SCRIPT_SECONDS = 280
THINKS_SECONDS = 4.0
"""How long the person takes for it."""
NAMES = sorted({*(path.stem for path in HERE.glob("*.txt")), *(path.stem for path in HERE.glob("*_client.mjs"))})
"""A script each; one is tried with other versions of what it stands on, by another list of them."""
SNIPPETS = {program.script: program for program in programs() if program.script}
"""By script: what the console and the docs say to paste for the same framework."""


def installed(name: str) -> list[str]:
    """The command of a framework's script, whose environment is made again when its pins change."""
    if (script := HERE / f"{name}.mjs").exists():
        return [str(_javascript() / "node_modules" / "node" / "bin" / "node"), str(_javascript() / script.name)]
    home, pins = TOOLS / f"agents-{name}", HERE / f"{name}.txt"
    python = home / "bin" / "python"
    done = home / "installed.txt"
    if not done.exists() or done.read_text() != pins.read_text():
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run(["uv", "venv", "--quiet", "--python", PYTHON_VERSION, str(home)], check=True)
        # Not from here: uv would add the versions that the project is held to.
        install = ["uv", "pip", "install", "--quiet", "--python", str(python), "--requirement", str(pins)]
        subprocess.run(install, check=True, cwd=home)
        shutil.copy(pins, done)
    return [str(python), str(HERE / f"{name.split('-')[0]}.py")]


def _javascript() -> Path:
    """Where the JavaScript ones are installed, with a Node of their own."""
    home, pins = TOOLS / "agents-javascript", HERE / "package.json"
    done = home / "installed.json"
    if not done.exists() or done.read_text() != pins.read_text():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        shutil.copy(pins, home / "package.json")
        command = ["npm", "install", "--prefix", str(home), "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, check=True, stdout=sys.stderr)
        shutil.copy(pins, done)
    for script in [*HERE.glob("*.mjs"), HERE.parent / "expect.mjs"]:
        shutil.copy(script, home)  # a module finds packages from where it lies
    return home


def _home(program: Program) -> Path | None:
    return TOOLS / "agents-javascript" if program.language == "javascript" else None


class Hub:
    """The running hub's database and commands."""

    def __init__(self, url: str, data: Path) -> None:
        self.data = data
        self.base = url.removesuffix("/mcp")
        self.database = (data / "database_url").read_text().strip()
        self._asked = psycopg.connect(self.database, autocommit=True)
        # One process for all: a start costs more than what a command does.
        self._shell = subprocess.Popen(
            [sys.executable, "-m", "tests.support.shell"],
            cwd=ROOT,
            env={**os.environ, "TASKHUB_DATA_DIR": str(data), "DATABASE_URL": self.database},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def sql(self, statement: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        cursor = self._asked.execute(statement, params)
        return cursor.fetchall() if cursor.description else []

    def token(self, client: str) -> str:
        """A token of a client of its own."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{json.dumps(['token', 'create', client])}\n")
        self._shell.stdin.flush()
        return str(json.loads(self._shell.stdout.readline())["out"]).strip()

    def close(self) -> None:
        self._shell.communicate()
        self._asked.close()


async def deciding(hub: Hub, mark: str) -> None:
    """A person who approves and confirms what these clients want to deploy, and picks a colour, a while after it was
    asked."""
    person = await asyncio.to_thread(Person, SimpleNamespace(base=hub.base, data=hub.data), "admin")
    waiting = (
        "SELECT q.id, q.kind, t.tool_name FROM question q JOIN task t ON t.id = q.task_id"
        " JOIN auth_context a ON a.id = t.context_id"
        " WHERE t.tool_name IN ('deploy', 'pick') AND q.state = 'open' AND q.audience <> 'client' AND a.name LIKE %s"
        " AND t.created_at < now() - make_interval(secs => %s)"
    )
    with person:
        while True:
            for question, kind, tool in hub.sql(waiting, [f"{mark}-%", THINKS_SECONDS]):
                if kind == "approval":
                    await asyncio.to_thread(person.decide, question)
                else:
                    await asyncio.to_thread(person.answer, question, f0="true" if tool == "deploy" else "red")
            await asyncio.sleep(0.5)


async def tried(name: str, command: list[str], hub: Hub, client: str, options: argparse.Namespace) -> list[str]:
    """Run a script and count what ran for it. What went wrong, nothing if all is well."""
    token = hub.token(client)
    if options.patience:
        hub.sql("UPDATE auth_context SET patience_ms = %s WHERE name = %s", [options.patience, client])
    if (program := SNIPPETS.get(Path(command[-1]).stem)) and (
        wrong := await snippets.tried(program, command[:-1], options.url, token, _home(program))
    ):
        return wrong
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *command, options.url, token, f"{options.seconds:g}",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    try:
        async with asyncio.timeout(SCRIPT_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError:
        return [f"not done within {SCRIPT_SECONDS} s"]
    finally:
        if process.returncode is None:
            process.kill()
    lines = said.decode().splitlines()
    (options.kept / f"{name}.log").write_text("\n".join(lines))
    if process.returncode:
        return lines[-25:]
    ran = hub.sql(
        "SELECT t.tool_name, t.state, t.lease_epoch, t.join_seconds IS NULL FROM task t"
        " JOIN auth_context a ON a.id = t.context_id"
        " WHERE a.name = %s AND t.tool_name IN ('countdown', 'deploy') ORDER BY t.id",
        [client],
    )
    # A deployment runs until it asks whether it is confirmed, and again with the answer.
    # What a plain call made may be joined, and what was asked for as a task may not.
    tasks = "_tasks_" in name
    runs = [("countdown", "finished", 1), ("deploy", "finished", 2), ("countdown", "cancelled", 1)]
    wanted = [(*run, tasks) for run in runs]
    if ran != wanted:
        return [*lines[-25:], f"ran: {ran}, expected {wanted}"]
    answered = hub.sql(
        "SELECT t.tool_name, e.door FROM event e JOIN task t ON t.id = e.task_id"
        " JOIN auth_context a ON a.id = t.context_id"
        " WHERE a.name = %s AND t.tool_name IN ('pick', 'paint') AND e.action = 'question.accept' ORDER BY t.id",
        [client],
    )
    if answered != [("pick", "client" if lines[-2].endswith("by its program") else "web"), ("paint", "client")]:
        return [*lines[-25:], f"its questions were answered at the doors {answered}"]
    print(f"{name}: all as expected in {time.monotonic() - began:.0f} s ({lines[-2]})", flush=True)
    return []


async def main(options: argparse.Namespace) -> int:
    commands = {name: installed(name) for name in options.names or NAMES}
    hub = Hub(options.url, Path(os.environ["HUB_DATA"]))
    hub.sql("UPDATE tool SET question_audience = 'client' WHERE name = 'paint'")
    mark = f"agents-{secrets.token_hex(3)}"
    person = asyncio.create_task(deciding(hub, mark))
    trying = asyncio.gather(
        *(tried(name, command, hub, f"{mark}-{name}", options) for name, command in commands.items())
    )
    await asyncio.wait([trying, person], return_when=asyncio.FIRST_COMPLETED)
    if person.done():
        trying.cancel()
        person.result()  # it failed
    wrong = await trying
    person.cancel()
    with suppress(asyncio.CancelledError):
        await person
    hub.close()
    for name, lines in zip(commands, wrong, strict=True):
        if lines:
            print(f"FAILED  {name}", *(f"        | {line}" for line in lines), sep="\n")
    failed = sum(map(bool, wrong))
    if failed:
        print(f"{failed} of {len(commands)} failed; output: {options.kept}")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("names", nargs="*", metavar="FRAMEWORK", help=", ".join(NAMES))
    parser.add_argument("--patience", type=int, metavar="MS")
    parser.add_argument("--seconds", type=float, default=40)
    found = parser.parse_intermixed_args()
    found.kept = Path(tempfile.mkdtemp(prefix="agents-"))
    sys.exit(asyncio.run(main(found)))
