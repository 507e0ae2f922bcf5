"""One server of the matrix, directly and through a hub: each cell of its rows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.servers import compare, installed
from tests.servers.hub import Failed, Hub, free_port, reachable
from tests.servers.kinds import Server, Step
from tests.servers.speakers import LISTS, Refused, Said, Speaker
from tests.servers.transports import Command, Http, Sse

WIRES: Final = {
    "2026-07-28 tasks": ("2026-07-28", True),
    "2025-11-25 tasks": ("2025-11-25", True),
    "plain": ("2025-06-18", False),
}
"""By name: the version that a client speaks, and whether it calls tools as tasks."""
CELLS: Final = ("list", "call", "question", "cancel", "big")
NONE: Final = "–"
LISTED_SECONDS: Final = 60
CELL_SECONDS: Final = 240
CANCEL_SECONDS: Final = 1.5
"""After so long a call is cancelled."""
AFTER_SECONDS: Final = 5
"""A call after a cancelled one takes no longer than directly and this."""


class Trial:
    """One server: directly, and through the hub."""

    def __init__(self, server: Server, hub: Hub, place: Path, page: str) -> None:
        self.server, self.hub = server, hub
        self.notes: dict[tuple[str, str], list[str]] = {}
        """The known differences that were met, by the cell that is tried."""
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
            "{chromium}": shutil.which("chromium-headless-shell") or "chromium",
            "{version}": installed.shown("mcp python_sdk.txt").split()[1],
        }
        path = os.pathsep.join([str(home / "node_modules/node/bin"), str(programs), os.environ["PATH"]])
        self.env = {"PATH": path, **server.env}
        self.command = shlex.split(server.command)
        self.url = str(self.filled(server.url, ""))
        self.log = (self.work.parent / f"{server.name}.log").open("ab")

    def filled(self, value: Any, place: str) -> Any:
        """A value with what its placeholders stand for."""
        if isinstance(value, str):
            places = {"{place}": str(self.work / place), "{side}": place.partition("-")[0]}
            for name, found in {**self.fills, **places}.items():
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
            self.filled(self.command, "server"),
            env={**os.environ, **self.filled(self.env, "server")},
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )
        try:
            reachable(process, int(self.fills["{port}"]))
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def directly(self, wire: str = "") -> Speaker:
        """A client of the server itself: of the newest version, or as the hub's caller speaks."""
        version = WIRES[wire][0] if wire else self.server.version
        if self.server.protocol != "caller" or self.server.version < version:
            version = self.server.version
        if not self.url:
            command, env = self.filled(self.command, "direct"), self.filled(self.env, "direct")
            return Speaker(Command(command, env, self.log), version, tasks=True)
        transport = Sse(self.url.removeprefix("sse+")) if self.url.startswith("sse+") else Http(self.url)
        return Speaker(transport, version, tasks=True)

    def noted(self, wire: str, cell: str, note: str) -> None:
        """Keep a known difference that was met."""
        self.notes.setdefault((wire, cell), []).append(note)

    async def added(self) -> None:
        """Put the server behind the hub, and wait until it is listed."""
        spec = self.url or f"stdio:{shlex.join(self.filled(self.command, 'hub'))}"
        options = ["--prefix", self.prefix]
        if self.server.protocol:
            options += ["--protocol", self.server.protocol]
        if not self.url:
            variables = self.work.parent / f"{self.server.name}.env"
            variables.write_text("".join(f"{name}={value}\n" for name, value in self.filled(self.env, "hub").items()))
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
        async with contextlib.AsyncExitStack() as stack:
            for speaker in (direct, hub):
                await stack.enter_async_context(speaker)
            newest = direct
            if direct.version < self.server.version:
                newest = await stack.enter_async_context(self.directly())
                await newest.listed("tools/list")
            pair = Pair(self, wire, (direct, hub, newest), stack)
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

    def __init__(
        self,
        trial: Trial,
        wire: str,
        speakers: tuple[Speaker, Speaker, Speaker],
        stack: contextlib.AsyncExitStack,
    ) -> None:
        """`speakers`: those two, and a client of the server of the newest version that it speaks."""
        self.trial, self.wire, self.stack = trial, wire, stack
        self.direct, self.hub, self.newest = speakers
        self.server = trial.server

    async def try_list(self) -> str:
        wrong = []
        # Other servers list theirs beside.
        shown = await asyncio.to_thread(self.trial.hub.manage, "server", "show", self.server.name, "--json")
        offers = set(json.loads(shown)["resources"])
        for method, member in LISTS.items():
            one = {self._key(item): item for item in await self.direct.listed(method)}
            other = {self._key(item): item for item in await self.hub.listed(method)}
            if method in ("tools/list", "prompts/list"):
                prefix = self.trial.prefix
                other = {key.removeprefix(prefix): item for key, item in other.items() if key.startswith(prefix)}
            else:
                other = {key: item for key, item in other.items() if key in offers}
            kind = {"tools": "tool" if self.hub.tasks else "plain tool", "prompts": "prompt"}.get(member, "offer")
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
        direct = self.newest if step.newest else self.direct
        sides = [(direct, "direct", ""), (self.hub, "hub", self.trial.prefix)]
        calls = []
        for speaker, side, prefix in sides:
            arguments = self.trial.filled(step.arguments, f"{side}-{self.wire[:4]}")
            calls.append(speaker.call(prefix + step.tool, arguments, step.answers))
        one, other = await asyncio.gather(*calls)
        return one, other

    async def _steps(self, steps: tuple[Step, ...], cell: str) -> str:
        if not steps:
            return NONE
        wrong = []
        for step in steps:
            if self.hub.version < step.since:
                continue
            unequal = self._unequal(*await self._both(step))
            if unequal and step.differs:  # it may be a matter of time, and so not met
                self.trial.noted(self.wire, cell, f"`{step.tool}`: {step.differs}")
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
        return await self._steps(self.server.call, "call")

    async def try_question(self) -> str:
        return await self._steps(self.server.question, "question")

    async def try_big(self) -> str:
        return await self._steps(self.server.big, "big")

    async def try_cancel(self) -> str:
        if not self.server.cancel:
            return NONE
        *before, long, after = self.server.cancel
        wrong = await self._steps(tuple(before), "cancel")
        for speaker, side, prefix in ((self.direct, "direct", ""), (self.hub, "hub", self.trial.prefix)):
            arguments = self.trial.filled(long.arguments, f"{side}-{self.wire[:4]}")
            how = await speaker.cancelled(prefix + long.tool, arguments, CANCEL_SECONDS)
            if how not in ("cancelled", "left"):
                wrong += f"\n{side}: {long.tool} {how}"
        if self.server.cancel_ends:
            self.trial.noted(self.wire, "cancel", self.server.cancel_ends)
            self.direct = await self.stack.enter_async_context(self.trial.directly(self.wire))
        wrong += await self._after(after)
        return wrong.strip()

    async def _after(self, step: Step) -> str:
        direct, hub = await self._both(step)
        wrong = [f"\n{step.tool} after the cancelled call: {line}" for line in self._unequal(direct, hub)]
        if hub.seconds > direct.seconds + AFTER_SECONDS:
            wrong.append(f"\n{step.tool} after the cancelled call: {direct.seconds:.1f} s, the hub {hub.seconds:.1f} s")
        return "".join(wrong)
