"""Undoes decisions that a person made a moment ago."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_POST

from taskhub.console.access import page
from taskhub.console.htmx import leave
from taskhub.console.queues import queue_of
from taskhub.console.requests import ConsoleRequest
from taskhub.console.templatetags.console import past, state_word
from taskhub.control import questions
from taskhub.core.states import QuestionState
from taskhub.domain.questions import inbox
from taskhub.domain.questions.inbox import InboxItem, UndoOutcome
from taskhub.lib.numbers import whole


@require_POST
@page("question.approve")
def undo(request: ConsoleRequest) -> HttpResponse:
    """Undo the person's decisions on the questions that are posted, and show the first of them."""
    ids = [number for text in request.POST.get("questions", "").split(",") if (number := whole(text))]
    outcomes = questions.undo_decisions(request.caller, ids)
    done, total = outcomes[UndoOutcome.UNDONE], outcomes.total()
    first = questions.find_question(request.caller, ids[0])
    call = f"{first.tool_name} ({first.called})" if total == 1 and first.called else first.tool_name
    told = []
    if done:
        told.append("Undone: it waits for a decision again." if total == 1 else f"Undone for {done} of {total} calls.")
    if late := outcomes[UndoOutcome.LATE]:
        told.append(f"Too late to undo{f' {late} of them' if total > 1 else ''}: {_since(first)}")
    if outcomes[UndoOutcome.UNKNOWN]:
        told.append("What you have not decided, you cannot undo.")
    tell = messages.success if done else messages.info
    tell(request, f"{call}: {' '.join(told)}", extra_tags=first.public_id if total == 1 else "")
    queue = queue_of(request)
    if len(together := questions.find_alike(request.caller, first, wanted=queue.wanted)) >= inbox.FOLD and total > 1:
        return leave(request, queue.of(together[0]))
    return leave(request, queue.address(first.id))


def _since(item: InboxItem) -> str:
    """What has happened since the decision, which therefore cannot be undone: the end of a sentence."""
    if item.last_actor and item.state is QuestionState.OPEN:
        return f"{item.last_actor} has {past(item.last_verdict)} it since."
    return f"the decision counts, and the call is {state_word(item.task_state)}."
