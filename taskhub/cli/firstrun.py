"""Creates the data of a first start: a tenant, people, tokens, and the demo server."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from django.db import transaction

from taskhub.control.caller import Caller, of_shell
from taskhub.control.clients import issue_token
from taskhub.control.people import add_person
from taskhub.control.rules import rules, save_rules
from taskhub.control.servers import set_server
from taskhub.core.errors import Refused
from taskhub.core.names import CALL_SCOPES
from taskhub.core.rules import Rule, Then
from taskhub.core.states import Role
from taskhub.domain.catalogue.spec import ServerSpec
from taskhub.domain.people.writes import has_people

FIRST_START = "first start"
"""The name of the actor in the audit log for changes that `up` makes."""
DEMO_TARGET = "taskhub.demo.server:server"


def credentials_file(data_dir: Path) -> Path:
    """The path of the file with the passwords and tokens of the first start, which only its owner can read."""
    return data_dir / "credentials.json"


def read_credentials(data_dir: Path) -> dict[str, object]:
    """The contents of `credentials.json`; empty if it is missing or unreadable."""
    try:
        found: dict[str, object] = json.loads(credentials_file(data_dir).read_text())
    except (OSError, ValueError):
        return {}
    return found


def make_people(data_dir: Path, url: str) -> dict[str, object]:
    """Create one person per role and tokens for two agents, and write them to `credentials.json` (mode 0600). Returns
    the contents of the file.

    If the file exists, only its URL is updated. If the file is gone but there are people, it is written with new tokens
    and without passwords, which cannot be recovered.
    """
    path = credentials_file(data_dir)
    known = read_credentials(data_dir)
    if known:
        if known.get("url") != url:
            known["url"] = url
            _write(path, known)
        return known
    caller = of_shell(FIRST_START)
    users: dict[str, dict[str, str]] = {}
    # One transaction, so that a start that dies half-way leaves no people whose passwords nobody knows.
    with transaction.atomic():
        if not has_people(caller.tenant_id):
            users = _add_people(caller)
        tokens = {name: issue_token(caller, name, scopes=CALL_SCOPES, days=365).text for name in ("agent-a", "agent-b")}
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
    # The file is created with its final mode, so that others can never read it.
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(content, file, indent=2)
        file.write("\n")
    temporary.replace(path)


def add_demo() -> None:
    """Add the demo server. If there are no rules yet, also add a rule that requires an approval by the group `ops` for
    a deployment to production."""
    caller = of_shell(FIRST_START)
    set_server(caller, ServerSpec(name="demo", transport="python", target=DEMO_TARGET, named=True))
    if not rules(caller).version:
        deploys = Rule(
            name="Production deploys",
            when='server.name == "demo" && tool.name == "deploy" && like(args.environment, "production")',
            then=Then.ASK,
            group="ops",
            sentence="Deploy {args.service} {args.version} to {args.environment}",
        )
        with suppress(Refused):  # another process has saved rules since
            save_rules(caller, [deploys], expected=0, reason="The demo’s own")
