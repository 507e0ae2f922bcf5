"""Approvals that differ in arguments only, decided together: one page with the differences as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from taskhub.console import content
from taskhub.console.access import page
from taskhub.console.cards import closed_words, would_wait
from taskhub.console.forms.questions import AlikeForm
from taskhub.console.htmx import leave
from taskhub.console.queues import Queue, queue_of
from taskhub.console.requests import ConsoleRequest
from taskhub.console.undo import tags
from taskhub.control import questions
from taskhub.core import calls
from taskhub.core.errors import Invalid
from taskhub.core.states import QuestionState
from taskhub.domain.questions import inbox
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.domain.questions.inbox import InboxItem

COLUMNS: Final = 5
"""The most arguments that differ and have a column of their own; of others the table says how many there are."""

Cell = content.Row


@dataclass(frozen=True, slots=True)
class Differences:
    """Calls side by side: the arguments that all of them share, and those that differ, with a row for each call."""

    same: content.Rows
    """The arguments that are the same in all calls, as many as a page shows."""
    columns: list[str]
    rows: list[tuple[InboxItem, list[tuple[str, Cell | None]]]]
    """Each call with the names in `columns` and its values; the value is `None` if the call lacks the argument."""
    left_out: int
    """How many more arguments differ."""


def differences(items: Sequence[InboxItem]) -> Differences:
    """What the calls have in common and what differs. The arguments that the rule names come first."""
    cells = [{str(cell.name): cell for cell in content.rows(item.runs_with)} for item in items]
    names = dict.fromkeys(name for row in cells for name in row)
    differs = [name for name in names if len({row.get(name) for row in cells}) > 1]
    first = list(calls.named(items[0].params))
    differs.sort(key=lambda name: first.index(name) if name in first else len(first))
    columns = differs[:COLUMNS]
    return Differences(
        same=content.folded_rows([cells[0][name] for name in names if name not in differs]),
        columns=columns,
        rows=[(item, [(name, row.get(name)) for name in columns]) for item, row in zip(items, cells, strict=True)],
        left_out=len(differs) - len(columns),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@page("question.approve")
def alike(request: ConsoleRequest, pk: int) -> HttpResponse:
    """The approvals that are decided together with the question `pk`, and the form that decides those selected."""
    item = questions.find_question(request.caller, pk)
    queue = queue_of(request)
    if request.method != "POST":
        return _page(request, item, queue, AlikeForm())
    form = AlikeForm(request.POST)
    if not form.is_valid():
        return _page(request, item, queue, form, status=422)
    approve = form.cleaned_data["verdict"] == "approve"
    try:
        closed = {one.id for one in _picked(request, form) if one.state is not QuestionState.OPEN}
        outcomes = questions.decide_alike(
            request.caller, form.picked, approve=approve, reason=form.cleaned_data["reason"]
        )
    except Invalid as error:
        form.refuse(error)
        return _page(request, item, queue, form, status=422)
    decided = _picked(request, form)
    told = []
    if done := outcomes[AnswerOutcome.ANSWERED]:
        told.append(f"{_calls(done)} {'approved' if approve else 'rejected'}.")
    if counted := outcomes[AnswerOutcome.COUNTED]:
        told.append(f"Your approval counts for {_calls(counted)}, and others have to approve too.")
    # Which calls others have decided first, and how.
    me = request.person.username
    others = Counter(closed_words(one) for one in decided if one.id in closed or one.last_actor != me)
    told += [f"{_calls(count)}: {words}." for words, count in others.items() if words]
    if twice := outcomes[AnswerOutcome.TWICE]:
        told.append(f"{_calls(twice)} you had decided already.")
    if barred := outcomes[AnswerOutcome.BARRED]:
        told.append(f"{_calls(barred)} you may not decide any more.")
    messages.add_message(
        request,
        messages.SUCCESS if done or counted else messages.INFO,
        f"{item.tool_name}: {' '.join(told)}",
        extra_tags=tags("", questions.undoable(request.caller, decided)),
    )
    following = inbox.following(request.person, queue.name, wanted=queue.wanted, sort=queue.sort, after=item.id)
    if following is None:
        return leave(request, queue.address())
    if len(together := questions.find_alike(request.caller, following, wanted=queue.wanted)) >= inbox.FOLD:
        return leave(request, queue.of(together[0]))
    return leave(request, queue.address(following.id))


def _skips_to(request: ConsoleRequest, item: InboxItem, queue: Queue) -> str:
    """Where the queue goes on after these calls, after the last ones with the first; empty if it has nothing else."""
    for start in (item.id, 0):
        if found := inbox.questions(
            request.person, queue.name, wanted=queue.wanted, sort=queue.sort, after=start, limit=1
        ):
            return "" if found[0].id == item.id else queue.of(found[0])
    return ""


def _picked(request: ConsoleRequest, form: AlikeForm) -> list[InboxItem]:
    most = form.picked[: inbox.SHOWN]
    return [questions.find_question(request.caller, question_id) for question_id in dict.fromkeys(most)]


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def _page(
    request: ConsoleRequest, item: InboxItem, queue: Queue, form: AlikeForm, *, status: int = 200
) -> HttpResponse:
    items = questions.find_alike(request.caller, item, wanted=queue.wanted)
    if not items:
        # The approval is closed, or can only be decided alone: its own page says so.
        return leave(request, queue.address(item.id))
    unnarrowed = questions.find_alike(request.caller, item) if queue.narrowed else items
    picked = set(form.picked) if form.is_bound else {one.id for one in items if request.GET.get("all")}
    context: dict[str, Any] = {
        "item": items[0],
        "total": items[0].alike,
        "total_unnarrowed": unnarrowed[0].alike if unnarrowed else 0,
        "without_filters": queue.without_filters().of(unnarrowed[0]) if unnarrowed else "",
        "found": differences(items),
        "picked": picked,
        "form": form,
        "in_queue": queue.query(),
        "select_all": f"{queue.query()}&all=1" if queue.query() else "?all=1",
        "back": queue.address(),
        "skips_to": _skips_to(request, item, queue),
        "can_see_rules": request.caller.may("server.view"),
        **would_wait(request, items[0]),
    }
    return render(request, "console/inbox_alike.html", context, status=status)
