"""Servers that others wrote, unmodified from their registries, behind a TaskHub and beside a direct connection.

    uv run python -m tests.servers.run [--all | --quick | SERVER ...]

Each server is asked over three wires for its lists, called with every tool that it has, answered what it asks, left
while a call runs and made to say something big. The same is done directly, and both must be equal, but for what
`compare.py` names. One line for each server, then a table; the exit code is 1 if any cell differs. `--quick`: those
that the gate tries.
`TASKHUB_TOOLS_DIR`: where servers are installed (default ~/.cache/taskhub-tools).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2

from tests.servers import compare, installed
from tests.servers.kinds import Server, Step
from tests.servers.listing import SERVERS
from tests.servers.speakers import LISTS, Refused, Said, Speaker
from tests.servers.transports import Command, Http, Sse

ROOT: Final = Path(__file__).resolve().parents[2]
WIRES: Final = {
    "2026-07-28 tasks": ("2026-07-28", True),
    "2025-11-25 tasks": ("2025-11-25", True),
    "plain": ("2025-06-18", False),
}
"""By name: the version that a client speaks, and whether it calls tools as tasks."""
CELLS: Final = ("list", "call", "question", "cancel", "big")
NONE: Final = "–"
LISTED_SECONDS: Final = 60
CANCEL_SECONDS: Final = 1.5
"""After so long a call is cancelled."""
AFTER_SECONDS: Final = 10
"""A call after a cancelled one takes no longer."""


class Failed(Exception):
    """A cell is not as it must be."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Hub:
    """A TaskHub of its own, without demo."""

    def __init__(self, place: Path) -> None:
        self.data = place / "data"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.log = (place / "hub.log").open("wb")
        command = ["manage.py", "up", "--no-demo", "--verbose", "--port", str(self.port), "--data-dir", str(self.data)]
        self._process = subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 120
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"the hub does not start: {self.log.name}")
            time.sleep(0.2)
        database = (self.data / "database_url").read_text().strip()
        self._shell = subprocess.Popen(
            [sys.executable, "-m", "tests.support.shell"],
            cwd=ROOT,
            env={**os.environ, "TASKHUB_DATA_DIR": str(self.data), "DATABASE_URL": database},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _ready(self) -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            return httpx2.get(self.url.replace("/mcp", "/readyz"), trust_env=False).status_code == 200
        return False

    def manage(self, *words: str) -> str:
        """What `manage.py` prints with these words."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{json.dumps(words)}\n")
        self._shell.stdin.flush()
        said = json.loads(self._shell.stdout.readline())
        if "error" in said:
            raise Failed(f"{words}: {said['error']}")
        return str(said["out"]).strip()

    def stop(self) -> None:
        self._shell.communicate()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        self.log.close()


class Trial:
    """One server: directly, and through the hub."""

    def __init__(self, server: Server, hub: Hub, place: Path, page: str) -> None:
        self.server, self.hub = server, hub
        self.notes: list[str] = []
        """The known differences that were met."""
        self.work = place / server.name
        self.work.mkdir()
        home = installed.javascript() if server.home == "javascript" else installed.python(server.home)
        programs = home / ("node_modules/.bin" if server.home == "javascript" else "bin")
        self.fills = {
            "{bin}": str(programs),
            "{home}": str(home),
            "{here}": str(installed.HERE),
            "{work}": str(self.work),
            "{port}": str(free_port()),
            "{page}": page,
        }
        path = os.pathsep.join([str(home / "node_modules/node/bin"), str(programs), os.environ["PATH"]])
        self.env = {"PATH": path, **{name: self.filled(value, "") for name, value in server.env.items()}}
        self.command = [str(self.filled(word, "")) for word in shlex.split(server.command)]
        self.url = str(self.filled(server.url, ""))
        self.log = (self.work.parent / f"{server.name}.log").open("ab")

    def filled(self, value: Any, place: str) -> Any:
        """A value with what its placeholders stand for."""
        if isinstance(value, str):
            value = value.replace("{place}", str(self.work / place))
            for name, found in self.fills.items():
                value = value.replace(name, found)
            return value
        if isinstance(value, Mapping):
            return {key: self.filled(inner, place) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.filled(inner, place) for inner in value]
        return value

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The server itself, where it is none that its clients start."""
        if not self.url:
            yield
            return
        process = subprocess.Popen(
            self.command, env={**os.environ, **self.env}, stdout=self.log, stderr=self.log, start_new_session=True
        )
        try:
            deadline = time.monotonic() + 60
            port = int(self.fills["{port}"])
            while time.monotonic() < deadline:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                if process.poll() is not None:
                    raise Failed(f"it ended: {self.log.name}")
                time.sleep(0.1)
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def directly(self, wire: str) -> Speaker:
        """A client of the server itself: of the newest version, or as the hub's caller speaks."""
        version = WIRES[wire][0]
        if self.server.protocol != "caller" or self.server.version < version:
            version = self.server.version
        if not self.url:
            return Speaker(Command(self.command, self.env, self.log), version, tasks=True)
        transport = Sse(self.url.removeprefix("sse+")) if self.url.startswith("sse+") else Http(self.url)
        return Speaker(transport, version, tasks=True)

    async def added(self) -> None:
        """Put the server behind the hub, and wait until it is listed."""
        spec = self.url or f"stdio:{shlex.join(self.command)}"
        options = ["--prefix", self.prefix]
        if self.server.protocol:
            options += ["--protocol", self.server.protocol]
        if not self.url:
            variables = self.work.parent / f"{self.server.name}.env"
            variables.write_text("".join(f"{name}={value}\n" for name, value in self.env.items()))
            options += ["--env", str(variables)]
        await asyncio.to_thread(self.hub.manage, "server", "add", f"{self.server.name}={spec}", *options)
        deadline = time.monotonic() + LISTED_SECONDS
        while True:
            shown = json.loads(await asyncio.to_thread(self.hub.manage, "server", "show", self.server.name, "--json"))
            if shown.get("tools"):
                return
            if time.monotonic() > deadline:
                raise Failed(f"the hub does not list it: {shown}")
            await asyncio.sleep(0.3)

    @property
    def prefix(self) -> str:
        """What stands before its tools' names."""
        return f"{self.server.name.replace('-', '_')}_"

    async def tried(self, wires: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """By wire and cell: empty where all is equal, else what is not. `wires` has the token of each wire's client."""
        found: dict[str, dict[str, str]] = {}
        with self.running():
            await self.added()
            for wire, token in wires.items():
                found[wire] = await self.wire(wire, token)
            await asyncio.to_thread(self.hub.manage, "server", "remove", self.server.name, "--yes")
        self.log.close()
        return found

    async def wire(self, wire: str, token: str) -> dict[str, str]:
        """All cells of one wire."""
        found = {}
        version, tasks = WIRES[wire]
        for side in ("direct", "hub"):
            place = self.work / f"{side}-{wire[:4]}"
            place.mkdir()
            self.server.prepare(place)
        direct, hub = self.directly(wire), Speaker(Http(self.hub.url, token), version, tasks=tasks)
        async with direct, hub:
            pair = Pair(self, wire, direct, hub)
            for cell in CELLS:
                try:
                    async with asyncio.timeout(240):
                        found[cell] = await getattr(pair, f"try_{cell}")()
                except (Failed, Refused, ConnectionError) as error:
                    found[cell] = str(error) or repr(error)
                except TimeoutError:
                    found[cell] = f"takes too long\n{traceback.format_exc()}"
        return found


class Pair:
    """A client of the server itself, and one of the hub."""

    def __init__(self, trial: Trial, wire: str, direct: Speaker, hub: Speaker) -> None:
        self.trial, self.wire, self.direct, self.hub = trial, wire, direct, hub
        self.server = trial.server

    async def try_list(self) -> str:
        wrong = []
        for method, member in LISTS.items():
            one = {self._key(item): item for item in await self.direct.listed(method)}
            other = {self._key(item): item for item in await self.hub.listed(method)}
            if method in ("tools/list", "prompts/list"):
                prefix = self.trial.prefix
                other = {key.removeprefix(prefix): item for key, item in other.items() if key.startswith(prefix)}
            kind = {"tools": "tool" if self.hub.tasks else "plain tool", "prompts": "prompt"}.get(member, "offer")
            for key in [key for key in other if f"{member}/{key}" in self.server.lists_besides and key not in one]:
                self.trial.notes.append(f"`{key}`: {self.server.lists_besides[f'{member}/{key}']}")
                del other[key]
            settled = [{key: self._settled(kind, item) for key, item in items.items()} for items in (one, other)]
            wrong += [f"{member}{line}" for line in compare.differences(*settled)]
        called = {
            step.tool for step in (*self.server.call, *self.server.question, *self.server.cancel, *self.server.big)
        }
        missed = set(self.direct.support) - called - set(self.server.not_called)
        wrong += [f"{tool} is not called here" for tool in sorted(missed)]
        return "\n".join(wrong)

    @staticmethod
    def _key(item: Mapping[str, Any]) -> str:
        return str(
            item.get("name")
            if "uri" not in item and "uriTemplate" not in item
            else item.get("uri", item.get("uriTemplate"))
        )

    def _settled(self, kind: str, value: Mapping[str, Any]) -> Any:
        masks = {**self.server.masks}
        for side in ("direct", "hub"):
            masks[f"{self.trial.work}/{side}-{self.wire[:4]}"] = "PLACE"
        return compare.masked(compare.settled(kind, value), masks)

    async def _both(self, step: Step) -> tuple[Said, Said]:
        sides = [(self.direct, "direct", ""), (self.hub, "hub", self.trial.prefix)]
        calls = []
        for speaker, side, prefix in sides:
            arguments = self.trial.filled(step.arguments, f"{side}-{self.wire[:4]}")
            calls.append(speaker.call(prefix + step.tool, arguments, step.answers))
        direct, hub = await asyncio.gather(*calls)
        return direct, hub

    async def _steps(self, steps: tuple[Step, ...]) -> str:
        if not steps:
            return NONE
        wrong = []
        for step in steps:
            if self.hub.version < step.since:
                continue
            unequal = self._unequal(*await self._both(step))
            if unequal and step.differs:  # it may be a matter of time, and so not met
                self.trial.notes.append(f"`{step.tool}`: {step.differs}")
            else:
                wrong += [f"{step.tool}: {line}" for line in unequal]
        return "\n".join(wrong)

    def _unequal(self, direct: Said, hub: Said) -> list[str]:
        if direct.error or hub.error:
            one, other = (self._settled("error", said.error or {}) for said in (direct, hub))
            for error in (one, other):
                error.setdefault("message", "")
            other["message"] = other["message"].replace(self.trial.prefix, "")
        else:
            one, other = (self._settled("result", said.result or {}) for said in (direct, hub))
        wrong = [*compare.differences(one, other)]
        asked = [
            [[method, self._settled("question", params)] for method, params in said.asked] for said in (direct, hub)
        ]
        return wrong + [f"asked{line}" for line in compare.differences(*asked)]

    async def try_call(self) -> str:
        return await self._steps(self.server.call)

    async def try_question(self) -> str:
        return await self._steps(self.server.question)

    async def try_big(self) -> str:
        return await self._steps(self.server.big)

    async def try_cancel(self) -> str:
        if not self.server.cancel:
            return NONE
        *before, long, after = self.server.cancel
        wrong = await self._steps(tuple(before))
        for speaker, side, prefix in ((self.direct, "direct", ""), (self.hub, "hub", self.trial.prefix)):
            arguments = self.trial.filled(long.arguments, f"{side}-{self.wire[:4]}")
            how = await speaker.cancelled(prefix + long.tool, arguments, CANCEL_SECONDS)
            if how not in ("cancelled", "left"):
                wrong += f"\n{side}: {long.tool} {how}"
        began = time.monotonic()
        wrong += await self._steps((after,))
        if (took := time.monotonic() - began) > AFTER_SECONDS:
            wrong += f"\n{after.tool} after the cancelled call takes {took:.0f} s"
        return wrong.strip()


def table(found: Mapping[str, Mapping[str, Mapping[str, str]]], versions: Mapping[str, str]) -> str:
    """The matrix in Markdown."""
    lines = [f"| Server | Wire | {' | '.join(CELLS)} |", f"|---|---|{'---|' * len(CELLS)}"]
    for name, wires in found.items():
        for place, (wire, cells) in enumerate(wires.items()):
            shown = [{"": "ok", NONE: NONE}.get(cells[cell], "**differs**") for cell in CELLS]
            lines.append(f"| {versions[name] if not place else ''} | {wire} | {' | '.join(shown)} |")
    return "\n".join(lines)


async def main(options: argparse.Namespace) -> int:
    chosen = [
        server
        for server in SERVERS
        if server.name in options.names or (not options.names and (server.quick or not options.quick))
    ]
    for home in dict.fromkeys(server.home for server in chosen):
        installed.javascript() if home == "javascript" else installed.python(home)
    kept = Path(tempfile.mkdtemp(prefix="servers-"))
    kept.chmod(0o755)
    found: dict[str, dict[str, dict[str, str]]] = {}
    hub = Hub(kept)
    try:
        tokens = {wire: hub.manage("token", "create", f"matrix-{wire.replace(' ', '-')}") for wire in WIRES}
        for server in chosen:
            began = time.monotonic()
            trial = Trial(server, hub, kept, "")
            try:
                found[server.name] = await trial.tried(tokens)
            except Exception as error:  # noqa: BLE001 - whatever a server does is its line
                why = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
                found[server.name] = {wire: dict.fromkeys(CELLS, why) for wire in WIRES}
            print(f"{server.name}: {_summary(found[server.name])} ({time.monotonic() - began:.0f} s)", flush=True)
    finally:
        hub.stop()
    versions = {server.name: f"{server.package} {installed.pinned(server.package)}" for server in chosen}
    print(table(found, versions))
    failed = sum(
        cell not in ("", NONE) for wires in found.values() for cells in wires.values() for cell in cells.values()
    )
    if failed:
        print(f"{failed} cells differ; logs: {kept}")
        return 1
    shutil.rmtree(kept, ignore_errors=True)
    return 0


def _summary(wires: Mapping[str, Mapping[str, str]]) -> str:
    wrong = []
    for wire, cells in wires.items():
        for cell, why in cells.items():
            if why not in ("", NONE):
                wrong += [f"\n  {wire}, {cell}:", *(f"\n    {line[:400]}" for line in why.splitlines()[:12])]
    return "".join(wrong) or "all as directly"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="SERVER", help=", ".join(server.name for server in SERVERS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--all", action="store_true", help="as without a name")
    sys.exit(asyncio.run(main(parser.parse_args())))
