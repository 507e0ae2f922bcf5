"""`./dev` is one place for everything a developer does, and what it runs is there."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from django.core.management import ManagementUtility

ROOT = Path(__file__).resolve().parents[2]
LOADER = SourceFileLoader("dev", str(ROOT / "dev"))
_SPEC = spec_from_loader("dev", LOADER)
assert _SPEC
dev = module_from_spec(_SPEC)
LOADER.exec_module(dev)


@functools.cache
def said(*arguments: str) -> subprocess.CompletedProcess[str]:
    # From another directory, as from a shell somewhere else in the project.
    command = [sys.executable, str(ROOT / "dev"), *arguments]
    return subprocess.run(command, cwd=ROOT / "docs", capture_output=True, text=True, check=False)


def test_the_help_tells_every_command() -> None:
    shown = said("--help")
    assert shown.returncode == 0
    for name, (what, _) in dev.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(what)}$", shown.stdout, re.MULTILINE), name


@pytest.mark.parametrize("name", dev.COMMANDS)
def test_what_a_command_runs_is_there(name: str) -> None:
    for line in said("-n", name).stdout.splitlines():
        paths = [word for word in line.split() if "/" in word or word.endswith(".py")]
        assert [path for path in paths if not (ROOT / path).exists()] == []
        if "manage.py" in paths:
            verb = line.split()[line.split().index("manage.py") + 1]
            parser = ManagementUtility().fetch_command(verb).create_parser("manage.py", verb)
            assert all(word in parser.format_help() for word in line.split() if word.startswith("--"))


def test_every_tool_and_every_part_of_ci_can_be_reached() -> None:
    run = " ".join(said("-n", name).stdout for name in dev.COMMANDS)
    for tool in (ROOT / "tools").glob("*.py"):
        assert f"tools/{tool.name}" in run
    parts = re.findall(r"^  ((?:\w+\|)+\w+)\) ", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert len(parts) == 1
    by_another_name = {"install": "uv", "tests": "uv run pytest"}
    for part in parts[0].split("|"):
        assert by_another_name.get(part, f".ci/run {part}") in run


def test_what_follows_goes_to_what_is_run() -> None:
    assert said("-n", "test", "tests/lib", "-k", "a or b").stdout == "uv run pytest tests/lib -k 'a or b'\n"


def test_an_unknown_command_is_told_the_known_ones() -> None:
    refused = said("dance")
    assert refused.returncode == 2
    assert "migrations" in refused.stderr
