"""Calls that people make themselves, in the console: what the rules say of such a call, and the call as a task.

The client of such a call stands for the person (`CONSOLE_ISSUER`), and nobody has a token of it. Rules, limits and
approvals apply as to a program that the person signed in: nobody may call more in the console than with such a program.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.names import CONSOLE_ISSUER
from taskhub.core.permissions import grantable
from taskhub.core.records import Actor, Created, NewTask, Person, ToolRecord
from taskhub.core.rules import Client, SignedIn, Then, Verdict
from taskhub.core.versions import Version
from taskhub.domain.audit.record import record_verdict
from taskhub.domain.catalogue.view import catalogue
from taskhub.domain.clients.verdicts import Called, called_by, offered_tool
from taskhub.domain.oauth.consents import subject_of
from taskhub.domain.rules.decisions import Rules, denied
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks.create import create_task
from taskhub.domain.tasks.edits import check_readable, checked_fit
from taskhub.lib import jsonx
from taskhub.store.models import AuthContext, Membership

PROGRAM: Final = "TaskHub console"
"""What rules see as the program of these calls."""
_CLIENT_ID: Final = "console"
_MAX_NAME: Final = 128


@dataclass(frozen=True, slots=True)
class Try:
    """A call as the person would make it now. `called`: what the rules in force do with it. `verdict`: their verdict,
    changed by the bypass that is in force, if there is one."""

    person: Person
    tool: ToolRecord
    arguments: dict[str, Any]
    called: Called
    verdict: Verdict

    @property
    def runs(self) -> bool:
        """Whether the tool is called: now, or after people have approved the call."""
        return self.called.then not in (Then.HIDE, Then.DENY)

    @property
    def mark(self) -> str:
        """A digest of everything that the person is shown before making the call."""
        asked, rule, bypass = self.called.approval, self.verdict.rule, self.called.bypass
        shown = [
            self.tool.digest,
            self.arguments,
            str(self.called.then),
            None if rule is None else [rule.name, rule.words],
            None if asked is None else [asked.params, asked.group, asked.quorum],
            None if bypass is None else bypass.stored(),
        ]
        return hashlib.sha256(jsonx.canonical(shown)).hexdigest()


def tool_to_try(tenant_id: int, tool_id: int) -> ToolRecord:
    """The tool with this id. Raises `NotFound` if it is not offered to clients."""
    return offered_tool(catalogue(tenant_id), tool_id)


def find_try(person: Person, tool_id: int, arguments: dict[str, Any]) -> Try:
    """The call as the person would make it now. Nothing is called or stored. Raises `NotFound` if the tool is not
    offered; `Refused` if the person's client is locked out; `Invalid` if the arguments are too large or do not fit the
    tool's schema. Arguments that cannot be checked are left to the server."""
    tool = tool_to_try(person.tenant_id, tool_id)
    check_readable(arguments)
    if problem := checked_fit(tool, arguments).problem:
        raise Invalid(f"The arguments do not fit the inputSchema of {tool.exposed_name}: {problem}", problem=problem)
    rules = Rules(present(person.tenant_id))
    client = _client(person)
    called = called_by(rules, client, tool, arguments, program=PROGRAM, now=datetime.now(UTC))
    return Try(person, tool, arguments, called, rules.let_pass(called.explained.verdict, tool))


def call(found: Try, *, key: str, actor: Actor) -> Created:
    """Make the call. With a `key` that the person has used before, the task of that call is returned. Raises `NotFound`
    if the rules hide the tool; `Refused` if they deny the call, which is recorded as an event; and what `create_task`
    raises."""
    tenant_id, tool = found.person.tenant_id, found.tool
    if found.called.then is Then.HIDE:
        raise NotFound("This tool is not offered to you.")
    if found.verdict.then is Then.DENY or found.verdict.shadows:
        record_verdict(found.verdict, tenant_id=tenant_id, tool=tool, arguments=found.arguments, actor=actor)
    if found.verdict.then is Then.DENY:
        raise Refused(denied(found.verdict))
    new = NewTask(
        tenant_id=tenant_id,
        context_id=_context(found.person),
        tool=tool,
        arguments=found.arguments,
        verdict=found.verdict,
        revision=Version.MCP_2026_07_28,
        client_info={"name": PROGRAM},
        idempotency_key=key,
    )
    return create_task(new, actor)


def _named(person: Person) -> dict[str, str]:
    return {"issuer": CONSOLE_ISSUER, "subject": subject_of(person.user_id), "client_id": _CLIENT_ID}


def _name(person: Person) -> str:
    return f"{person.username} in the console"[:_MAX_NAME]


def _client(person: Person) -> Client:
    """The person's client, as rules see it, even before its first call. Raises `Refused` if the client is locked
    out."""
    row = AuthContext.objects.filter(tenant_id=person.tenant_id, **_named(person)).first()
    if row is not None and row.disabled_at is not None:
        raise Refused("Your calls from the console are locked out: an administrator can let them in again.")
    # The groups keep the order in which workers will read them: otherwise the rules would decide the call again at its
    # claim.
    members = Membership.objects.filter(tenant_id=person.tenant_id, user_id=person.user_id)
    groups = members.values_list("groups", flat=True).first()
    return Client(
        0 if row is None else row.pk,
        _name(person) if row is None else row.name,
        **_named(person),
        scopes=frozenset(grantable(person.role)),
        person=SignedIn(person.username, person.role, tuple(groups or ())),
    )


def _context(person: Person) -> int:
    row, _ = AuthContext.objects.get_or_create(
        tenant_id=person.tenant_id, **_named(person), defaults={"name": _name(person)}
    )
    return row.pk
