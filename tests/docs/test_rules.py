"""The rules of the protocol stand in the repo, and what code and docs refer to stands in it too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protocol.requirements import FAMILIES, REQUIREMENTS
from tools import rules

ROOT = Path(__file__).resolve().parents[2]
READ = {".py", ".sql", ".md", ".html", ".js", ".css", ".sh", ".toml", ".yml", ".yaml"}
FOLDERS = ("taskhub", "tests", "docs", "templates", "static", "tools", "bench", ".github")

_ID = rf"\b(?P<family>{'|'.join(FAMILIES)})-(?P<first>\d\d)(?:(?:\.\.|-)(?P<last>\d\d)\b)?"
"""A rule, or a run of them: `T26-22..29`."""
_PAPER = r"(?i)\b(?:reliability|design|protocol|style|peers|features)(?:\.md\b|\s+(?:[A-Z]\d\d?|sections?\s+\d))"
"""Papers that led to this project and are no part of it, as they were once referred to."""


def texts() -> Iterator[tuple[Path, str]]:
    found = [*ROOT.glob("*"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*"))]
    for file in sorted(found):
        if file.suffix in READ and file.is_file() and file != Path(__file__) and "node_modules" not in file.parts:
            yield file.relative_to(ROOT), file.read_text()


def named(text: str) -> Iterator[str]:
    for found in re.finditer(_ID, text):
        first, last = int(found["first"]), int(found["last"] or found["first"])
        assert first <= last, found[0]
        yield from (f"{found['family']}-{number:02}" for number in {first, last})


def test_the_page_is_what_the_requirements_say() -> None:
    assert rules.PAGE.read_text() == rules.page(), "run tools/rules.py"
    assert max(map(len, rules.page().splitlines())) <= 120


def test_every_rule_that_is_named_is_on_the_page() -> None:
    unknown = [(str(file), rule) for file, text in texts() for rule in named(text) if rule not in REQUIREMENTS]
    assert unknown == []


def test_every_mark_names_a_rule_by_its_id() -> None:
    marked = [
        (str(file), rule)
        for file, text in texts()
        for mark in re.findall(r"mark\.req\(([^)]*)\)", text)
        for rule in re.findall(r'"([^"]*)"', mark)
    ]
    assert len(marked) > len(REQUIREMENTS)
    assert [(file, rule) for file, rule in marked if rule not in REQUIREMENTS] == []


def test_nothing_refers_to_a_paper_outside_the_repo() -> None:
    referring = [(str(file), found[0]) for file, text in texts() for found in re.finditer(_PAPER, text)]
    assert referring == []


@pytest.mark.parametrize(
    "text",
    ["reliability V10", "(design section 8)", "protocol.md 3.3", "see Style.md", "peers.md", "design\n    section 5"],
)
def test_such_a_reference_would_be_found(text: str) -> None:
    assert re.search(_PAPER, text)
