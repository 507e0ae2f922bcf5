"""What a first start makes: a tenant, people, tokens, and the demo."""

from __future__ import annotations

import json
import os
from pathlib import Path

from django.db import transaction

from taskhub.control.caller import Caller, of_shell
from taskhub.control.clients import issue_token
from taskhub.control.people import add_person
from taskhub.control.servers import set_server
from taskhub.core.names import SCOPES
from taskhub.core.states import Role
from taskhub.domain.catalogue.spec import ServerSpec
from taskhub.domain.catalogue.sync import preset_approval
from taskhub.domain.people.writes import has_people

FIRST_START = "first start"
"""What the audit log calls whoever runs `up`."""
DEMO_TARGET = "taskhub.demo.server:server"


def credentials_file(data_dir: Path) -> Path:
    """Where the sign-ins of the first start are kept, for the owner's eyes only."""
    return data_dir / "credentials.json"


def read_credentials(data_dir: Path) -> dict[str, object]:
    """The file's contents; empty if there is none."""
    try:
        found: dict[str, object] = json.loads(credentials_file(data_dir).read_text())
    except (OSError, ValueError):
        return {}
    return found


def make_people(data_dir: Path, url: str) -> dict[str, object]:
    """One person per role and tokens of two agents, written to `credentials.json` (mode 0600). When the file exists,
    only its URL is kept right. Where it is gone but people exist, it gets new tokens and no sign-ins: passwords cannot
    be read back."""
    path = credentials_file(data_dir)
    known = read_credentials(data_dir)
    if known:
        if known.get("url") != url:
            known["url"] = url
            _write(path, known)
        return known
    caller = of_shell(FIRST_START)
    users: dict[str, dict[str, str]] = {}
    # All or nothing: a start that dies half-way leaves no people whose passwords nobody knows.
    with transaction.atomic():
        if not has_people(caller.tenant_id):
            users = _add_people(caller)
        tokens = {name: issue_token(caller, name, scopes=SCOPES, days=365).text for name in ("agent-a", "agent-b")}
        made: dict[str, object] = {"url": url, "users": users, "tokens": tokens}
        _write(path, made)
    return made


def _add_people(caller: Caller) -> dict[str, dict[str, str]]:
    users = {}
    for role in (Role.ADMIN, Role.OPERATOR, Role.APPROVER, Role.AUDITOR, Role.VIEWER):
        groups = ["ops"] if role in (Role.ADMIN, Role.APPROVER, Role.OPERATOR) else []
        _, password = add_person(caller, username=str(role), role=role, groups=groups, password_due=False)
        users[str(role)] = {"username": str(role), "password": password}
    return users


def _write(path: Path, content: dict[str, object]) -> None:
    # Created with its mode, so that there is no moment at which others can read it.
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(content, file, indent=2)
        file.write("\n")
    temporary.replace(path)


def add_demo() -> None:
    """The demo server, with its one rule: a deployment to production needs an operator's approval."""
    demo = ServerSpec(name="demo", transport="python", target=DEMO_TARGET, named=True)
    server = set_server(of_shell(FIRST_START), demo)
    preset_approval(server, "deploy", when={"environment": "production"}, group="ops", quorum=1)
