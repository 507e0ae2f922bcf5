"""What a command can read of ours: nothing of our environment and memory, and no file where it is kept from them."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskhub.core.errors import Unavailable
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.isolation import isolated
from taskhub.upstream.target import Target
from tests.upstream import kit

PYTHON = "/usr/bin/python3"
"""One that every user may run."""
SPY = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        info = {"name": "spy", "version": "1"}
        found = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/call":
        try:
            said = open(message["params"]["arguments"]["path"]).read()
        except OSError as error:
            said = type(error).__name__
        said = {"read": said, "user": os.geteuid(), "session": os.getsid(0) == os.getpid(), "env": dict(os.environ)}
        found = {"content": [{"type": "text", "text": json.dumps(said)}]}
    else:
        found = None
    answer = {"error": {"code": -32601, "message": "no"}} if found is None else {"result": found}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
"""Reads the file that it is asked for."""
root_only = pytest.mark.skipif(os.geteuid() != 0 or not Path(PYTHON).exists(), reason="needs root and a Python for all")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that all may enter, with a data directory as `up` makes it, and the spy."""
    made = Path(tempfile.mkdtemp(prefix="isolation-"))
    made.chmod(0o755)
    (made / "data").mkdir(mode=0o711)
    secret = made / "data" / "credentials.json"
    secret.touch(mode=0o600)
    secret.write_text("s3cret")
    (made / "spy.py").write_text(SPY)
    (made / "spy.py").chmod(0o644)
    yield made
    shutil.rmtree(made)


def wraps() -> bool:
    """Whether the wrapper works here."""
    return shutil.which("bwrap") is not None and not subprocess.run(isolated(["true"]), check=False).returncode


async def read(place: Path, path: Path | str, python: str = sys.executable) -> dict[str, Any]:
    """What the spy says when it is to read this."""
    async with kit.pool_of(Target("stdio", f"{python} {place / 'spy.py'}")) as pool:
        found: dict[str, Any] = json.loads(kit.text(await kit.call(pool, "read", {"path": str(path)})))
        return found


async def test_a_command_has_a_session_of_its_own_and_nothing_of_our_environment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    monkeypatch.setenv("DATABASE_URL", "postgres://s3cret@db/x")
    found = await read(place, place / "spy.py")
    assert found["session"]
    assert set(found["env"]) <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE", "PWD"}


@root_only
async def test_as_another_user_it_cannot_read_the_data_directory(place: Path, settings: Any) -> None:
    secret = place / "data" / "credentials.json"
    assert (await read(place, secret, PYTHON))["read"] == "s3cret", "without any of this"
    settings.TASKHUB_COMMAND_USER = "nobody"
    found = await read(place, secret, PYTHON)
    assert (found["read"], found["user"] != 0) == ("PermissionError", True)
    assert found["env"]["USER"] == "nobody"
    assert (await read(place, f"/proc/{os.getpid()}/environ", PYTHON))["read"] == "PermissionError"


@root_only
@pytest.mark.parametrize("user", ["", "nobody"])
async def test_behind_a_wrapper_there_is_nothing_to_read(place: Path, settings: Any, user: str) -> None:
    wrapper = f"--dev /dev --proc /proc --tmpfs {place / 'data'} --unshare-pid --die-with-parent"
    settings.TASKHUB_COMMAND_WRAPPER = f"bwrap --bind / / {wrapper}"
    settings.TASKHUB_COMMAND_USER = user
    if not await asyncio.to_thread(wraps):
        pytest.skip("no bubblewrap that works here")
    found = await read(place, place / "data" / "credentials.json", PYTHON)
    assert found["read"] == "FileNotFoundError"
    assert (await read(place, f"/proc/{os.getpid()}/environ", PYTHON))["read"] == "FileNotFoundError"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"TASKHUB_COMMAND_USER": "no-such-user"}, "there is no such user"),
        ({"TASKHUB_COMMAND_WRAPPER": "'open"}, "TASKHUB_COMMAND_WRAPPER cannot be read"),
        ({"TASKHUB_COMMAND_WRAPPER": "/nowhere/bwrap"}, "No such file"),
    ],
)
async def test_what_cannot_be_followed_starts_nothing(settings: Any, given: dict[str, str], why: str) -> None:
    for name, value in given.items():
        setattr(settings, name, value)
    with pytest.raises(Unavailable, match=why):
        await Connection(kit.NOTEBOOK, Profile()).start()
    assert kit.children() == []


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_no_process_of_the_same_user_reads_the_memory_or_the_environment_of_ours(place: Path) -> None:
    """Also not one that could read it before: the environment's file belongs to root then."""
    ours = "import sys; from taskhub.lib.privacy import keep_private; keep_private(); print(1, flush=True); input()"
    environment = {"PATH": os.environ["PATH"], "SECRET_KEY": "s3cret"}
    process = subprocess.Popen(
        [sys.executable, "-c", ours], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        assert "Max core file size        0 " in limits
        assert Path(f"/proc/{process.pid}/environ").stat().st_uid == 0
    finally:
        process.communicate("\n")


LIMITS = """
import json, resource, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        info = {"name": "limits", "version": "1"}
        found = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/call" and message["params"]["name"] == "grow":
        try:
            found = len(bytearray(message["params"]["arguments"]["size"]))
        except MemoryError:
            found = "MemoryError"
        found = {"content": [{"type": "text", "text": str(found)}]}
    elif message["method"] == "tools/call":
        names = ("NOFILE", "NPROC", "DATA", "CORE")
        told = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in names}
        found = {"content": [{"type": "text", "text": json.dumps(told)}]}
    else:
        found = None
    answer = {"error": {"code": -32601, "message": "no"}} if found is None else {"result": found}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


@pytest.fixture
def limited(tmp_path: Path) -> Target:
    (tmp_path / "limits.py").write_text(LIMITS)
    return Target("stdio", f"{sys.executable} {tmp_path / 'limits.py'}")


async def limits(target: Target) -> dict[str, list[int]]:
    async with kit.pool_of(target) as pool:
        found: dict[str, list[int]] = json.loads(kit.text(await kit.call(pool, "limits")))
        return found


async def test_each_process_has_its_limits(limited: Target, settings: Any) -> None:
    found = await limits(limited)
    assert found["NOFILE"] == [8_192, 8_192]
    assert found["DATA"] == [8_192 * 1_048_576] * 2
    assert found["NPROC"] == list(resource.getrlimit(resource.RLIMIT_NPROC))
    settings.TASKHUB_COMMAND_OPEN_FILES, settings.TASKHUB_COMMAND_PROCESSES = 100, 5_000
    settings.TASKHUB_COMMAND_MEMORY_MIB = 0
    found = await limits(limited)
    assert (found["NOFILE"], found["NPROC"]) == ([100, 100], [5_000, 5_000])
    assert found["DATA"] == list(resource.getrlimit(resource.RLIMIT_DATA))
    # A limit that is higher than the worker's own is the worker's own.
    settings.TASKHUB_COMMAND_OPEN_FILES = 2**31
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert (await limits(limited))["NOFILE"] == [hard, hard]


async def test_what_needs_more_memory_gets_none_and_goes_on(limited: Target, settings: Any) -> None:
    settings.TASKHUB_COMMAND_MEMORY_MIB = 256
    async with kit.pool_of(limited) as pool:
        assert kit.text(await kit.call(pool, "grow", {"size": 500_000_000})) == "MemoryError"
        assert kit.text(await kit.call(pool, "grow", {"size": 1_000_000})) == "1000000"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
async def test_node_runs_within_the_limits() -> None:
    """Its threads and WebAssembly reserve much more memory than they use."""
    script = (
        "new WebAssembly.Memory({initial: 1, maximum: 65536});"
        "const {Worker} = require('worker_threads'); let ended = 0;"
        "for (let n = 0; n < 8; n++)"
        " new Worker('0', {eval: true}).on('exit', () => { if (++ended == 8) console.log('ran'); });"
    )
    run = [*isolated(["node", "-e", script])]
    done = await asyncio.to_thread(subprocess.run, run, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ran\n", "")
