"""Use cases for the tenant's rules: see them and their versions, try and save the list, see its effect on clients,
tools and calls, and what could run without asking, and begin and end a bypass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from taskhub.control.caller import Caller
from taskhub.core import permissions
from taskhub.core.bypass import Bypass
from taskhub.core.errors import NotFound
from taskhub.core.rules import Rule, RuleList, Then
from taskhub.domain.catalogue.reads import approvers_by_group
from taskhub.domain.catalogue.view import catalogue
from taskhub.domain.clients import verdicts
from taskhub.domain.clients.verdicts import PAGE_ROWS as ROWS
from taskhub.domain.clients.verdicts import CallerPage, Calls, Sample, ToolPage
from taskhub.domain.rules import bypasses as made
from taskhub.domain.rules import changes, reads, trial
from taskhub.domain.rules import proposals as proposed
from taskhub.domain.rules.approvers import TooFew, too_few
from taskhub.domain.rules.bypasses import PastBypass
from taskhub.domain.rules.lacking import Lack, Misfit, lacks, misfits
from taskhub.domain.rules.proposals import Proposal
from taskhub.domain.rules.reads import PAGE_ROWS, Version, VersionRow
from taskhub.domain.rules.telling import Telling, telling
from taskhub.domain.rules.trial import Trial

Warned = Lack | Misfit | Telling | TooFew
"""A warning about a rule. The rule can be saved in spite of it. `rule` is the rule, `words` is the warning."""


def rules(caller: Caller) -> RuleList:
    """The rules that are in force. Raises `Forbidden`."""
    caller.require("server.view", what="see the rules")
    return reads.present(caller.tenant_id)


def rule_versions(caller: Caller, *, before: int | None = None, most: int = PAGE_ROWS) -> list[VersionRow]:
    """The versions of the rules, newest first; with `before`, those with a lower number. Raises `Forbidden`."""
    caller.require("server.view", what="see the versions of the rules")
    return reads.versions(caller.tenant_id, before=before, most=most)


def rule_version(caller: Caller, number: int) -> Version:
    """The version of the rules with this number. Raises `Forbidden` or `NotFound`."""
    caller.require("server.view", f"see version {number} of the rules")
    found = reads.version(caller.tenant_id, number)
    if found is None:
        raise NotFound(f"There is no version {number} of the rules.")
    return found


def save_rules(caller: Caller, rules: Sequence[Rule], *, expected: int, reason: str = "") -> RuleList:
    """Save the list of rules, for future calls; returns the list that is in force. If nothing differs, there is no new
    version. `expected` is the version that the person was shown.

    Raises `Forbidden`, `Invalid` naming the field, or `Refused` if the rules have changed since `expected`.
    """
    caller.require("server.manage", what="save the rules")
    return changes.save_rules(caller.tenant_id, rules, expected=expected, reason=reason, actor=caller.actor)


def begin_bypass(caller: Caller, *, minutes: int, reason: str, server_id: int | None = None) -> Bypass:
    """For this many minutes, let calls run without the approvals that rules ask for; with `server_id`, only calls of
    that server. Raises `Forbidden`, `Invalid` naming the field, `NotFound` for the server, or `Refused` if a bypass is
    in force."""
    caller.require("server.manage", what="begin a bypass")
    return made.begin_bypass(caller.tenant_id, minutes=minutes, reason=reason, server_id=server_id, actor=caller.actor)


def end_bypass(caller: Caller, bypass_id: int) -> None:
    """End the bypass before its time. Raises `Forbidden`, `NotFound`, or `Refused` if the bypass is over already."""
    caller.require("server.manage", what="end a bypass")
    made.end_bypass(caller.tenant_id, bypass_id, actor=caller.actor)


def bypasses(caller: Caller) -> list[PastBypass]:
    """The newest bypasses, newest first. Raises `Forbidden`."""
    caller.require("server.view", what="see the bypasses")
    return made.bypasses(caller.tenant_id)


def rule_warnings(caller: Caller, rules: Sequence[Rule]) -> list[Warned]:
    """All warnings about the rules of the list: `tool_warnings` and `approver_warnings`. Raises `Forbidden`, or
    `Invalid` for an expression or sentence that means nothing."""
    return [*tool_warnings(caller, rules), *approver_warnings(caller, rules)]


def tool_warnings(caller: Caller, rules: Sequence[Rule]) -> list[Lack | Misfit | Telling]:
    """Warnings about rules that are in doubt for every call of some tools, because these tools lack an argument; about
    names in rules that no tool has (`misfits`); and about hidden tools whose existence other names tell (`telling`).
    Raises `Forbidden`, or `Invalid` for an expression or sentence that means nothing."""
    caller.require("server.view", what="see what is in doubt")
    tools = catalogue(caller.tenant_id).tools
    return [*lacks(rules, tools), *misfits(rules, tools), *telling(rules, tools)]


def approver_warnings(caller: Caller, rules: Sequence[Rule]) -> list[TooFew]:
    """Warnings about rules that require more approvals than there are people who may approve. Raises `Forbidden`."""
    caller.require("server.view", what="see who may approve")
    if not any(rule.then is Then.ASK for rule in rules):
        return []
    tenant_id, roles = caller.tenant_id, permissions.roles_with("question.approve")
    wanted = any(rule.second_factor for rule in rules)
    with_factor = approvers_by_group(tenant_id, roles, with_factor=True) if wanted else {}
    return too_few(rules, approvers_by_group(tenant_id, roles), with_factor)


def try_call(
    caller: Caller,
    context_id: int,
    tool_id: int,
    arguments: Mapping[str, Any],
    *,
    program: str = "",
    now: datetime | None = None,
    rules: Sequence[Rule] | None = None,
) -> Calls:
    """What would happen to a client's call, and by which rule: with the list in force, and with `rules` if they differ
    from it. Nothing is called or saved. Raises `Forbidden`, `NotFound`, or `Invalid` for a list that cannot be
    saved."""
    caller.require("server.manage", what="try a call")
    at = now or datetime.now(UTC)
    return verdicts.try_call(caller.tenant_id, context_id, tool_id, arguments, program=program, now=at, rules=rules)


def sample_call(caller: Caller, context_id: int, tool_id: int) -> Sample:
    """Arguments with which to try a call of the tool by the client. Raises `Forbidden` or `NotFound`."""
    caller.require("server.manage", what="try a call")
    return verdicts.sample(caller.tenant_id, context_id, tool_id, of_calls=caller.may("task.view"))


def tools_of_client(
    caller: Caller, context_id: int, *, text: str = "", after: int | None = None, most: int = ROWS
) -> ToolPage:
    """A page of the tools that are offered, each with what may happen to the client's calls of it. Raises `Forbidden`
    or `NotFound`."""
    for permission in ("client.view", "server.view"):
        caller.require(permission, what="see what a client may call")
    return verdicts.tools_of(caller.tenant_id, context_id, text=text, after=after, most=most)


def clients_of_tool(
    caller: Caller, tool_id: int, *, text: str = "", after: int | None = None, most: int = ROWS
) -> CallerPage:
    """A page of the clients, each with what may happen to its calls of the tool. Raises `Forbidden`, or `NotFound` for
    a tool that is not offered."""
    for permission in ("client.view", "server.view"):
        caller.require(permission, what="see who may call a tool")
    return verdicts.callers_of(caller.tenant_id, tool_id, text=text, after=after, most=most)


def try_rules(caller: Caller, rules: Sequence[Rule]) -> Trial:
    """Try the list of rules on the newest calls; nothing is saved. Raises `Forbidden`, or `Invalid` naming the
    field."""
    caller.require("server.manage", what="try rules")
    return trial.try_rules(caller.tenant_id, rules, catalogue(caller.tenant_id).tools)


def proposals(caller: Caller) -> list[Proposal]:
    """Rules that would let calls run about which people were asked often and always agreed, those with the most
    approvals first. Raises `Forbidden`."""
    caller.require("server.manage", what="see proposed rules")
    listed = reads.present(caller.tenant_id)
    return proposed.proposals(caller.tenant_id, listed, catalogue(caller.tenant_id).tools)


def proposal(caller: Caller, subject: tuple[str, int, int]) -> Proposal:
    """The proposal with this `Proposal.subject`. Raises `Forbidden`, or `NotFound` if it is not proposed any more."""
    found = next((one for one in proposals(caller) if one.subject == subject), None)
    if found is None:
        raise NotFound("This is not proposed any more.")
    return found


def dismiss_proposal(caller: Caller, subject: tuple[str, int, int]) -> Proposal:
    """Stop showing the proposal, to everybody of the tenant, until twice as many calls were approved. Returns the
    proposal. Raises `Forbidden` or `NotFound`."""
    found = proposal(caller, subject)
    proposed.dismiss(caller.tenant_id, found, actor=caller.actor)
    return found
