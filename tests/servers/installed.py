"""Installs servers from their registries, each in a place of its own outside the repository, with the versions of the
files beside this one; anew when these change."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
TOOLS: Final = Path(os.environ.get("TASKHUB_TOOLS_DIR") or Path.home() / ".cache" / "taskhub-tools")
PYTHON_VERSION: Final = "3.11"
EXAMPLES: Final = {"python_sdk": "mcp"}
"""Environments that have the examples of a package too, which only its source distribution has."""


def javascript() -> Path:
    """Where the JavaScript servers are installed, with a Node of their own."""
    home, pins = TOOLS / "servers-javascript", HERE / "package.json"
    done = home / "installed.json"
    if not done.exists() or done.read_text() != pins.read_text():
        began = time.monotonic()
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        shutil.copy(pins, home / "package.json")
        command = ["npm", "install", "--prefix", str(home), "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ, "PUPPETEER_SKIP_DOWNLOAD": "1"})
        shutil.copy(pins, done)
        print(f"installed the JavaScript servers in {time.monotonic() - began:.0f} s", flush=True)
    return home


def python(name: str) -> Path:
    """The environment of a Python server."""
    home, pins = TOOLS / f"servers-{name}", HERE / f"{name}.txt"
    done = home / "installed.txt"
    if not done.exists() or done.read_text() != pins.read_text():
        began = time.monotonic()
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run(["uv", "venv", "--quiet", "--seed", "--python", PYTHON_VERSION, str(home)], check=True)
        # Not from here: uv would add the versions that the project is held to.
        install = [
            "uv",
            "pip",
            "install",
            "--quiet",
            "--python",
            str(home / "bin" / "python"),
            "--requirement",
            str(pins),
        ]
        subprocess.run(install, check=True, cwd=home)
        if name in EXAMPLES:
            _source(home, EXAMPLES[name])
        shutil.copy(pins, done)
        print(f"installed {name} in {time.monotonic() - began:.0f} s", flush=True)
    return home


def _source(home: Path, package: str) -> None:
    """Unpack the source distribution of the version that is pinned into `source`."""
    (pin,) = (
        line
        for line in (HERE / f"{home.name.removeprefix('servers-')}.txt").read_text().split()
        if line.startswith(f"{package}==")
    )
    download = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(home), pin]
    subprocess.run([str(home / "bin" / "python"), *download], check=True, cwd=home)
    with tarfile.open(next(home.glob(f"{package}-*.tar.gz"))) as archive:
        archive.extractall(home / "source", filter="data")


def pinned(package: str) -> str:
    """The version of a package, as the files here name it."""
    versions = json.loads((HERE / "package.json").read_text())["dependencies"]
    for file in sorted(HERE.glob("*.txt"), reverse=True):
        versions |= dict(line.split("==") for line in file.read_text().split())
    return str(versions[package])


def shown(server: str) -> str:
    """What a server is called in a table, with its version: `NAME`, or `NAME FILE` for one of another file."""
    name, _, file = server.partition(" ")
    if not file:
        return f"{name} {pinned(name)}"
    return f"{name} {dict(line.split('==') for line in (HERE / file).read_text().split())[name]}"
