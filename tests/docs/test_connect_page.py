"""The page of snippets is what `programs.toml` says, and names the versions that were tried."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from taskhub.domain.clients.programs import Program, programs
from tools import connect

CLIENTS = Path(__file__).resolve().parents[1] / "clients"


def pinned() -> set[str]:
    """`name version` of everything that scripts are run with."""
    found = {
        f"{name} {version}"
        for file in CLIENTS.rglob("*.txt")
        for name, version in re.findall(r"^([\w-]+)(?:\[\w+\])?==(\S+)$", file.read_text(), re.MULTILINE)
    }
    for file in CLIENTS.rglob("package.json"):
        found |= {f"{name} {version}" for name, version in json.loads(file.read_text())["dependencies"].items()}
    return found


def test_the_page_is_what_the_source_says() -> None:
    assert connect.PAGE.read_text() == connect.page(), "run tools/connect.py"


@pytest.mark.parametrize("program", [program for program in programs() if program.tried], ids=lambda row: row.key)
def test_the_version_that_is_named_is_the_one_that_is_tried(program: Program) -> None:
    assert program.tried in pinned()


def test_each_script_of_a_framework_has_its_snippet() -> None:
    agents = CLIENTS / "agents"
    scripts = {path.stem for pattern in ("*_client.py", "*_client.mjs") for path in agents.glob(pattern)}
    second = {"pydantic_ai_tasks_client"}  # of a framework that has its snippet with the other script
    assert {program.script for program in programs() if program.script} == scripts - second
