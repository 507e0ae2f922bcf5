#!/usr/bin/env python
"""Write the exact version of every dependency, transitive ones too, into `pyproject.toml`.

    uv run tools/pin.py              pins what is missing, keeps the versions that are installed
    uv run tools/pin.py --upgrade    newest versions that `dependencies` allow
    uv run tools/pin.py --check      changes nothing; exit 1 if the pins are not what it would write

`uv lock` resolves for every Python and platform that `requires-python` allows, in a temporary
copy. From its result only names and versions are taken, into `[tool.uv] constraint-dependencies`:
the lock file itself names download hosts, so it stays out of git.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = ROOT / "pyproject.toml"
KEY = "constraint-dependencies"
_LIST = re.compile(rf"^{KEY} = \[\n(?:.*\n)*?\]\n", re.MULTILINE)
_TABLE = re.compile(r"^\[tool\.uv\]\n", re.MULTILINE)


def normal(name: str) -> str:
    """A distribution's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def with_pins(text: str, pins: list[str]) -> str:
    """`pyproject.toml` with these pins in `[tool.uv]` and nothing else changed."""
    text = _LIST.sub("", text)
    if not pins:
        return text
    if not _TABLE.search(text):
        raise SystemExit(f"{PYPROJECT} has no [tool.uv] table")
    block = "".join([f"{KEY} = [\n", *(f'    "{pin}",\n' for pin in pins), "]\n"])
    head, table, tail = text.partition("[tool.uv]\n")
    rest, blank, after = tail.partition("\n\n")
    return f"{head}{table}{rest}\n{block}{blank[1:]}{after}" if blank else f"{head}{table}{rest.rstrip()}\n{block}"


def lock(text: str) -> dict[str, Any] | None:
    """What `uv lock` makes of this `pyproject.toml`; `None` when it cannot be resolved."""
    with tempfile.TemporaryDirectory(prefix="taskhub-pins-") as directory:
        Path(directory, "pyproject.toml").write_text(text)
        done = subprocess.run(
            ["uv", "lock", "--no-progress", "--directory", directory], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.stderr.write(done.stderr)
            return None
        return tomllib.loads(Path(directory, "uv.lock").read_text())


def pins_of(locked: dict[str, Any]) -> list[str]:
    """`name==version` of every distribution in the lock; one that differs between platforms or
    Pythons has a line for each, with its marker."""
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for package in locked["package"]:
        if "registry" in package["source"]:
            found[package["name"]].append(package)
    pins = []
    for name in sorted(found):
        for package in found[name]:
            pin = f"{name}=={package['version']}"
            if len(found[name]) > 1:
                pin += " ; " + " or ".join(f"({marker})" for marker in package["resolution-markers"]).replace('"', "'")
            pins.append(pin)
    return pins


def installed() -> list[str]:
    """Exact pins of what this environment holds."""
    found = {normal(dist.metadata["Name"]): dist.version for dist in importlib.metadata.distributions()}
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def main() -> int:
    """Resolve, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upgrade", action="store_true", help="newest versions instead of the present ones")
    parser.add_argument("--check", action="store_true", help="change nothing, compare")
    options = parser.parse_args()
    text = PYPROJECT.read_text()
    present: list[str] = tomllib.loads(text).get("tool", {}).get("uv", {}).get(KEY, [])
    bare = with_pins(text, [])
    if options.upgrade:
        locked = lock(bare)
    else:
        # What is pinned stays; then what is installed; then whatever fits.
        known = {normal(pin.partition("==")[0]) for pin in present}
        extra = [pin for pin in installed() if pin.partition("==")[0] not in known]
        locked = lock(with_pins(bare, [*present, *extra])) or lock(with_pins(bare, present)) or lock(bare)
    if locked is None:
        return 1
    pins = pins_of(locked)
    if options.check:
        for line in sorted(set(pins) ^ set(present)):
            sys.stdout.write(f"{'missing' if line in pins else 'not needed'}: {line}\n")
        return int(pins != present)
    PYPROJECT.write_text(with_pins(text, pins))
    sys.stdout.write(f"{len(pins)} versions pinned\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
