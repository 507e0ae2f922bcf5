"""Trying rules on a call that is typed in: on a page of its own, and in the form of a rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpResponse, QueryDict
from django.shortcuts import render, resolve_url
from django.views.decorators.http import require_http_methods

from taskhub.console import query
from taskhub.console.access import page
from taskhub.console.forms.rule_calls import CallForm
from taskhub.console.htmx import wants_partial
from taskhub.console.requests import ConsoleRequest
from taskhub.console.verdict_words import called_words
from taskhub.control import rules as control
from taskhub.core.errors import Invalid, NotFound
from taskhub.core.rules import Rule
from taskhub.domain.catalogue.view import catalogue
from taskhub.domain.clients import verdicts

MOST_CLIENTS: Final = 200
"""The most clients to choose from, by name. To try any other client, follow the link on its page."""


@page("server.manage")
@require_http_methods(["GET", "HEAD", "POST"])
def rule_call(request: ConsoleRequest) -> HttpResponse:
    """Try the list in force on a call. The parameters `client` and `tool` choose them."""
    context: dict[str, Any] = {"here": resolve_url("rule-call")}
    if request.method == "POST":
        form = call_form(request, request.POST)
        if "fill" in request.POST:
            context |= fill(request, form)
        else:
            context |= called(request, form)
    else:
        chosen = {f"call_{name}": query.number(request, name) for name in ("client", "tool")}
        data = QueryDict(mutable=True)
        data.update({name: str(number) for name, number in chosen.items() if number})
        form = call_form(request, data if data else None)
        if chosen["call_tool"]:
            context |= fill(request, form)
    context |= {"calls": form, "listed": control.rules(request.caller)}
    part = "parts/rule_call.html#call" if wants_partial(request) else "console/rule_call.html"
    return render(request, part, context, status=422 if form.errors else 200)


def call_form(request: ConsoleRequest, data: Any = None) -> CallForm:
    """The form of a call, with the clients and tools of the tenant to choose from."""
    tenant_id = request.person.tenant_id
    form = CallForm(data)
    clients, _ = verdicts.callers(tenant_id, most=MOST_CLIENTS)
    try:
        chosen = form.client_id()
        if chosen not in [row.id for row in clients]:
            clients = (*clients, verdicts.caller(tenant_id, chosen))
    except (Invalid, NotFound):
        pass  # the person is told when they try the call
    form.offer(clients, catalogue(tenant_id).tools)
    return form


def fill(request: ConsoleRequest, form: CallForm) -> dict[str, Any]:
    """Put arguments for the chosen tool into the form. If the form was sent only to choose another tool, typed
    arguments are kept. Returns the template context that says where the arguments come from."""
    form.is_valid()
    if request.POST.get("fill") == "tool" and form.is_typed:
        return {}
    try:
        client = 0 if not form["call_client"].value() else form.client_id()
        found = control.sample_call(request.caller, client, form.tool_id())
    except (Invalid, NotFound) as error:
        form.refuse(error)
        return {}
    form.show(found.arguments, found.program)
    return {"sample": found}


def called(request: ConsoleRequest, form: CallForm, rules: Sequence[Rule] | None = None) -> dict[str, Any]:
    """The template context that says what would happen to the call, by the list in force and by `rules`. Empty if
    something is wrong with the form, which then has the error. Raises `Invalid` for a list that cannot be saved."""
    form.is_valid()
    try:
        given = form.client_id(), form.tool_id(), form.arguments()
        program, at = form.program(), form.at()
    except Invalid as error:
        form.refuse(error)
        return {}
    try:
        found = control.try_call(request.caller, *given, program=program, now=at, rules=rules)
    except NotFound as error:
        form.refuse(error)
        return {}
    lists = [("By the list in force", found.before)]
    if found.after is not None:
        lists.append(("By this list", found.after))
    elif rules is not None:
        lists = [("By this list, which is the one in force", found.before)]
    return {"call": found, "lists": [(title, one, called_words(one)) for title, one in lists]}
