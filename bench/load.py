#!/usr/bin/env python3
"""Load generator for MCP servers that speak 2026-07-28 with the tasks extension.

Standard library only; uvloop and orjson are used where they can be imported. Each
connection is one keep-alive HTTP/1.1 socket with one request in flight, so
`--concurrency N` means N requests in flight. Every answer is parsed and checked
(HTTP status, JSON-RPC id, result shape, echoed text); one that does not pass is
counted as an error and never as an operation. `application/json` and
`text/event-stream` answers are both accepted.

Modes
  create      tools/call that must answer a CreateTaskResult
  get         tasks/get of tasks completed beforehand (must answer `completed`)
  e2e         create, then poll tasks/get until `completed`; N tasks in flight
  list-tools  tools/list that must name the tool
  call        tools/call without tasks that must answer with the result

Polling ignores the interval a server advertises: the first poll comes after
--poll-first, and the delay grows 1.5x up to --poll-max, whoever answers.

  python -m bench.load --url http://127.0.0.1:8123/mcp --token T --mode e2e \\
      --duration 10 --runs 3 --watch web=PID

CPU and memory of the processes named with --watch (each with its descendants) are
read from /proc over the measured window; CPU is in percent of one core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from array import array
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypedDict
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import procfs
from bench.http1 import AnswerError, Connection

loads: Callable[[bytes], object] = json.loads
with suppress(ImportError):
    import orjson

    loads = orjson.loads
drive: Callable[[Coroutine[None, None, Report]], Report] = asyncio.run
with suppress(ImportError):
    import uvloop

    drive = uvloop.run

VERSION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"


def _meta(capabilities: dict[str, object]) -> str:
    told = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    return json.dumps(told, separators=(",", ":"))


WITH_TASKS = _meta({"extensions": {TASKS: {}}})
WITHOUT_TASKS = _meta({})
MODES = ("create", "get", "e2e", "list-tools", "call")
COMPLETION_S = 60.0  # longest that one task may take before it counts as an error
SPARE_S = 30.0  # a run that takes this much longer than planned is given up
READY_PER_CONNECTION = 4  # completed tasks that `get` makes first
CHECKED_AFTER_CREATE = 64  # tasks of a create run whose results are looked at
clock = time.perf_counter


@dataclass(frozen=True)
class Options:
    url: str
    token: str | None
    header: list[str]
    mode: str
    concurrency: int
    duration: float
    warmup: float
    runs: int
    tool: str
    args: str | None
    poll_first: float
    poll_max: float
    drain: float
    watch: list[str]
    label: str
    json: bool


class Report(TypedDict):
    label: str
    mode: str
    concurrency: int
    ops: int
    ops_s: float
    errors: int
    first_error: str | None
    mean_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    polls_per_task: float
    drain_s: float
    cpu: dict[str, float]
    mem_mib: dict[str, float]
    load_cpu: float
    idle_pct: float


@dataclass(frozen=True)
class Made:
    """A created task and the text that its result must carry."""

    task: str
    text: str | None


class Client:
    """The operations under test over one connection, opened again when it closes."""

    def __init__(self, options: Options) -> None:
        url = urlsplit(options.url)
        if url.scheme != "http" or not url.hostname:
            raise SystemExit(f"--url must be http://host:port/path, not {options.url!r}")
        self.options = options
        self.host, self.port = url.hostname, url.port or 80
        self.connection: Connection | None = None
        self.serial = random.randrange(1 << 20) * 1000
        lines = [
            f"POST {url.path or '/'}{'?' + url.query if url.query else ''} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            *([f"Authorization: Bearer {options.token}"] if options.token else []),
            *options.header,
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"MCP-Protocol-Version: {VERSION}",
        ]
        self.head = "\r\n".join(lines)
        self.meta = WITHOUT_TASKS if options.mode == "call" else WITH_TASKS

    async def call(self, method: str, name: str | None, params: str) -> Mapping[str, object]:
        """One JSON-RPC request; `params` is empty or JSON text ending in a comma."""
        self.serial += 1
        body = (
            f'{{"jsonrpc":"2.0","id":{self.serial},"method":"{method}","params":{{{params}"_meta":{self.meta}}}}}'
        ).encode()
        naming = f"\r\nMcp-Name: {name}" if name else ""
        head = f"{self.head}\r\nMcp-Method: {method}{naming}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection = await self._connection()
        status, kind, answer = await connection.exchange(head.encode() + body)
        if status != 200:
            raise AnswerError(f"HTTP {status}: {answer[:200]!r}")
        if kind.startswith(b"application/json"):
            message = _decode(answer)
        elif kind.startswith(b"text/event-stream"):
            message = self._from_events(answer)
        else:
            raise AnswerError(f"content type {kind!r}")
        if message.get("id") != self.serial or message.get("jsonrpc") != "2.0":
            raise AnswerError("an answer to another request")
        result = message.get("result")
        if not isinstance(result, dict):
            raise AnswerError(f"error {message.get('error')}")
        return result

    async def _connection(self) -> Connection:
        if self.connection is None or not self.connection.usable:
            if self.connection is not None:
                self.connection.close()
            _, self.connection = await asyncio.get_running_loop().create_connection(Connection, self.host, self.port)
        return self.connection

    def _from_events(self, text: bytes) -> Mapping[str, object]:
        for event in text.replace(b"\r\n", b"\n").split(b"\n\n"):
            lines = event.split(b"\n")
            data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
            if data and (message := _decode(data)).get("id") == self.serial:
                return message
        raise AnswerError("no response event in the stream")

    async def call_tool(self) -> tuple[Mapping[str, object], str | None]:
        """The result of `tools/call`, and the text that it must carry."""
        options = self.options
        text = None if options.args else f"{random.getrandbits(64):016x}"
        arguments = options.args or f'{{"text":"{text}"}}'
        params = f'"name":"{options.tool}","arguments":{arguments},'
        return await self.call("tools/call", options.tool, params), text

    async def call_to_its_end(self) -> None:
        result, text = await self.call_tool()
        if result.get("resultType", "complete") != "complete":
            raise AnswerError(f"not a result: {str(result)[:200]}")
        _check_result(result, text)

    async def create(self) -> Made:
        result, text = await self.call_tool()
        task = result.get("taskId")
        if result.get("resultType") != "task" or not isinstance(task, str) or not task:
            raise AnswerError(f"not a CreateTaskResult: {str(result)[:200]}")
        if result.get("status") not in ("working", "completed"):
            raise AnswerError(f"created as {result.get('status')}")
        return Made(task, text)

    async def completed(self, made: Made) -> bool:
        """Whether the task is done; its result is checked when it is."""
        result = await self.call("tasks/get", made.task, f'"taskId":"{made.task}",')
        if result.get("taskId") != made.task:
            raise AnswerError("an answer about another task")
        status = result.get("status")
        if status == "working":
            return False
        if status != "completed":
            raise AnswerError(f"the task is {status}: {str(result)[:300]}")
        _check_result(result.get("result"), made.text)
        return True

    async def wait(self, made: Made, seconds: float) -> int:
        """Polls until completed; returns the number of polls."""
        delay, ceiling = self.options.poll_first / 1000, self.options.poll_max / 1000
        deadline = clock() + seconds
        polls = 0
        while True:
            await asyncio.sleep(delay)
            polls += 1
            if await self.completed(made):
                return polls
            if clock() > deadline:
                raise AnswerError(f"task {made.task} did not complete in {seconds:g} s")
            delay = min(max(delay * 1.5, 0.001), ceiling)

    async def list_tools(self) -> None:
        result = await self.call("tools/list", None, "")
        tools = result.get("tools")
        if not isinstance(tools, list) or self.options.tool not in [t.get("name") for t in tools]:
            raise AnswerError(f"{self.options.tool} is not listed")


def _check_result(result: object, text: str | None) -> None:
    """Raises `AnswerError` unless `result` is a tool's result, of no error, with this text."""
    if not isinstance(result, dict) or result.get("isError"):
        raise AnswerError(f"completed without a result: {str(result)[:200]}")
    content = result.get("content")
    if text is not None and (not content or content[0].get("text") != text):
        raise AnswerError(f"wrong text in the result: {str(content)[:200]}")


def _decode(data: bytes) -> Mapping[str, object]:
    message = loads(data)
    if not isinstance(message, dict):
        raise AnswerError(f"not a JSON object: {data[:200]!r}")
    return message


@dataclass
class Tally:
    """What one run counted."""

    latency: array[float] = field(default_factory=lambda: array("d"))
    made: list[Made] = field(default_factory=list)
    polls: int = 0
    errors: int = 0
    first_error: str | None = None
    drain_s: float = 0.0

    def fail(self, error: BaseException) -> None:
        self.errors += 1
        self.first_error = self.first_error or f"{type(error).__name__}: {error}"


class Snapshot(NamedTuple):
    at: float
    own_cpu_s: float
    machine: tuple[int, int]
    watched: dict[str, procfs.Usage]


class Watch:
    """What the named processes, the machine and this process have used so far."""

    def __init__(self, options: Options) -> None:
        self.roots = {name: int(pid) for name, _, pid in (item.partition("=") for item in options.watch)}

    def read(self) -> Snapshot:
        pids = self.roots.values()
        each = {name: procfs.usage(pid, pids) for name, pid in self.roots.items()}
        return Snapshot(clock(), time.process_time(), procfs.machine_ticks(), each)


async def one_run(options: Options) -> Report:
    tally = Tally()
    clients = [Client(options) for _ in range(options.concurrency)]
    ready = await _ready_tasks(options, clients) if options.mode == "get" else []
    watch = Watch(options)
    start = clock() + options.warmup
    end = start + options.duration

    async def observe() -> Report:
        await asyncio.sleep(start - clock())
        before = watch.read()
        await asyncio.sleep(max(0.0, end - clock()))
        return _usage_report(options, before, watch.read())

    try:
        async with (
            asyncio.timeout(options.warmup + options.duration + SPARE_S),
            asyncio.TaskGroup() as group,
        ):
            observer = group.create_task(observe())
            for client in clients:
                group.create_task(_connection_loop(client, ready, tally, start, end))
    except TimeoutError:
        raise SystemExit(f"{options.label}: no answer within {SPARE_S:g} s") from None
    report = observer.result()
    if options.mode == "create":
        await _check_created(options, clients, tally)
    for client in clients:
        if client.connection is not None:
            client.connection.close()
    return _complete(report, options, tally)


async def _ready_tasks(options: Options, clients: list[Client]) -> list[Made]:
    async def some(client: Client) -> list[Made]:
        made = [await client.create() for _ in range(READY_PER_CONNECTION)]
        for one in made:
            await client.wait(one, COMPLETION_S)
        return made

    try:
        return [one for each in await asyncio.gather(*map(some, clients)) for one in each]
    except (AnswerError, OSError) as error:
        raise SystemExit(f"{options.label}: tasks to get could not be made: {error}") from None


async def _connection_loop(client: Client, ready: list[Made], tally: Tally, start: float, end: float) -> None:
    step = _step(client, ready, tally)
    while (now := clock()) < end:
        try:
            polls = await step()
        except (
            AnswerError,
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ) as error:
            tally.fail(error)
            await asyncio.sleep(0.01)
            continue
        done = clock()
        if start <= done < end:
            tally.latency.append(done - now)
            tally.polls += polls


def _step(client: Client, ready: list[Made], tally: Tally) -> Callable[[], Awaitable[int]]:
    """One operation of the chosen mode; it returns the number of polls."""

    async def create() -> int:
        tally.made.append(await client.create())
        return 0

    async def get() -> int:
        if not await client.completed(random.choice(ready)):
            raise AnswerError("a completed task is not completed any more")
        return 0

    async def e2e() -> int:
        return await client.wait(await client.create(), COMPLETION_S)

    async def list_tools() -> int:
        await client.list_tools()
        return 0

    async def call() -> int:
        await client.call_to_its_end()
        return 0

    return {"create": create, "get": get, "e2e": e2e, "list-tools": list_tools, "call": call}[client.options.mode]


async def _check_created(options: Options, clients: list[Client], tally: Tally) -> None:
    """Waits for the backlog, so that it burdens no later run, and looks at results."""
    if len({one.task for one in tally.made}) != len(tally.made):
        tally.fail(AnswerError("the same task id was given twice"))
    if not options.drain or not tally.made:
        return
    began = clock()
    sample = random.sample(tally.made, min(CHECKED_AFTER_CREATE, len(tally.made)))
    for one in [*tally.made[-options.concurrency :], *sample]:
        try:
            await clients[0].wait(one, options.drain)
        except (AnswerError, OSError) as error:
            tally.fail(error)
            break
    tally.drain_s = clock() - began


def _usage_report(options: Options, before: Snapshot, after: Snapshot) -> Report:
    seconds = after.at - before.at
    total = after.machine[0] - before.machine[0] or 1
    return Report(
        label=options.label,
        mode=options.mode,
        concurrency=options.concurrency,
        ops=0,
        ops_s=0.0,
        errors=0,
        first_error=None,
        mean_ms=0.0,
        p50_ms=0.0,
        p99_ms=0.0,
        max_ms=0.0,
        polls_per_task=0.0,
        drain_s=0.0,
        cpu={name: 100 * (now.cpu_s - before.watched[name].cpu_s) / seconds for name, now in after.watched.items()},
        mem_mib={name: now.mem_mib for name, now in after.watched.items()},
        load_cpu=100 * (after.own_cpu_s - before.own_cpu_s) / seconds,
        idle_pct=100 * (after.machine[1] - before.machine[1]) / total,
    )


def _complete(report: Report, options: Options, tally: Tally) -> Report:
    latency = sorted(tally.latency)
    count = len(latency)
    report["ops"], report["ops_s"] = count, count / options.duration
    report["errors"], report["first_error"] = tally.errors, tally.first_error
    report["drain_s"] = tally.drain_s
    if count:
        report["mean_ms"] = statistics.fmean(latency) * 1000
        report["p50_ms"] = latency[count // 2] * 1000
        report["p99_ms"] = latency[min(count - 1, int(count * 0.99))] * 1000
        report["max_ms"] = latency[-1] * 1000
        report["polls_per_task"] = tally.polls / count
    return report


def describe(report: Report) -> str:
    """A report as one line."""
    each = " ".join(f"{name}={cpu:.0f}%/{report['mem_mib'][name]:.0f}M" for name, cpu in report["cpu"].items())
    extra = f" polls={report['polls_per_task']:.2f}" if report["polls_per_task"] else ""
    extra += f" drain={report['drain_s']:.1f}s" if report["drain_s"] else ""
    extra += f" FIRST ERROR {report['first_error']}" if report["errors"] else ""
    return (
        f"{report['label']:<8} {report['mode']:<10} c={report['concurrency']:<3} "
        f"{report['ops_s']:>8.1f}/s "
        f"p50={report['p50_ms']:.2f} p99={report['p99_ms']:.2f} ms "
        f"err={report['errors']} "
        f"load={report['load_cpu']:.0f}% idle={report['idle_pct']:.0f}% "
        f"{each}{extra}"
    )


def parse(arguments: list[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--url", required=True)
    add("--token", help="sent as Authorization: Bearer")
    add("--header", action="append", default=[], help="further header, 'Name: value'")
    add("--mode", default="create", choices=MODES)
    add("--concurrency", type=int, default=16)
    add("--duration", type=float, default=10)
    add("--warmup", type=float, default=1)
    add("--runs", type=int, default=1, help="the median by ops/s is printed too")
    add("--tool", default="echo")
    add("--args", help='tool arguments as JSON; default: a random {"text": ...}')
    add("--poll-first", type=float, default=5, help="ms before the first poll")
    add("--poll-max", type=float, default=250, help="the poll delay grows 1.5x to this")
    add("--drain", type=float, default=120, help="most seconds for a backlog; 0: skip")
    add("--watch", action="append", default=[], metavar="NAME=PID")
    add("--label", default="-")
    add("--json", action="store_true", help="print each run as one JSON object a line")
    return Options(**vars(parser.parse_args(arguments)))


def main() -> None:
    options = parse()
    reports = []
    for _ in range(options.runs):
        report = drive(one_run(options))
        print(json.dumps(report) if options.json else describe(report), flush=True)
        reports.append(report)
    if options.runs > 1 and not options.json:
        reports.sort(key=lambda report: report["ops_s"])
        print("median:", describe(reports[len(reports) // 2]))
    sys.exit(1 if any(report["errors"] or not report["ops"] for report in reports) else 0)


if __name__ == "__main__":
    main()
