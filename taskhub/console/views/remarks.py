"""Comments on a question, and its handover to others."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_http_methods, require_POST

from taskhub.console.access import page
from taskhub.console.forms.questions import CommentForm, HandOverForm
from taskhub.console.htmx import leave
from taskhub.console.queues import queue_of
from taskhub.console.requests import ConsoleRequest
from taskhub.console.views.inbox import card, next_in
from taskhub.control import questions, remarks
from taskhub.core.errors import Invalid, LimitReached


@require_POST
@page("question.answer")
def comment(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Add a comment to the question."""
    item = questions.find_question(request.caller, pk)
    form = CommentForm(request.POST, auto_id="id_comment_%s")
    if not form.is_valid():
        return card(request, pk, status=422, comment=form)
    try:
        remarks.comment(request.caller, item, form.cleaned_data["text"])
    except (Invalid, LimitReached) as error:
        form.add_error("text", error.message)
        return card(request, pk, status=422, comment=form)
    return leave(request, queue_of(request).address(pk))


@require_http_methods(["GET", "HEAD", "POST"])
@page("question.answer")
def hand_over(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Hand the question over to another person, or to a group."""
    item = questions.find_question(request.caller, pk)
    able = remarks.deciders(request.caller, item)
    people, groups = [one.name for one in able], remarks.groups_of(item, able)
    if request.method != "POST":
        return card(request, pk, handing=HandOverForm(people=people, groups=groups))
    form = HandOverForm(request.POST, people=people, groups=groups)
    if not form.is_valid():
        return card(request, pk, status=422, handing=form)
    try:
        remarks.hand_over(request.caller, item, note=form.cleaned_data["text"], **form.chosen)
    except (Invalid, LimitReached) as error:
        field = str(error.data.get("field", ""))
        form.add_error(field if field in form.fields else None, error.message)
        return card(request, pk, status=422, handing=form)
    call = f"{item.tool_name} ({item.called})" if item.called else item.tool_name
    to = dict(form.fields["to"].choices)[form.cleaned_data["to"]]  # type: ignore[attr-defined]  # a field with choices
    messages.success(request, f"{call} for {item.client}: Handed over to {to}.", extra_tags=item.public_id)
    queue = queue_of(request)
    return leave(request, queue.address(next_in(request, item, queue)))
