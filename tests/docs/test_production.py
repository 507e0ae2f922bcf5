"""What docs/run gives to other programs is read by these: units by systemd, alert rules by Prometheus."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

from taskhub.core.states import State
from tests.support.hub import ROOT
from tests.support.needed import program

PAGE = (ROOT / "docs" / "run" / "production.md").read_text()
RULES = ROOT / "docs" / "run" / "alerts.yml"
TROUBLE = ROOT / "tests" / "docs" / "alerts_test.yml"
EXPOSED = 20
"""Tenths of what `systemd-analyze security` gives a service that nothing is taken from: 96."""


def run(*command: str | Path) -> str:
    """What it says; fails with that if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    systemd = program("systemd", "systemd-analyze")
    (unit,) = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
    assert "/opt/taskhub/.venv/bin/python manage.py web --port %i" in unit
    web, worker = tmp_path / "taskhub-web@.service", tmp_path / "taskhub-worker@.service"
    web.write_text(unit.replace("/opt/taskhub/.venv/bin/python", sys.executable))
    (edit,) = re.findall(r"^sed -i '(.*)'", PAGE, re.MULTILINE)
    worker.write_text(run("sed", edit, web))
    assert f"ExecStart={sys.executable} manage.py worker\n" in worker.read_text()
    for named in (tmp_path / "taskhub-web@8001.service", tmp_path / "taskhub-worker@1.service"):
        assert run(systemd, "verify", "--man=no", named) == ""
    # Options that are misspelled are passed over by `verify` with a word, and count here as not given.
    run(systemd, "security", "--offline=true", f"--threshold={EXPOSED}", web)


def test_prometheus_takes_the_rules_and_they_tell_trouble_from_health() -> None:
    promtool = program("promtool", "promtool")
    run(promtool, "check", "rules", RULES)
    run(promtool, "test", "rules", TROUBLE)
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    expected = set(re.findall(r'alertname="(\w+)"', TROUBLE.read_text()))
    assert {rule["alert"] for rule in rules} == expected, "each is made to come"


def test_states_that_the_page_names_are_states() -> None:
    assert set(re.findall(r'taskhub_tasks_live\{state="(\w+)"\}', PAGE)) <= {str(state) for state in State}
