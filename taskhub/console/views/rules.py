"""Pages about the tenant's rules: the list, a rule's form, and the versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from taskhub.console import query
from taskhub.console.access import page
from taskhub.console.forms.rules import ChangeForm, RuleForm, of_rule, placed
from taskhub.console.htmx import wants_partial
from taskhub.console.requests import ConsoleRequest
from taskhub.console.views.rule_calls import call_form, called, fill
from taskhub.control import rules as control
from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.rules import Preview, Rule, RuleList, Then, difference, fields_changed
from taskhub.domain.catalogue.reads import known_groups
from taskhub.domain.catalogue.view import catalogue
from taskhub.domain.rules.decisions import check_expressions
from taskhub.domain.rules.expressions import FUNCTIONS, MEMBERS, METHODS
from taskhub.domain.rules.lacking import Lack
from taskhub.domain.rules.proposals import Proposal
from taskhub.domain.rules.reads import PAGE_ROWS
from taskhub.domain.rules.telling import Telling
from taskhub.domain.rules.trial import MAX_CALLS, Trial
from taskhub.domain.rules.written import of_tool
from taskhub.lib.signs import visible_json

MAX_NUMBER: Final = 2**31 - 1
"""No version has a higher number."""
REST: Final = "Everything else"
"""The name that the form suggests for a rule about all calls that no other rule decides."""
SHOWN_RULES: Final = 50
"""Rules on a page of the list."""
SHOWN_TEXT: Final = 60_000
"""The most characters of expressions on a page of the list. If there are more, long expressions are shown on pages of
their own."""
SHOWN_CHANGES: Final = 20
"""For how many changed rules a version's page shows the changes."""
FIELD_WORDS: Final = {
    "when": "When",
    "then": "What it does",
    "words": "Words for the agent",
    "group": "Group",
    "quorum": "Approvals needed",
    "not_requester": "Not by the requester",
    "risk": "Risk",
    "second_factor": "With a second factor",
    "sentence": "What will happen",
    "preview": "Preview",
    "editable": "Arguments that may be edited",
    "expires_minutes": "Minutes to decide",
    "remind_minutes": "Remind after minutes",
    "otherwise": "If nobody decides in time",
    "escalate_to": "Group that is asked then",
    "enabled": "On",
    "shadow": "On trial",
}
"""A rule's fields, as the form calls them."""
SHOWN_PROPOSALS: Final = 3
"""How many proposals the page of the list shows; the page of a rule shows all proposals about that rule."""
SHOWN_TRIES: Final = 50
"""How many calls a trial lists, of those whose verdict the list would change."""


@page("server.view")
@require_safe
def rule_list(request: ConsoleRequest) -> HttpResponse:
    """The rules in their order."""
    return _list(request)


@page("server.manage")
@require_http_methods(["GET", "HEAD", "POST"])
def rule_add(request: ConsoleRequest) -> HttpResponse:
    """Add a rule."""
    return _edited(request, "")


@page("server.manage")
@require_http_methods(["GET", "HEAD", "POST"])
def rule_edit(request: ConsoleRequest) -> HttpResponse:
    """Change the rule that the parameter `rule` names."""
    return _edited(request, request.GET.get("rule", ""))


@page("server.manage")
@require_POST
def rule_check(request: ConsoleRequest) -> HttpResponse:
    """What is wrong with the expression in the form, or doubtful. Nothing is saved."""
    form = rule_form(request, request.POST)
    context: dict[str, Any] = {"given": form["when"].value(), "beside": True}
    if form.is_valid():
        try:
            check_expressions([form.rule()])
        except Invalid as error:
            context["wrong"] = error.message
        else:
            context |= _form_doubts(request, form)
    return render(request, "parts/rule_checked.html", context)


@page("server.manage")
@require_POST
def rule_change(request: ConsoleRequest) -> HttpResponse:
    """Move a rule, switch it on or off, or remove it: the button's name says which, and its value names the rule."""
    form = ChangeForm(request.POST)
    form.is_valid()
    verb = next((verb for verb in CHANGES if verb in request.POST), "")
    if not verb:
        raise Invalid("Choose one of the buttons beside a rule.")
    name = request.POST[verb]
    listed = control.rules(request.caller)
    wanted: Sequence[Rule] = ()
    if form.version == listed.version:
        if name not in [rule.name for rule in listed.rules]:
            raise NotFound(f"There is no rule {name[:100]}.")
        wanted = CHANGES[verb](list(listed.rules), [rule.name for rule in listed.rules].index(name))
    try:
        saved = control.save_rules(request.caller, wanted, expected=form.version, reason=form.cleaned_data["reason"])
    except Invalid as error:
        form.refuse(error)
        return _list(request, form, status=400)
    except Refused as error:
        form.add_error(None, f"{error.message} The list below is the one in force.")
        form.show_version(control.rules(request.caller).version)
        return _list(request, form, status=409)
    said = {"up": "moved up", "down": "moved down", "on": "switched on", "off": "switched off", "remove": "removed"}
    undo = f" Version {listed.version} has it: bring that version back to undo this." if verb == "remove" else ""
    messages.success(request, f"“{name}” {said[verb]}: version {saved.version} is in force.{undo}")
    begin = _begin(request, len(saved.rules))
    return redirect(f"{resolve_url('rule-list')}?from={begin + 1}" if begin else "rule-list")


@page("server.view")
@require_safe
def rule_versions(request: ConsoleRequest) -> HttpResponse:
    """The versions of the list, newest first."""
    before = min(query.number(request, "before") or MAX_NUMBER, MAX_NUMBER)
    found = control.rule_versions(request.caller, before=before)
    return render(
        request,
        "console/rule_versions.html",
        {
            "versions": found,
            "present": control.rules(request.caller).version,
            "newest": before == MAX_NUMBER,
            "older": found[-1].number if len(found) == PAGE_ROWS and found[-1].number > 1 else None,
        },
    )


@page("server.view")
@require_safe
def rule_version(request: ConsoleRequest, number: int) -> HttpResponse:
    """One version of the list, and its differences from the version before; with the parameter `rule`, only that
    rule."""
    return _version(request, number)


@page("server.manage")
@require_POST
def rule_restore(request: ConsoleRequest, number: int) -> HttpResponse:
    """Save an earlier version as a new one."""
    form = ChangeForm(request.POST)
    form.is_valid()
    earlier = control.rule_version(request.caller, number)
    reason = form.cleaned_data["reason"] or f"Version {number} brought back"
    try:
        saved = control.save_rules(request.caller, earlier.rules, expected=form.version, reason=reason)
    except Invalid as error:
        form.refuse(error)
        return _version(request, number, form, status=400)
    except Refused as error:
        form.add_error(None, f"{error.message} Look at it first, then bring this version back.")
        form.show_version(control.rules(request.caller).version)
        return _version(request, number, form, status=409)
    messages.success(request, f"Version {number} is in force again, as version {saved.version}.")
    return redirect("rule-list")


def _swapped(rules: list[Rule], at: int, by: int) -> list[Rule]:
    other = at + by
    if 0 <= other < len(rules):
        rules[at], rules[other] = rules[other], rules[at]
    return rules


def _switched(rules: list[Rule], at: int, *, on: bool) -> list[Rule]:
    rules[at] = replace(rules[at], enabled=on)
    return rules


CHANGES: Final[dict[str, Callable[[list[Rule], int], list[Rule]]]] = {
    "up": lambda rules, at: _swapped(rules, at, -1),
    "down": lambda rules, at: _swapped(rules, at, 1),
    "on": lambda rules, at: _switched(rules, at, on=True),
    "off": lambda rules, at: _switched(rules, at, on=False),
    "remove": lambda rules, at: rules[:at] + rules[at + 1 :],
}
"""For each button of the list: a function that takes the list and the index of a rule, and returns the changed list."""


def _list(request: ConsoleRequest, form: ChangeForm | None = None, *, status: int = 200) -> HttpResponse:
    listed = control.rules(request.caller)
    begin = _begin(request, len(listed.rules))
    can_manage = request.caller.may("server.manage")
    return render(
        request,
        "console/rules.html",
        {
            "listed": listed,
            "rules": _with_doubts(request, listed.rules, begin),
            "whole_at": _whole_at(listed.rules[begin : begin + SHOWN_RULES], listed.version),
            "begin": begin,
            "earlier": max(begin - SHOWN_RULES, 0) + 1 if begin else None,
            "later": begin + SHOWN_RULES + 1 if begin + SHOWN_RULES < len(listed.rules) else None,
            "rest": next((rule for rule in listed.rules if rule.enabled and not (rule.shadow or rule.when)), None),
            "form": form or ChangeForm(initial={"expected": listed.version}),
            "can_manage": can_manage,
            "proposed": shown_proposals(request)[:SHOWN_PROPOSALS] if can_manage else [],
            **_tried(control.try_rules(request.caller, listed.rules) if can_manage and "try" in request.GET else None),
        },
        status=status,
    )


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposal as pages show it. `query` has the parameters of its address. `values` are the arguments that the
    proposal compares, each with the values that it allows, as text."""

    proposal: Proposal
    query: str
    values: list[tuple[str, str]]


def shown_proposals(request: ConsoleRequest, asking: str = "") -> list[Proposed]:
    """The proposals of rules that would let calls run. With `asking`, only those about calls that this rule asks
    about."""
    found = [one for one in control.proposals(request.caller) if not asking or one.asking == asking]
    return [
        Proposed(
            one,
            urlencode({"rule": one.asking, "client": one.context_id, "tool": one.tool_id}),
            [(name, " or ".join(map(_plain, values))) for name, values in one.values],
        )
        for one in found
    ]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else visible_json(value)


def _begin(request: ConsoleRequest, rules: int) -> int:
    """The index (from 0) of the first rule on the page of the list that has the rule at the position `from` (counted
    from 1)."""
    place = min(max(query.number(request, "from") or 1, 1), max(rules, 1))
    return (place - 1) // SHOWN_RULES * SHOWN_RULES


def _with_doubts(request: ConsoleRequest, rules: Sequence[Rule], begin: int) -> list[dict[str, Any]]:
    """The rules of a page with their positions, and the warnings about the people whom each asks; none for a rule that
    is off."""
    shown = rules[begin : begin + SHOWN_RULES]
    found = control.approver_warnings(request.caller, [rule for rule in shown if rule.enabled])
    doubts = ([few.words for few in found if few.rule is rule] for rule in shown)
    return [
        {"place": place, "rule": rule, "doubts": about, "first": place == 1, "last": place == len(rules)}
        for place, rule, about in zip(count(begin + 1), shown, doubts, strict=False)
    ]


def _whole_at(rules: Sequence[Rule], version: int) -> int | None:
    """`version` if the expressions of these rules are too long for one page: pages of that version show them one by
    one. `None` if one page has room for them."""
    return version if sum(len(rule.when) for rule in rules) > SHOWN_TEXT else None


def rule_form(request: ConsoleRequest, data: Any = None, **options: Any) -> RuleForm:
    """The form of a rule, which offers the tools that there are."""
    form = RuleForm(data, **options)
    form.offer_tools(catalogue(request.person.tenant_id).tools)
    return form


def _edited(request: ConsoleRequest, name: str) -> HttpResponse:
    listed = control.rules(request.caller)
    names = [rule.name for rule in listed.rules]
    if request.method != "POST":
        if name and name not in names:
            raise NotFound(f"There is no rule {name[:100]}.")
        place = names.index(name) if name else len(names)
        initial: dict[str, Any] = (
            of_rule(listed.rules[place], place) if name else {"place": place + 1, "when": _of_tool(request)}
        )
        if not name and "rest" in request.GET and REST not in names:
            initial["name"] = REST
        form = rule_form(request, initial={**initial, "expected": listed.version})
        return rule_page(request, form, listed, name)
    form = rule_form(request, request.POST)
    if "build" in request.POST:
        return _built(request, form, listed, name)
    if "fill" in request.POST:
        return _filled(request, form, listed, name)
    if not form.is_valid():
        return rule_page(request, form, listed, name, status=400)
    if form.version != listed.version:
        return _outdated(request, form, name)
    if name and name not in names:
        raise NotFound(f"There is no rule {name[:100]}.")
    place = len(names)
    try:
        wanted, place = placed(listed.rules, form.rule(), form.cleaned_data["place"], instead_of=name)
        if "try" in request.POST:
            return rule_page(request, form, listed, name, trial=control.try_rules(request.caller, wanted))
        if "call" in request.POST:
            calls = call_form(request, request.POST)
            tried = called(request, calls, wanted)
            return rule_page(request, form, listed, name, calls={"calls": calls, **tried}, status=200 if tried else 400)
        saved = control.save_rules(request.caller, wanted, expected=form.version, reason=form.cleaned_data["reason"])
    except Invalid as error:
        form.refuse_of(error, place)
        return rule_page(request, form, listed, name, status=400)
    except Refused:
        return _outdated(request, form, name)
    said = f"“{wanted[place].name}” saved: version {saved.version} is in force."
    messages.success(request, said if saved.version != listed.version else "Nothing was changed.")
    for warned in control.rule_warnings(request.caller, [wanted[place]]):
        messages.warning(request, warned.words)
    return redirect("rule-list")


def _of_tool(request: ConsoleRequest) -> str:
    """The condition that a call is of the tool that the parameter `tool` names by its id; empty if there is none."""
    number = query.number(request, "tool")
    tool = next((tool for tool in catalogue(request.person.tenant_id).tools if tool.id == number), None)
    return "" if tool is None else of_tool(tool.server_name, tool.name)


def _doubts(request: ConsoleRequest, rule: Rule) -> dict[str, list[str]]:
    """The template context of the warnings about the rule: those about its expression, and those about who is asked and
    what they read."""
    found: dict[str, list[str]] = {"warnings": [], "asked_warnings": []}
    for warned in control.rule_warnings(request.caller, [rule]):
        found["warnings" if isinstance(warned, Lack | Telling) else "asked_warnings"].append(warned.words)
    return found


def _form_doubts(request: ConsoleRequest, form: RuleForm) -> dict[str, list[str]]:
    """As `_doubts`, for the rule in the form; empty while something is wrong with the form."""
    try:
        return _doubts(request, form.shown())
    except Invalid:
        return {}


def _outdated(request: ConsoleRequest, form: RuleForm, name: str) -> HttpResponse:
    """The form as it was typed, to be sent again for the list that is in force."""
    listed = control.rules(request.caller)
    form.show_version(listed.version)
    kept = not name or name in [rule.name for rule in listed.rules]
    return rule_page(request, form, listed, name if kept else "", outdated=True, gone="" if kept else name, status=409)


def _built(request: ConsoleRequest, form: RuleForm, listed: RuleList, name: str) -> HttpResponse:
    """The form, with the builder's condition added to its expression. Nothing is saved."""
    form.is_valid()
    # Other errors of the form are shown when it is saved.
    form.errors.clear()
    try:
        form.show_built(form.built())
    except Invalid as error:
        form.refuse(error)
    return rule_page(request, form, listed, name, status=422 if form.errors else 200)


def _filled(request: ConsoleRequest, form: RuleForm, listed: RuleList, name: str) -> HttpResponse:
    """The form with arguments for the call that is tried. Nothing is saved."""
    calls = call_form(request, request.POST)
    context = {"calls": calls, **fill(request, calls)}
    form.is_valid()
    form.errors.clear()
    return rule_page(request, form, listed, name, calls=context, status=422 if calls.errors else 200)


def rule_page(
    request: ConsoleRequest,
    form: RuleForm,
    listed: RuleList,
    name: str,
    *,
    outdated: bool = False,
    gone: str = "",
    trial: Trial | None = None,
    calls: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    """The page of a rule's form; `name` is the rule's, empty for a new one."""
    context = {
        **_tried(trial),
        **(calls or {"calls": call_form(request, request.POST or None)}),
        "form": form,
        "listed": listed,
        "name": name,
        "here": f"{resolve_url('rule-edit')}?{urlencode({'rule': name})}" if name else resolve_url("rule-add"),
        "outdated": outdated,
        "gone": gone,
        "proposed": shown_proposals(request, name) if name and request.method != "POST" else [],
        "groups": known_groups(request.person.tenant_id),
        "members": [(variable, sorted(parts)) for variable, parts in MEMBERS.items()],
        **_form_doubts(request, form),
        "functions": sorted(FUNCTIONS),
        "methods": sorted(METHODS),
    }
    template = "console/rule.html"
    if wants_partial(request) and "build" in request.POST:
        template = f"{template}#expression"
    elif wants_partial(request) and "fill" in request.POST:
        template = "parts/rule_call.html#call"
    return render(request, template, context, status=status)


def _tried(trial: Trial | None) -> dict[str, Any]:
    """The template context of a trial: how many calls each list hides, denies, asks about and allows."""
    if trial is None:
        return {}
    counts = [(then, trial.before.get(then, 0), trial.after.get(then, 0)) for then in (*Then, None)]
    return {
        "trial": trial,
        "in_force": trial.in_force,
        "counts": counts,
        "shown_tries": trial.different[:SHOWN_TRIES],
        "on_trial": list(trial.on_trial.items()),
        "most_tried": MAX_CALLS,
    }


def _changed(before: Sequence[Rule], after: Sequence[Rule], names: Sequence[str]) -> list[tuple[str, list[Any]]]:
    """For each of these rules, the fields that differ: the form's name of the field, and its value before and after."""
    old, new = {rule.name: rule for rule in before}, {rule.name: rule for rule in after}
    return [
        (
            name,
            [
                (FIELD_WORDS[part], _value(getattr(old[name], part)), _value(getattr(new[name], part)))
                for part in fields_changed(old[name], new[name])
            ],
        )
        for name in names[:SHOWN_CHANGES]
    ]


def _value(value: object) -> str:
    if isinstance(value, Preview):
        return visible_json(value.to_json())
    if isinstance(value, tuple):
        return ", ".join(value)
    return ("yes" if value else "no") if isinstance(value, bool) else str("" if value is None else value)


def _version(
    request: ConsoleRequest, number: int, form: ChangeForm | None = None, *, status: int = 200
) -> HttpResponse:
    shown = control.rule_version(request.caller, number)
    before: tuple[Rule, ...] = control.rule_version(request.caller, number - 1).rules if number > 1 else ()
    listed = control.rules(request.caller)
    found = difference(before, shown.rules)
    rows = list(enumerate(shown.rules, 1))
    if only := request.GET.get("rule", ""):
        rows = [(place, rule) for place, rule in rows if rule.name == only]
        if not rows:
            raise NotFound(f"Version {number} has no rule {only[:100]}.")
    begin = _begin(request, len(rows))
    return render(
        request,
        "console/rule_version.html",
        {
            "shown": shown,
            "rows": rows[begin : begin + SHOWN_RULES],
            "only": only,
            "whole_at": None if only else _whole_at(shown.rules[begin : begin + SHOWN_RULES], number),
            "earlier": max(begin - SHOWN_RULES, 0) + 1 if begin else None,
            "later": begin + SHOWN_RULES + 1 if begin + SHOWN_RULES < len(rows) else None,
            "changes": [
                (kind, names)
                for kind, names in (
                    ("added", found.added),
                    ("removed", found.removed),
                    ("changed", found.changed),
                    ("moved", found.moved),
                )
                if names
            ],
            "changed": _changed(before, shown.rules, found.changed),
            "unshown": len(found.changed[SHOWN_CHANGES:]),
            "present": listed.version,
            "form": form or ChangeForm(initial={"expected": listed.version}),
            "can_manage": request.caller.may("server.manage") and listed.rules != shown.rules,
        },
        status=status,
    )
