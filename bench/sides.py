"""The two sides of the comparison: how each is installed, started and made ready.

Both get one web and one worker process, the same Python, uvicorn with uvloop and
httptools, a bearer token to check, and data in the same temporary directory.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from bench import procfs
from bench.programs import (
    HOST,
    ROOT,
    STOP_S,
    CannotRunError,
    Command,
    Program,
    attempts,
    free_port,
)

BENCH = ROOT / "bench"
REQUIREMENTS = BENCH / "peer-requirements.txt"
READY_S = 90.0
COMMAND_S = 60.0
HTTP_OK = 200
OWN_SERVERS = ("python:bench.hub_tools:server",)


@dataclass(frozen=True)
class Side:
    name: str
    url: str
    token: str
    program: Program
    watch: dict[str, int] = field(default_factory=dict)


# ------------------------------------------------------------------ environments


def hub_python() -> Path:
    """The interpreter that has TaskHub's dependencies."""
    if find_spec("django"):
        return Path(sys.executable)
    found = ROOT / ".venv" / "bin" / "python"
    if not found.exists():
        raise CannotRunError(
            "TaskHub's dependencies are not installed here: run `uv sync`, or run this with `uv run bench/compare.py`"
        )
    return found


def peer_python(base: Path) -> Path:
    """An environment for the peer, made once for each set of pins and Python.

    It lies in the user's cache directory, so that nothing of the peer is installed
    beside TaskHub; the load generator runs in it as well.
    """
    pins = REQUIREMENTS.read_bytes() + platform.python_version().encode()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "taskhub-bench" / hashlib.sha256(pins).hexdigest()[:16]
    python = home / "bin" / "python"
    ready = home / "installed"
    if ready.exists() and python.exists():
        return python
    print(f"installing the peer into {home} (once)", file=sys.stderr)
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    if uv := shutil.which("uv"):
        steps: list[Command] = [
            [uv, "venv", "-q", "--python", base, home],
            [uv, "pip", "install", "-q", "--python", python, "-r", REQUIREMENTS],
        ]
    else:
        steps = [
            [base, "-m", "venv", home],
            [python, "-m", "pip", "install", "-q", "-r", REQUIREMENTS],
        ]
    for step in steps:
        if (status := subprocess.run(step, check=False).returncode) != 0:
            raise CannotRunError(f"installing the peer ended with status {status}")
    ready.touch()
    return python


# ------------------------------------------------------------------------- peer


@contextmanager
def peer(work: Path, python: Path, *, events: bool) -> Iterator[Side]:
    """FastMCP tasks: one web process that runs no task, one worker, one Redis."""
    redis_server = shutil.which("redis-server")
    if redis_server is None:
        raise CannotRunError("redis-server is not installed; the peer needs it")
    data = work / "redis"
    data.mkdir()
    redis_port, port, token = free_port(), free_port(), secrets.token_urlsafe(32)
    environment = {
        **os.environ,
        "PEER_REDIS_URL": f"redis://{HOST}:{redis_port}/0",
        "PEER_TOKEN": token,
        "PEER_JSON": "0" if events else "1",
        "FASTMCP_LOG_LEVEL": "WARNING",
    }
    redis_command: Command = [redis_server, "--bind", HOST, "--port", str(redis_port)]
    redis_command += ["--dir", data, "--save", ""]
    redis_command += ["--appendonly", "yes", "--appendfsync", "everysec"]
    web_command: Command = [
        python,
        "-m",
        "uvicorn",
        "--app-dir",
        BENCH,
        "peer_server:app",
    ]
    web_command += ["--host", HOST, "--port", str(port), "--loop", "uvloop"]
    web_command += ["--http", "httptools", "--log-level", "warning"]
    worker_command: Command = [python, "-m", "fastmcp_tasks.worker_cli", "worker"]
    worker_command += [BENCH / "peer_server.py"]
    with ExitStack() as stack:
        redis = stack.enter_context(Program("redis", redis_command, work / "redis.log", environment))
        for _ in attempts(redis, "answer of Redis", READY_S):
            if _redis_answers(redis_port):
                break
        web = stack.enter_context(
            Program(
                "peer web",
                web_command,
                work / "peer-web.log",
                {**environment, "PEER_CONCURRENCY": "0"},
            )
        )
        worker = stack.enter_context(Program("peer worker", worker_command, work / "peer-worker.log", environment))
        for _ in attempts(worker, "peer worker", READY_S):
            if "Starting worker" in worker.tail():
                break
        for _ in attempts(web, "answer of the peer", READY_S):
            if _status(port, "/mcp") is not None:
                break
        watch = {"web": web.pid, "worker": worker.pid, "redis": redis.pid}
        yield Side("peer", f"http://{HOST}:{port}/mcp", token, web, watch)


def _redis_answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), 1) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(16).startswith(b"+PONG")
    return False


def _status(port: int, path: str) -> int | None:
    """The status of a GET, or None when nobody answers."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


# -------------------------------------------------------------------------- hub


@contextmanager
def hub(work: Path, python: Path, servers: Sequence[str] = OWN_SERVERS) -> Iterator[Side]:
    """TaskHub as its users start it, on its embedded Postgres, before these servers."""
    with ExitStack() as stack:
        stack.callback(_stop_postgres, hub_data(work))
        yield stack.enter_context(_hub("hub", work, python, hub_data(work), hub_environment(), servers))


@contextmanager
def hub_on(url: str, work: Path, python: Path) -> Iterator[Side]:
    """TaskHub on the Postgres of this URL, whose role may create databases: in one of its own, dropped afterwards."""
    database = f"taskhub_bench_{secrets.token_hex(4)}"
    environment = {**hub_environment(), "DATABASE_URL": urlsplit(url)._replace(path=f"/{database}").geturl()}
    with ExitStack() as stack:
        _ask(python, url, f"CREATE DATABASE {database}")
        stack.callback(_ask, python, url, f"DROP DATABASE {database} WITH (FORCE)")
        yield stack.enter_context(_hub("given", work, python, work / "given", environment))


@contextmanager
def _hub(
    name: str,
    work: Path,
    python: Path,
    data: Path,
    environment: dict[str, str],
    servers: Sequence[str] = OWN_SERVERS,
) -> Iterator[Side]:
    port = free_port()
    with Program(name, hub_command(python, data, port, servers), work / f"{name}.log", environment) as program:
        for _ in attempts(program, "200 of /readyz", READY_S):
            if _status(port, "/readyz?full") == HTTP_OK:
                break
        token = hub_token(python, data, environment)
        yield Side(name, f"http://{HOST}:{port}/mcp", token, program, _hub_processes(program, data))


def _ask(python: Path, url: str, statement: str) -> str:
    """What the Postgres of this URL says, as one word of the first row."""
    ask = (
        "import sys, psycopg\n"
        "with psycopg.connect(sys.argv[1], autocommit=True) as connection:\n"
        "    cursor = connection.execute(sys.argv[2])\n"
        "    print(cursor.fetchone()[0] if cursor.description else '')"
    )
    command: Command = [python, "-c", ask, url, statement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    if done.returncode:
        raise CannotRunError(f"--database-url: {done.stderr.strip().splitlines()[-1]}")
    return str(done.stdout).strip()


def version_of(python: Path, url: str) -> str:
    """As the server of this URL says it: `15.18 (Debian 15.18-0+deb12u1)`."""
    return _ask(python, url, "SHOW server_version")


def hub_data(work: Path) -> Path:
    return work / "hub"


def hub_command(python: Path, data: Path, port: int, servers: Sequence[str] = OWN_SERVERS) -> Command:
    """How TaskHub is started; the only place that knows the options of `up`."""
    command: Command = [python, ROOT / "manage.py", "up", "--no-demo", "--verbose", "--workers", "1"]
    for server in servers:
        command += ["--server", server]
    return [*command, "--host", HOST, "--port", str(port), "--data-dir", data]


def hub_environment() -> dict[str, str]:
    """The environment without the settings of a deployment on this machine."""
    settings = ("DATABASE_URL", "PUBLIC_URL", "ALLOWED_HOSTS", "SECRET_KEY", "TASKHUB_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(settings)}
    # The peer has no limits per caller, and one caller makes all of the load.
    limits = {"TASKHUB_CONTEXT_LIVE": "1000000", "TASKHUB_CONTEXT_REQUESTS": "0", "TASKHUB_CONTEXT_KIB": "0"}
    return {**kept, "PYTHONUNBUFFERED": "1", **limits}


def hub_token(python: Path, data: Path, environment: dict[str, str] | None = None) -> str:
    """A bearer token of TaskHub; the only place that knows how one is made."""
    command: Command = [python, ROOT / "manage.py", "token", "create", "bench"]
    command += ["--data-dir", data]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment or hub_environment(),
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    if done.returncode == 0 and (words := str(done.stdout).split()):
        return words[-1]
    with suppress(OSError, ValueError, AttributeError):
        tokens = json.loads((data / "credentials.json").read_text()).get("tokens")
        return str(next(iter(tokens.values())))
    raise CannotRunError(f"no token from TaskHub:\n{done.stderr[-2000:]}")


def give_process(work: Path, python: Path, server: str) -> None:
    """Has TaskHub run a `python:` server in a process of its own."""
    command: Command = [python, ROOT / "manage.py", "server", "edit", server, "--own-process", "yes"]
    command += ["--data-dir", hub_data(work)]
    subprocess.run(command, cwd=ROOT, env=hub_environment(), timeout=COMMAND_S, check=True, stdout=subprocess.DEVNULL)


def postmaster(data: Path) -> list[str] | None:
    """The lines of `postmaster.pid` of the embedded Postgres below `data`."""
    for found in data.rglob("postmaster.pid"):
        with suppress(OSError):
            return found.read_text().splitlines()
    return None


def _hub_processes(program: Program, data: Path) -> dict[str, int]:
    """TaskHub's processes by what their command lines say, the rest as `up`."""
    watch = {"up": program.pid}
    if lines := postmaster(data):
        watch["postgres"] = int(lines[0])
    for pid in procfs.descendants(program.pid):
        words = procfs.command(pid).split()
        for part in ("web", "worker"):
            if part in words and part not in watch:
                watch[part] = pid
    return watch


def _stop_postgres(data: Path) -> None:
    """Ends the embedded Postgres if TaskHub was killed before it could do so."""
    lines = postmaster(data)
    if not lines or "postgres" not in procfs.command(pid := int(lines[0])):
        return
    os.kill(pid, signal.SIGINT)  # what Postgres calls a fast shutdown
    end = time.monotonic() + STOP_S
    while procfs.command(pid) and time.monotonic() < end:
        time.sleep(0.1)
