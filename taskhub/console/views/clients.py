"""Pages about clients: their tokens, what they declare, and how to connect them."""

from __future__ import annotations

import secrets
from typing import Final

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from taskhub.console import query
from taskhub.console.access import page
from taskhub.console.forms.access import LeaveTasksForm, TokenForm, WaitingForm
from taskhub.console.forms.filters import ClientFilters
from taskhub.console.htmx import partial_or_page
from taskhub.console.requests import ConsoleRequest
from taskhub.console.words import described, waiting
from taskhub.control import clients as control
from taskhub.control import rules
from taskhub.core.errors import Invalid, LimitReached
from taskhub.domain.clients import reads as clients
from taskhub.domain.clients.dialects import client_dialects
from taskhub.domain.clients.patience import settings_and_learned
from taskhub.domain.clients.programs import SAMPLE_TOKEN, Program, grouped
from taskhub.domain.oauth import reads as applications

SHOWN_TOOLS: Final = 10
"""How many tools a client's page shows; another page has all of them."""
_SPENT: Final = "spent_token_forms"


@page("client.view")
@require_safe
def client_list(request: ConsoleRequest) -> HttpResponse:
    """Every client of the tenant, with what it declares; the parameters `q` and `state` filter the list."""
    return _list(request, _fresh())


@page("client.view")
@require_safe
def client_detail(request: ConsoleRequest, pk: int) -> HttpResponse:
    """One client and its tokens. The parameters `revoke` and `toggle` open a confirmation, `waiting` a form."""
    return _detail(request, pk)


@page("client.manage")
@require_POST
@sensitive_variables("issued")
def token_issue(request: ConsoleRequest) -> HttpResponse:
    """Issue a token and show it, only in this response.

    A form that is sent again, as by reloading the page, issues no second token.
    """
    form = TokenForm(request.POST, known=bool(request.POST.get("context")))
    valid = form.is_valid()
    pk, once = form.cleaned_data.get("context"), form.cleaned_data.get("once", "")
    spent: list[str] = request.session.get(_SPENT, [])
    if once and once in spent:
        messages.warning(request, "That token was issued already and is not shown again. Issue another if it was lost.")
        return redirect("client-detail", pk) if pk else redirect("client-list")
    known = None if pk is None else control.find_client(request.caller, pk)
    name = form.cleaned_data.get("client", "") if known is None else known.subject
    if not valid:
        return _detail(request, pk, token_form=form) if pk else _list(request, form)
    try:
        if not query.storable(name):
            raise Invalid("A client's name cannot hold such characters.", field="client")
        issued = control.issue_token(
            request.caller, known or name, scopes=form.cleaned_data["scopes"], days=form.cleaned_data["days"]
        )
    except (Invalid, LimitReached) as error:
        form.refuse(error)
        return _detail(request, pk, token_form=form) if pk else _list(request, form)
    request.session[_SPENT] = [*spent, once][-20:]
    return render(
        request,
        "console/token_issued.html",
        {
            "token": issued.text,
            "row": issued,
            "client": name,
            "context_id": issued.context_id,
            "endpoint": _endpoint(request),
            "connecting": _connecting(_endpoint(request), issued.text),
        },
    )


@page("client.manage")
@require_safe
def client_connect(request: ConsoleRequest) -> HttpResponse:
    """The text to paste into each program, with a placeholder for the token, because a token is shown only when it is
    issued.

    With the parameter `client`, the page also says where the tokens of that client come from.
    """
    pk = query.number(request, "client")
    return render(
        request,
        "console/connect.html",
        {
            "client": None if pk is None else control.find_client(request.caller, pk),
            "endpoint": _endpoint(request),
            "word": SAMPLE_TOKEN,
            "connecting": _connecting(_endpoint(request), SAMPLE_TOKEN),
        },
    )


@page("client.manage")
@require_POST
def token_revoke(request: ConsoleRequest, pk: int, token: int) -> HttpResponse:
    """Revoke a token; with `tasks=cancel` the client's running tasks are asked to stop too."""
    client = control.find_client(request.caller, pk)
    stopping = LeaveTasksForm(request.POST).stops
    stopped = control.revoke_token(request.caller, client, token, cancel_tasks=stopping)
    said = "The token is revoked. Whoever holds it is refused from now on."
    messages.success(request, said + _stopped(stopped, told=stopping))
    return redirect("client-detail", pk)


@page("client.manage")
@require_POST
def client_toggle(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Lock a client out, so that all its tokens are refused, or unlock it."""
    client = control.find_client(request.caller, pk)
    stopping = LeaveTasksForm(request.POST).stops
    if request.POST.get("disabled") == "1":
        stopped = control.lock_client(request.caller, client, cancel_tasks=stopping)
        said = f"{client.name} is locked out; all its tokens are refused."
        messages.success(request, said + _stopped(stopped, told=stopping))
    else:
        control.unlock_client(request.caller, client)
        messages.success(request, f"{client.name} may call again.")
    return redirect("client-detail", pk)


@page("client.manage")
@require_POST
def client_waiting(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Set how long the client's plain calls wait, and whether its tool list has the hub's own tools."""
    client = control.find_client(request.caller, pk)
    form = WaitingForm(request.POST)
    if not form.is_valid():
        return _detail(request, pk, waiting_form=form)
    typed = form.cleaned_data
    try:
        control.set_caller_settings(
            request.caller, client, patience_seconds=typed["patience"], hub_tools=typed["hub_tools"]
        )
    except Invalid as error:
        form.refuse(error)
        return _detail(request, pk, waiting_form=form)
    messages.success(request, "Saved. It applies from its next call.")
    return redirect("client-detail", pk)


def _list(request: ConsoleRequest, form: TokenForm) -> HttpResponse:
    text, state = query.text(request, "q"), query.choice(request, "state", ("active", "disabled"))
    found = clients.client_page(request.person.tenant_id, text=text, state=state, after=query.number(request, "after"))
    return partial_or_page(
        request,
        "console/clients.html",
        "list",
        {
            "page": found,
            "q": text,
            "state": state,
            "after": query.number(request, "after"),
            "first": query.url(q=text, state=state),
            "next": found.after and query.url(q=text, state=state, after=found.after),
            "here": query.url(q=text, state=state, after=query.number(request, "after")),
            "form": form,
            "filters": ClientFilters({"q": text, "state": state}),
            "open": bool(form.errors) or "new" in request.GET,
            "can_manage": request.caller.may("client.manage"),
        },
        status=400 if form.errors else 200,
    )


def _detail(
    request: ConsoleRequest, pk: int, *, token_form: TokenForm | None = None, waiting_form: WaitingForm | None = None
) -> HttpResponse:
    """The client's page; `token_form` or `waiting_form` is a posted form with errors."""
    client = control.find_client(request.caller, pk)
    rows = clients.client_tokens(request.person.tenant_id, pk)
    can_manage = request.caller.may("client.manage")
    application = (
        applications.application_of_client(request.person.tenant_id, client.client_id) if client.by_oauth else None
    )
    allowed = applications.consent_rows(request.person.tenant_id, application.id, context_id=pk) if application else ()
    revoking = query.number(request, "revoke") if can_manage else None
    dialects = client_dialects(request.person.tenant_id, pk)
    calls, learned = settings_and_learned(pk)
    return partial_or_page(
        request,
        "console/client.html",
        "client",
        {
            "client": client,
            "tokens": rows,
            "dialects": [described(dialect) for dialect in dialects],
            "waiting": waiting(dialects, calls, learned),
            "waiting_form": waiting_form or WaitingForm(now=calls),
            "reached": rules.tools_of_client(request.caller, pk, most=SHOWN_TOOLS),
            "can_edit_rules": request.caller.may("server.manage"),
            "setting_waiting": can_manage and (waiting_form is not None or "waiting" in request.GET),
            "application": application,
            "allowed": allowed[0] if allowed else None,
            "revoking": next((row for row in rows if row.id == revoking and row.state != "revoked"), None),
            "toggling": can_manage and "toggle" in request.GET,
            "leave": LeaveTasksForm(live=client.live_text) if client.live_tasks else None,
            "form": token_form or _fresh(pk),
            "open": token_form is not None,
            "can_manage": can_manage,
            "can_audit": request.caller.may("audit.view"),
        },
        status=200 if token_form is None and waiting_form is None else 400,
    )


def _stopped(number: int, *, told: bool) -> str:
    """The end of a message about a client: how many of its tasks were asked to stop."""
    return f" {number:,} of its tasks were asked to stop." if told else ""


def _fresh(pk: int | None = None) -> TokenForm:
    """An empty form for one token: of the client `pk`, or of one whose name is to be typed."""
    return TokenForm(known=pk is not None, initial={"context": pk, "once": secrets.token_urlsafe(12)})


def _endpoint(request: HttpRequest) -> str:
    return (settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")) + "/mcp"


def _connecting(endpoint: str, token: str) -> list[tuple[str, list[tuple[Program, str]]]]:
    """For each group of programs its title, and its programs with their snippets."""
    return [(title, [(program, program.filled(endpoint, token)) for program in group]) for title, group in grouped()]
