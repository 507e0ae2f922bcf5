"""Every distribution we need has one exact version in `pyproject.toml`, and that version is here."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = [Requirement(text) for text in PROJECT["tool"]["uv"]["constraint-dependencies"]]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def needed() -> dict[str, importlib.metadata.Distribution]:
    """What `dependencies` and the dev group ask for here, and all that it asks for in turn."""
    found: dict[str, importlib.metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [
        Requirement(text) for text in (*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"])
    ]
    while waiting:
        wanted = waiting.pop()
        name = normal(wanted.name)
        found.setdefault(name, importlib.metadata.distribution(wanted.name))
        for extra in ("", *sorted(wanted.extras)):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            below = [Requirement(text) for text in found[name].requires or ()]
            waiting += [requirement for requirement in below if applies(requirement, extra)]
    return found


NEEDED = needed()


def test_each_pin_is_one_exact_version() -> None:
    loose = [
        str(pin)
        for pin in PINS
        if [part.operator for part in pin.specifier] != ["=="] or str(pin.specifier).endswith("*")
    ]
    assert loose == []


def test_no_distribution_is_pinned_twice() -> None:
    twice = [name for name, count in Counter(normal(pin.name) for pin in PINS if applies(pin)).items() if count > 1]
    assert twice == []


def test_what_we_need_is_pinned_to_what_is_installed() -> None:
    pinned = {normal(pin.name): str(pin.specifier) for pin in PINS if applies(pin)}
    wanted = {name: f"=={needed.version}" for name, needed in NEEDED.items()}
    assert {name: pinned.get(name) for name in wanted} == wanted, "run tools/pin.py"


def test_pins_name_no_index_and_no_url() -> None:
    assert [str(pin) for pin in PINS if pin.url] == []
    assert "index" not in PROJECT["tool"]["uv"]


def test_the_lock_agrees_where_there_is_one() -> None:
    lock = ROOT / "uv.lock"
    if not lock.exists():
        pytest.skip("no uv.lock here: it stays out of git")
    packages = tomllib.loads(lock.read_text())["package"]
    locked = {(normal(package["name"]), package["version"]) for package in packages if "registry" in package["source"]}
    pinned = {(normal(pin.name), next(iter(pin.specifier)).version) for pin in PINS}
    assert locked - pinned == set(), "run tools/pin.py"


def test_what_the_docs_fetch_for_clients_are_the_versions_that_were_tried() -> None:
    tried = json.loads((ROOT / "tests" / "clients" / "package.json").read_text())["dependencies"]
    page = (ROOT / "docs" / "use" / "clients.md").read_text()
    fetched = re.findall(r"(?<![\w/])(@modelcontextprotocol/inspector|node)(?:@([\d.]+))?(?= )", page)
    assert {name for name, _ in fetched} == {"@modelcontextprotocol/inspector", "node"}
    assert [(name, version) for name, version in fetched if version != tried[name]] == []
    assert f"| [MCP Inspector](#mcp-inspector) | {tried['@modelcontextprotocol/inspector']} |" in page
