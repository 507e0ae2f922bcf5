"""What each role may do, written down a second time: the gate's own table is not asked about itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from taskhub.core import permissions as gate
from taskhub.core.records import Person
from taskhub.core.states import Role

ROOT = Path(gate.__file__).parents[1]
ALL = {"viewer", "operator", "approver", "auditor", "admin"}
MAY = {
    "task.view": ALL,
    "server.view": ALL,
    "worker.view": ALL,
    "task.cancel": {"operator", "admin"},
    "task.rerun": {"operator", "admin"},
    "question.answer": {"operator", "approver", "admin"},
    "question.approve": {"approver", "admin"},
    "client.view": {"operator", "auditor", "admin"},
    "client.manage": {"admin"},
    "server.manage": {"admin"},
    "settings.view": {"admin"},
    "audit.view": {"auditor", "admin"},
    "audit.export": {"auditor", "admin"},
}
CELLS = [(permission, role) for permission in MAY for role in sorted(ALL)]


def somebody(role: str) -> Person:
    return Person(user_id=1, username="mia", tenant_id=1, role=role)


@pytest.mark.parametrize(("permission", "role"), CELLS, ids=[f"{role} {name}" for name, role in CELLS])
def test_a_role_may_do_what_the_matrix_says_and_is_refused_the_rest(permission: str, role: str) -> None:
    assert gate.allows(somebody(role), permission) is (role in MAY[permission])


def test_the_matrix_leaves_no_role_and_no_permission_out() -> None:
    assert set(Role) == ALL
    assert set().union(*gate.PERMISSIONS.values()) == set(MAY)


@pytest.mark.parametrize("permission", ["", "task", "task.", "TASK.VIEW", "task.view ", "task.delete", "*"])
@pytest.mark.parametrize("role", sorted(ALL))
def test_what_nobody_was_given_nobody_may(permission: str, role: str) -> None:
    assert not gate.allows(somebody(role), permission)


@pytest.mark.parametrize("role", ["", "root", "Admin", "admin "])
def test_a_role_we_do_not_know_opens_nothing(role: str) -> None:
    with pytest.raises(ValueError, match="not a valid Role"):
        gate.allows(somebody(role), "task.view")


def test_every_permission_is_asked_for_somewhere_and_no_other() -> None:
    """A word misspelt at a door would lock it for everybody, or leave its permission without effect."""
    asked: set[str] = set()
    for source in [path for room in ("control", "console", "api") for path in (ROOT / room).rglob("*.py")]:
        for node in ast.walk(ast.parse(source.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("page", "require", "may", "allows"):
                asked |= {
                    part.value for part in node.args if isinstance(part, ast.Constant) and isinstance(part.value, str)
                }
    assert asked == set(MAY)
