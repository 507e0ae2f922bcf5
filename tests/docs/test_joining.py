"""What a stranger meets first: the files that hosts of code show, and the workflow."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.docs.test_dev import dev

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md"), *FORMS]


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]]


def test_the_workflow_runs_the_gate_and_no_second_one() -> None:
    assert [step["run"] for workflow in WORKFLOWS for step in steps(workflow) if "run" in step] == [".ci/run"]


def test_the_workflow_has_the_oldest_python_that_we_promise() -> None:
    (version,) = [
        step["with"]["python-version"] for step in steps(WORKFLOWS[0]) if "python-version" in step.get("with", {})
    ]
    allowed = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    assert next(minor for minor in range(30) if f"3.{minor}" in allowed) == int(version.removeprefix("3."))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.name)
def test_an_action_is_pinned_and_the_token_may_only_read(workflow: Path) -> None:
    for step in steps(workflow):
        assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|[0-9a-f]{40})", step.get("uses", "a/b@v1")), step
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("form", [form for form in FORMS if form.stem != "config"], ids=lambda file: file.name)
def test_a_form_for_issues_is_one_that_hosts_take(form: Path) -> None:
    fields = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= set(fields)
    ids = [part["id"] for part in fields["body"] if part["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0
    assert any(part.get("validations", {}).get("required") for part in fields["body"])


def test_the_commands_of_a_developer_are_spelled_right() -> None:
    named = {name for file in PAGES for name in re.findall(r"\./dev ([a-z]+)", file.read_text())}
    assert {"up", "quick", "lint", "types", "ci"} <= named
    assert named - set(dev.COMMANDS) == set()
