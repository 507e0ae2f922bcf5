"""Rules that are proposed since all calls of a kind were approved: opened in the form, or dismissed."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from taskhub.console.access import page
from taskhub.console.forms.rules import of_rule, placed
from taskhub.console.requests import ConsoleRequest
from taskhub.console.views.rules import rule_form, rule_page
from taskhub.control import rules as control
from taskhub.core.errors import NotFound
from taskhub.domain.rules.proposals import Proposal
from taskhub.lib.numbers import whole


@page("server.manage")
@require_safe
def rule_proposal(request: ConsoleRequest) -> HttpResponse:
    """The form of a new rule as it is proposed, tried on recent calls. Nothing is saved."""
    found = control.proposal(request.caller, _subject(request.GET))
    listed = control.rules(request.caller)
    wanted, _ = placed(listed.rules, found.rule, found.place + 1)
    initial = {**of_rule(found.rule, found.place), "reason": _reason(found), "expected": listed.version}
    form = rule_form(request, initial=initial)
    return rule_page(request, form, listed, "", trial=control.try_rules(request.caller, wanted))


@page("server.manage")
@require_POST
def dismiss(request: ConsoleRequest) -> HttpResponse:
    """Stop showing a proposal."""
    found = control.dismiss_proposal(request.caller, _subject(request.GET))
    messages.success(
        request,
        f"The proposal for {found.tool} of {found.client} is dismissed. It comes back when {2 * found.approved:,} such"
        f" calls were approved in {found.days} days.",
    )
    return redirect("rule-list")


def _subject(given: QueryDict) -> tuple[str, int, int]:
    client, tool = (whole(given.get(name, "")) for name in ("client", "tool"))
    if client is None or tool is None:
        raise NotFound("This is not proposed any more.")
    return given.get("rule", ""), client, tool


def _reason(found: Proposal) -> str:
    return f"All {found.approved:,} such calls of the last {found.days} days were approved"
