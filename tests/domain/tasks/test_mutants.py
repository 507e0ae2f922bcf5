"""Proof that the machine can fail: each seeded fault must be found, by a wrong outcome or because the
guards in the database refuse what the faulty function does.

Replayed are the histories that found them once, which `hunt.py` seeks anew after a change of the functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domain.tasks.machine import VIOLATIONS, Step, replay
from tests.domain.tasks.mutants import MUTANTS, installed

pytestmark = pytest.mark.django_db

HISTORIES: dict[str, list[Step]] = json.loads(Path(__file__).with_name("histories.json").read_text())


def test_every_fault_has_a_history() -> None:
    assert HISTORIES.keys() == MUTANTS.keys()


@pytest.mark.parametrize("name", HISTORIES)
def test_the_history_finds_nothing_in_the_functions_as_they_are(name: str) -> None:
    """Or a machine that always fails would pass for a good one."""
    replay(HISTORIES[name])


@pytest.mark.parametrize("name", MUTANTS)
def test_the_machine_finds_the_fault(name: str) -> None:
    with installed(name), pytest.raises(VIOLATIONS):
        replay(HISTORIES[name])
