"""Pages of OAuth towards servers: the settings of a server, sending a person to the authorization server, and the way
back."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from taskhub.console.access import page
from taskhub.console.forms.credentials import ServerOAuthForm
from taskhub.console.requests import ConsoleRequest
from taskhub.console.views.servers import detail, id_of
from taskhub.control import credentials, questions
from taskhub.core.errors import Invalid
from taskhub.domain.address import base_url
from taskhub.domain.credentials.flow import Sending
from taskhub.domain.credentials.records import NotAuthorized
from taskhub.domain.people.browser_sessions import row_key

ANSWER: Final = ("code", "state", "iss", "error", "error_description")
"""The parameters of an authorization server's answer."""
MAX_PARAMETER: Final = 4_096


@page("server.manage")
@require_POST
def server_oauth(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Set how the hub is authorized at the server."""
    form = ServerOAuthForm(request.POST)
    form.is_valid()
    try:
        dropped = credentials.set_oauth(request.caller, id_of(pk), form.wanted())
    except Invalid as error:
        form.refuse(error)
        return detail(request, pk, oauth_form=form, status=400)
    messages.success(request, f"Saved. {credentials.end_dropped(dropped)}".strip())
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def server_register(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Have the hub register itself anew at the authorization server."""
    if credentials.register_anew(request.caller, id_of(pk)):
        messages.success(request, "TaskHub registers itself anew when somebody authorizes the server next.")
    else:
        messages.info(request, "There is no registration: TaskHub registers itself at the next authorization.")
    return redirect("server-detail", pk)


@page("server.view")
@require_POST
def server_authorize(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Begin to authorize the server: for everyone, or for the programs of the person."""
    begin = (
        credentials.authorize_for_all if request.POST.get("for") == "everyone" else credentials.authorize_for_oneself
    )
    sending = begin(request.caller, id_of(pk), session_key=_session(request), base=base_url(request))
    return _page(request, sending)


@page("question.answer")
@require_POST
def question_authorize(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Begin to authorize the server of a waiting call, for whomever the call is made."""
    item = questions.find_question(request.caller, pk)
    sending = credentials.authorize_for_call(
        request.caller, item, session_key=_session(request), base=base_url(request)
    )
    return _page(request, sending)


@page("server.view")
@require_safe
def oauth_callback(request: ConsoleRequest) -> HttpResponse:
    """The page to which an authorization server sends the person back."""
    answer = {name: request.GET[name][:MAX_PARAMETER] for name in ANSWER if name in request.GET}
    try:
        came = credentials.finish_authorization(request.caller, session_key=_session(request), answer=answer)
    except NotAuthorized as error:
        said = {"status": 400, "title": "Not authorized", "message": error.message, "back": error.back}
        return render(request, "error.html", said, status=400)
    goes_on = f" Calls that waited for it and go on: {came.calls}." if came.calls else ""
    messages.success(request, f"{came.server} is authorized.{goes_on}")
    return redirect(came.back)


@page("server.view")
@require_POST
def grant_revoke(request: ConsoleRequest, pk: int, grant: int) -> HttpResponse:
    """Revoke a grant."""
    confirmed = credentials.revoke_grant(request.caller, id_of(pk), id_of(grant))
    said = "The authorization is revoked."
    if not confirmed:
        said = (
            "The authorization is revoked here, and its tokens erased. The authorization server did not confirm that"
            " they are revoked there too: do that at the account there."
        )
    (messages.success if confirmed else messages.warning)(request, said)
    return redirect("server-detail", pk)


def _page(request: ConsoleRequest, sending: Sending) -> HttpResponse:
    """The page with the link to the authorization server, so that the person sees first where it leads. A redirect is
    not possible: the content security policy allows forms to lead only to the hub."""
    shown = {"sending": sending, "can_manage": request.caller.may("server.manage")}
    return render(request, "console/authorize.html", shown)


def _session(request: ConsoleRequest) -> str:
    """The key of the browser session's row."""
    return row_key(request.session.session_key or "")
