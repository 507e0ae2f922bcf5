"""The inbox: the questions that wait for a person, and the forms to answer them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from taskhub.console import cards, content, story
from taskhub.console.access import page
from taskhub.console.asked_back import asked_back
from taskhub.console.changes import Changes, of_arguments
from taskhub.console.doubted import doubted
from taskhub.console.downloads import download
from taskhub.console.forms.edits import EditForm
from taskhub.console.forms.questions import CommentForm, RulingForm
from taskhub.console.htmx import leave, partial_or_page, wants_partial
from taskhub.console.questions import words_of
from taskhub.console.queues import QUEUES, Queue, conversation, queue_of
from taskhub.console.remarks import remarks_on
from taskhub.console.requests import ConsoleRequest, waiting_of
from taskhub.console.undo import tags
from taskhub.console.views.factors import confirm
from taskhub.control import absences, questions
from taskhub.control.factors import has_confirmed
from taskhub.core.errors import Invalid, LimitReached, TaskHubError
from taskhub.core.states import QuestionKind, State
from taskhub.domain.foreign import Foreign
from taskhub.domain.questions import inbox as queries
from taskhub.domain.questions.answer import AnswerOutcome, EditOutcome
from taskhub.domain.questions.inbox import InboxFilter, InboxItem, Obstacle
from taskhub.domain.questions.kinds import KINDS
from taskhub.domain.questions.reads import approved_call
from taskhub.domain.questions.rulings import lost_call
from taskhub.domain.tasks.detail import waiting_task
from taskhub.domain.tasks.edits import Proposal

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ask:
    """How a question is drawn: `template` is its kind or `broken`; `form` is `None` for a page to open and a broken
    question."""

    template: str
    form: Any
    problem: str = ""
    confirms: str = ""
    """The ruling that is to be confirmed; empty if there is none."""
    proposed: Proposal | None = None
    """The call with edited arguments that is to be confirmed."""

    @property
    def differences(self) -> Changes | None:
        """The differences between the arguments of the call and the edited ones; `None` if none are to be confirmed."""
        shown = self.proposed
        return None if shown is None else of_arguments(shown.before, shown.arguments, self.form.schema)


@require_safe
@page("question.answer")
def inbox(request: ConsoleRequest, pk: int | None = None) -> HttpResponse:
    """The list of questions, and beside it the question `pk`, or the first one."""
    return _inbox(request, pk)


@require_safe
@page("question.answer")
def of_task(request: ConsoleRequest, public_id: str) -> HttpResponse:
    """Redirect to the question of the task that has the key `?key=`; clients send people to this address. Without such
    a question, redirect to the task's newest open question, and without one to the task."""
    key = request.GET.get("key", "").replace("\0", "")
    found = questions.find_question_of_task(request.caller, public_id, key)
    return redirect("task-detail", public_id) if found is None else redirect("inbox-question", found)


@require_safe
@page("question.answer")
def arguments(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Download all arguments with which the call of the question would run. Its page shows a part of long ones."""
    item = questions.find_question(request.caller, pk)
    return download(item.runs_with, f"task-{item.public_id[:8]}-arguments.json")


@require_safe
@page("question.answer")
def skip(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Redirect to the question that comes after `pk` in the queue."""
    queue = queue_of(request)
    return leave(request, queue.address(next_in(request, questions.find_question(request.caller, pk), queue)))


@require_safe
@page("question.answer")
def inbox_count(request: ConsoleRequest) -> HttpResponse:
    """The number in the navigation: how many questions wait for the person."""
    count = waiting_of(request, request.person).mine
    return render(request, "parts/inbox_count.html", {"count": count})


@require_safe
@page("question.answer")
def question_state(request: ConsoleRequest, pk: int) -> HttpResponse:
    """The state of one question, which is refetched on a hint. Somebody may be filling in the form, so only its button
    to approve is replaced. The form of edits (`form=edit`) has no such button."""
    editing = request.GET.get("form") == "edit"
    item = questions.find_question(request.caller, pk)
    context = {
        "item": item,
        "votes": cards.votes(item),
        "remarks": remarks_on(item),
        "closed": cards.closed_words(item),
        "in_queue": queue_of(request).query(),
        "state_url": _state_url(item, queue_of(request), editing=editing),
        **asked_back(request, item),
        **cards.replaced(item),
        **cards.lost(item),
    }
    context |= {"live": True, "beside": not editing, "editing": editing, **cards.preview(item)}
    context |= cards.factor(request, item)
    return render(request, "console/inbox.html#state", context)


@require_POST
@page("question.answer")
def answer(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Accept, decline or dismiss an elicitation, reply to a sampling request, or list roots."""
    item = questions.find_question(request.caller, pk)
    if KINDS[item.kind].method is None:
        raise Invalid("This question is decided, not answered.")
    if early := questions.closed_to(request.caller, item):
        return _settled(request, item, early, "")
    action = request.POST.get("action", "")
    ask = _ask(item, request.POST if action == "accept" else None)
    response: dict[str, Any] = {"action": action}
    if action == "accept" and ask.form is not None:
        if not ask.form.is_valid():
            return _inbox(request, pk, ask=ask, status=422)
        response = ask.form.response()
    elif action == "accept" and (unopened := cards.link(item)) is not None and unopened.problem:
        raise Invalid(f"That address cannot be opened: {unopened.problem}. Decline or dismiss the question.")
    elif action == "accept" and ask.problem:
        raise Invalid(f"What the tool asks cannot be shown, so it cannot be answered. {ask.problem}")
    elif not KINDS[item.kind].refusable or action not in ("accept", "decline", "cancel"):
        raise Invalid("Choose one of the buttons of this question.")
    try:
        outcome = questions.answer_question(request.caller, item, response)
    except Invalid as error:
        if ask.form is None:
            raise
        ask.form.add_error(None, error.message)
        return _inbox(request, pk, ask=ask, status=422)
    waits = _waits(request, item) if item.about is None else "Those who decide on the call read it."
    words = {
        "accept": f"Answered. {waits or 'The task continues.'}",
        "decline": f"Declined. {waits or 'The tool has been told.'}",
        "cancel": f"Dismissed. {waits or 'The tool has been told.'}",
    }
    return _settled(request, item, outcome, words.get(action, words["accept"]))


@require_POST
@page("question.approve")
def decide(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Approve or reject a call that waits for approval."""
    item = questions.find_question(request.caller, pk)
    if item.kind is not QuestionKind.APPROVAL:
        raise Invalid("This question is answered, not approved.")
    if early := questions.closed_to(request.caller, item):
        return _settled(request, item, early, "")
    ask = _ask(item, request.POST)
    form = ask.form
    if form is None:
        raise Invalid(f"What is asked cannot be shown, so it cannot be decided. {ask.problem}")
    if not form.is_valid():
        return _inbox(request, pk, ask=Ask(item.kind, form), status=422)
    approve = form.cleaned_data["verdict"] == "approve"
    try:
        if approve and item.asking.second_factor:
            _confirm(request, form.cleaned_data["code"])
        outcome = questions.decide_approval(
            request.caller,
            item,
            approve=approve,
            reason=form.cleaned_data["reason"],
            confirmed=form.cleaned_data["confirmed"],
            preview=request.POST.get("preview", ""),
        )
    except (Invalid, LimitReached) as error:
        form.add_error(str(error.data.get("field", "code")), error.message)
        return _inbox(request, pk, ask=Ask(item.kind, form), status=422)
    if outcome is AnswerOutcome.COUNTED:
        waits = _waits(request, item) or "The call waits for the rest."
        words = f"Approved: {item.approvals + 1} of {item.quorum}. {waits}"
    else:
        waits = "Its client makes the call itself." if "permit" in item.params else _waits(request, item)
        words = (
            f"Approved. {waits or _runs(request, item)}"
            if approve
            else "Rejected. The tool does not run; the caller sees the reason."
        )
    return _settled(request, item, outcome, words)


@require_http_methods(["GET", "HEAD", "POST"])
@page("question.approve")
def edit(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Change arguments of a call that waits for approval. The first POST shows the differences; the second, with the
    confirmation, approves the changed call."""
    item = questions.find_question(request.caller, pk)
    if early := questions.closed_to(request.caller, item):
        return _settled(request, item, early, "")
    if item.unreadable or not questions.may_edit(item):
        raise Invalid("The rule that asked does not let anybody edit the arguments of this call.")
    form = _edit_form(item, request.POST if request.method == "POST" else None)
    if request.method != "POST":
        return _inbox(request, pk, ask=Ask("edit", form))
    if not form.is_valid():
        return _inbox(request, pk, ask=Ask("edit", form), status=422)
    if request.POST.get("back"):
        return _inbox(request, pk, ask=Ask("edit", form))
    proposed = None
    posted = form.cleaned_data
    try:
        proposed = questions.check_edit(request.caller, item, form.arguments)
        if item.asking.critical or proposed.asking.critical:
            form.confirm(item.tool_name)
        form.show(proposed.mark)
        if posted["mark"] != proposed.mark:
            return _inbox(request, pk, ask=Ask("edit", form, proposed=proposed))
        if item.asking.second_factor or proposed.asking.second_factor:
            _confirm(request, posted["code"])
        outcome = questions.edit_call(
            request.caller,
            item,
            form.arguments,
            mark=posted["mark"],
            reason=posted["reason"],
            confirmed=posted["confirmed"],
        )
    except (Invalid, LimitReached) as error:
        if isinstance(error, LimitReached):
            error = Invalid(error.message, field="code")
        form.refuse(error)
        keep = proposed if error.data.get("field") in ("confirmed", "code") else None
        return _inbox(request, pk, ask=Ask("edit", form, proposed=keep), status=422)
    anew = _asked_anew(request, item) if outcome is EditOutcome.PROPOSED else None
    if anew is not None and proposed.asking.preview is not None:
        words = "Changed. Its preview is called with these arguments: approve it once you have seen that."
        return _settled(request, item, AnswerOutcome.ANSWERED, words, then=anew)
    if outcome is EditOutcome.PROPOSED:
        group = proposed.approval.group
        words = f"Changed. By the rules {f'the group {group}' if group else 'others'} decide on the call as it is now."
    elif outcome is EditOutcome.COUNTED:
        words = f"Approved with changes: 1 of {proposed.approval.quorum}. The others are shown what you changed."
    else:
        # The edited call was already judged by the rules that are in force now.
        words = f"Approved with changes. {_waits(request, item, by_rules=False) or _runs(request, item)}"
    late = outcome in (EditOutcome.LATE, EditOutcome.TWICE, EditOutcome.UNKNOWN)
    return _settled(request, item, AnswerOutcome(outcome) if late else AnswerOutcome.ANSWERED, words)


@require_POST
@page("question.answer")
def rule(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Rule, for a lost run, whether the tool ran. The first POST shows the consequences; the second, with the
    confirmation, rules."""
    item = questions.find_question(request.caller, pk)
    if item.kind is not QuestionKind.OUTCOME:
        raise Invalid("This question is not about a run that was lost.")
    if early := questions.closed_to(request.caller, item):
        return _settled(request, item, early, "")
    form = RulingForm(request.POST, schema=lost_call(item.id).output_schema)
    if not form.is_valid():
        return _inbox(request, pk, ask=Ask(item.kind, form), status=422)
    if request.POST.get("back"):
        return _inbox(request, pk, ask=Ask(item.kind, form))
    ran, reason, given = form.ran, form.cleaned_data["reason"], form.given()
    try:
        questions.check_ruling(request.caller, item, ran=ran, reason=reason, **given)
        if not form.cleaned_data["confirmed"]:
            return _inbox(request, pk, ask=Ask(item.kind, form, confirms=form.cleaned_data["verdict"]))
        outcome = questions.rule_outcome(request.caller, item, ran=ran, reason=reason, **given)
    except Invalid as error:
        form.add_error(str(error.data.get("field", "")) or None, error.message)
        return _inbox(request, pk, ask=Ask(item.kind, form), status=422)
    waits = "" if ran else _waits(request, item)
    words = "It ran: the task has ended." if ran else f"It did not run. {waits or 'It runs again now.'}"
    return _settled(request, item, outcome, words)


def _runs(request: ConsoleRequest, item: InboxItem) -> str:
    """A sentence that says when an approved call runs that nothing holds up."""
    if not questions.undoable(request.caller, [item]):
        return "The tool runs now."
    return "The tool runs when you can no longer undo this."


def _confirm(request: ConsoleRequest, code: str) -> None:
    """Confirm the person's second factor by the code that was typed, unless they did a moment ago."""
    if code.strip() and not has_confirmed(request.caller):
        confirm(request, code)


def card(request: ConsoleRequest, pk: int, *, status: int = 200, **more: Any) -> HttpResponse:
    """The question `pk` beside the list, with more for its template."""
    return _inbox(request, pk, status=status, more=more)


def _inbox(
    request: ConsoleRequest,
    pk: int | None,
    *,
    ask: Ask | None = None,
    status: int = 200,
    more: dict[str, Any] | None = None,
) -> HttpResponse:
    queue = queue_of(request)
    most = queries.SHOWN_DECIDED if queue.name == "decided" else queries.SHOWN
    found = queries.questions(
        request.person, queue.name, wanted=queue.wanted, sort=queue.sort, after=queue.after, limit=most + 1
    )
    items = found[:most]
    if pk is not None:
        chosen: InboxItem | None = questions.find_question(request.caller, pk)
    else:
        chosen = questions.find_question(request.caller, items[0].id) if items else None
    rows_only = wants_partial(request) and request.htmx.target == "inbox-list"
    context: dict[str, Any] = {
        "here": queue.address(pk),
        "queue": queue,
        "in_queue": queue.query(),
        "tabs": [(word, queue.query(name=name, after=0), name == queue.name) for name, word in QUEUES.items()],
        "items": [(item, queue.of(item)) for item in items],
        "from_start": queue.query(after=0),
        "unfiltered": Queue(queue.name, queries.EVERYTHING, "", 0, queue.sort).query(),
        "further": queue.query(after=items[-1].id) if len(found) > len(items) else "",
        "filters": None if rows_only or queue.name == "decided" else queue.filters(items),
        "governed": waiting_of(request, request.person).governed if queue.name == "mine" else 0,
        "standing_in": absences.stands_in_for(request.caller) if queue.name == "mine" else (),
        "all_open": Queue("all", queries.EVERYTHING, "", 0).query(),
        "chosen": chosen,
        "picked": pk is not None,
    }
    # When only the list is refetched on a hint, the open form is not replaced.
    partial = "list" if rows_only else "inbox"
    if chosen is None:
        return partial_or_page(request, "console/inbox.html", partial, context, status=status)
    try:
        context["alike"] = _alike(request, chosen, items, queue.wanted)
        shown = context | _chosen(request, chosen, ask) | (more or {})
        return partial_or_page(request, "console/inbox.html", partial, shown, status=status)
    except TaskHubError:
        raise
    except Exception:
        # A question that cannot be shown, whatever a server sent, must not hide the other questions.
        logger.exception("question %s cannot be shown", chosen.id)
        unreadable = replace(chosen, asked=Foreign({}, "The reason is in the log of the web process."), arguments={})
        shown = context | _chosen(request, unreadable, None)
        return partial_or_page(request, "console/inbox.html", partial, shown, status=status)


def _state_url(item: InboxItem, queue: Queue, *, editing: bool) -> str:
    """Where the state of a question is read again, beside its form or (`editing`) the one that edits arguments."""
    address, narrowed = reverse("inbox-state", args=[item.id]), queue.query()
    return f"{address}{narrowed}{'&' if narrowed else '?'}form=edit" if editing else address + narrowed


def _chosen(request: ConsoleRequest, item: InboxItem, ask: Ask | None) -> dict[str, Any]:
    return {
        "item": item,
        "words": words_of(item),
        "refusable": KINDS[item.kind].refusable,
        "ask": ask or _ask(item),
        "state_url": _state_url(item, queue_of(request), editing=ask is not None and ask.template == "edit"),
        "votes": cards.votes(item),
        "remarks": remarks_on(item),
        "comment": CommentForm(auto_id="id_comment_%s"),
        "closed": cards.closed_words(item),
        "rows": content.folded_rows(content.rows(item.runs_with)),
        "may_block": item.mine and item.kind is QuestionKind.APPROVAL and request.caller.may("server.manage"),
        "may_edit": item.mine and questions.may_edit(item),
        "why_not": questions.why_not(request.caller, item),
        "sampling": content.sampling(item.params) if item.kind is QuestionKind.SAMPLING else None,
        "link": cards.link(item),
        "can_see_rules": request.caller.may("server.view"),
        **conversation(item),
        **cards.factor(request, item, ask.proposed if ask else None),
        **cards.would_wait(request, item),
        **cards.undecidable(item),
        **asked_back(request, item),
        **doubted(request.person.tenant_id, item),
        **cards.approved(item),
        **cards.preview(item),
        **cards.replaced(item),
        **cards.lost(item),
    }


def _alike(request: ConsoleRequest, item: InboxItem, listed: Sequence[InboxItem], wanted: InboxFilter) -> int:
    """How many approvals of the narrowed queue can be decided together with this one; 0 if no row of the list stands
    for several calls of its tool and client, or if it is decided by itself."""
    calls = {(row.tool_name, row.client) for row in listed if row.folded}
    if not item.mine or (item.tool_name, item.client) not in calls:
        return 0
    found = queries.alike(request.person, item.id, wanted=wanted, limit=1)
    return found[0].alike if found else 0


def _edit_form(item: InboxItem, data: Any) -> EditForm:
    call = approved_call(item.id)
    schema = (call.definition or {}).get("inputSchema") if call is not None else None
    return EditForm(item.asking, schema, item.runs_with, data)


def next_in(request: ConsoleRequest, item: InboxItem, queue: Queue) -> int | None:
    """The id of the question after `item` in the queue; after the last one, of the first. `None` if it is empty."""
    name = "mine" if queue.name == "decided" else queue.name
    found = queries.following(request.person, name, wanted=queue.wanted, sort=queue.sort, after=item.id)
    return None if found is None else found.id


def _waits(request: ConsoleRequest, item: InboxItem, *, by_rules: bool = True) -> str:
    """A sentence that says why the call still waits although its question is decided; empty if it runs. With `by_rules`
    false, a change of the rules is not given as the reason."""
    found = waiting_task(request.person.tenant_id, item.public_id)
    if found is None or found.task.state in (State.FINISHED, State.CANCELLED):
        return ""
    if found.task.state is State.FAULTED:
        return story.never(found)
    waits = (by_rules and cards.by_rules(item, found)) or story.asked_again(found, item.id)
    return waits or (story.held_up(found, datetime.now(UTC)) if found.task.state is State.QUEUED else "")


def _asked_anew(request: ConsoleRequest, item: InboxItem) -> int | None:
    """The id of the question that replaced this one, if the person may decide it too; `None` if they may not."""
    found = questions.find_question_of_task(request.caller, item.public_id, "")
    return found if found is not None and questions.find_question(request.caller, found).mine else None


def _settled(
    request: ConsoleRequest, item: InboxItem, outcome: AnswerOutcome, words: str, *, then: int | None = None
) -> HttpResponse:
    """Go to the next question of the queue, or to `then`, with a message about this one. If somebody else answered
    first, the message says who."""
    tell, undoable = messages.success, questions.undoable(request.caller, [item])
    if outcome in (AnswerOutcome.LATE, AnswerOutcome.TWICE, AnswerOutcome.UNKNOWN):
        tell = messages.info
        item = questions.find_question(request.caller, item.id)
        words = f"{cards.closed_words(item)}."
        if outcome is AnswerOutcome.TWICE:
            by_deputy = item.obstacle is Obstacle.DEPUTY
            words = "Your deputy has already decided this." if by_deputy else "You have already decided this."
    call = f"{item.tool_name} ({item.called})" if item.called else item.tool_name
    tell(request, f"{call} for {item.client}: {words}", extra_tags=tags(item.public_id, undoable))
    queue = queue_of(request)
    following = then or next_in(request, item, queue)
    address = queue.address(following)
    if not wants_partial(request):
        return leave(request, address)
    response = _inbox(request, following)
    response["HX-Push-Url"] = address
    return response


def _ask(item: InboxItem, data: Any = None) -> Ask:
    if item.unreadable:
        return Ask("broken", None, problem=item.unreadable)
    if item.kind is QuestionKind.OUTCOME:
        return Ask(item.kind, RulingForm(data, schema=lost_call(item.id).output_schema))
    try:
        return Ask(item.kind, words_of(item).form(item.params, data))
    except Invalid as error:
        return Ask("broken", None, problem=error.message)
