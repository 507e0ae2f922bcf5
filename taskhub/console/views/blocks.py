"""Rejects a call, and blocks its tool for its client for an hour."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from taskhub.console.access import page
from taskhub.console.cards import closed_words
from taskhub.console.forms.questions import BlockForm
from taskhub.console.htmx import leave
from taskhub.console.queues import queue_of
from taskhub.console.requests import ConsoleRequest
from taskhub.console.views.inbox import next_in
from taskhub.control import questions
from taskhub.control.blocks import Blocked, block_tool
from taskhub.core.errors import Invalid, Refused


@require_http_methods(["GET", "HEAD", "POST"])
@page("server.manage")
def block(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Show what blocking the tool would change (GET), then reject the call and block the tool (POST)."""
    item = questions.find_question(request.caller, pk)
    queue = queue_of(request)
    form = BlockForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            blocked = block_tool(request.caller, item, reason=form.cleaned_data["reason"])
        except (Invalid, Refused) as error:
            form.add_error("reason" if error.data.get("field") == "reason" else None, error.message)
        else:
            after = questions.find_question(request.caller, pk)
            words = "Rejected" if blocked.rejected else closed_words(after) or "You have already decided this"
            messages.success(
                request,
                f"{item.tool_name} for {item.client}: {words}.{_others(blocked)} Its calls of this tool are denied for"
                f" an hour, by the rule {blocked.rule.name}.",
                extra_tags=item.public_id,
            )
            return leave(request, queue.address(next_in(request, item, queue)))
    context = {"item": item, "form": form, "back": queue.address(pk), "in_queue": queue.query()}
    return render(request, "console/block.html", context, status=422 if form.is_bound else 200)


def _others(blocked: Blocked) -> str:
    """What became of other calls that waited, as sentences."""
    said = f" So were {blocked.alongside} others that waited." if blocked.alongside > 1 else ""
    if blocked.alongside == 1:
        said = " So was another one that waited."
    if blocked.left:
        said += f" For others to decide {blocked.left} still wait{'s' * (blocked.left == 1)}, and cannot run."
    return said
