"""An approver asks the requester of a call, or takes that question back."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_POST

from taskhub.console.access import page
from taskhub.console.forms.questions import AskBackForm
from taskhub.console.htmx import leave
from taskhub.console.queues import queue_of
from taskhub.console.requests import ConsoleRequest
from taskhub.console.views.inbox import card
from taskhub.control import asked_back, questions
from taskhub.core.errors import Invalid, LimitReached
from taskhub.domain.questions.asked_back import WithdrawOutcome


@require_POST
@page("question.approve")
def ask(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Ask the requester of the call; the approval stays open."""
    item = questions.find_question(request.caller, pk)
    form = AskBackForm(request.POST, auto_id="id_ask_%s")
    if not form.is_valid():
        return card(request, pk, status=422, ask_form=form)
    try:
        asked_back.ask(request.caller, item, form.cleaned_data["text"])
    except (Invalid, LimitReached) as error:
        form.add_error("text", error.message)
        return card(request, pk, status=422, ask_form=form)
    return leave(request, queue_of(request).address(pk))


@require_POST
@page("question.approve")
def withdraw(request: ConsoleRequest, pk: int, asked: int) -> HttpResponse:
    """Take back a question that the person asked the requester."""
    item = questions.find_question(request.caller, pk)
    if asked_back.withdraw(request.caller, item, asked) is not WithdrawOutcome.WITHDRAWN:
        messages.info(request, "That question was closed before you took it back.", extra_tags=item.public_id)
    return leave(request, queue_of(request).address(pk))
