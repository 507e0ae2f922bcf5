"""Pages about tasks: the list, one task, its download, cancelling it and running it again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from taskhub.console import content, query, story
from taskhub.console.access import page
from taskhub.console.changes import Changes, of_arguments
from taskhub.console.downloads import download
from taskhub.console.forms.filters import TaskFilters
from taskhub.console.forms.questions import ReasonForm
from taskhub.console.htmx import partial_or_page
from taskhub.console.remarks import remarks_by_key
from taskhub.console.requests import ConsoleRequest
from taskhub.console.shared import shared
from taskhub.console.templatetags.console import WAITING, outcome_word, state_word
from taskhub.control import tasks
from taskhub.core.errors import NotFound, TaskHubError
from taskhub.core.records import Person
from taskhub.core.states import TERMINAL, QuestionKind, QuestionState, State
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.questions import inbox
from taskhub.domain.tasks import detail, listing
from taskhub.domain.tasks.run import LINES_KEPT
from taskhub.lib.numbers import whole
from taskhub.lib.signs import visible_json
from taskhub.protocol import registry

TAB_WORDS = {"": "All"} | {tab: outcome_word(tab) for tab in listing.TABS}
RARE = ("denied",)
"""Tabs that are shown only while there is something in them."""
PART_WORDS = WAITING | {"abandoned": "Abandoned", "unfetched": "Not fetched", "errors": "Failed or tool error"}
"""Words of tabs that are shown only while they are selected, by a link on another page."""
AGES = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
AGE_WORDS = {
    "1h": "Last hour",
    "24h": "Last 24 hours",
    "7d": "Last 7 days",
    "30d": "Last 30 days",
    "today": "Today (UTC)",
    "yesterday": "Yesterday (UTC)",
}
BY_WORDS = {"": "Created", "ended": "Ended"}
MOST_STEPS = 20
"""How many times a search without matches continues by itself, each time further back."""
SECTIONS = ("summary", "timeline", "questions", "log", "wire")


@require_safe
@page("task.view")
def task_list(request: ConsoleRequest) -> HttpResponse:
    """Tasks of the tenant, newest first. The list depends only on the URL; values that cannot be understood are
    ignored."""
    return shared(request, "task-list", lambda: _task_list(request))


def _task_list(request: ConsoleRequest) -> HttpResponse:
    wanted = _filter(request)
    before = whole(request.GET.get("before", ""))
    tenant = request.person.tenant_id
    found, listed = listing.task_list(tenant, wanted, before=before)
    counts = {count.tab: count for count in found}
    steps = whole(request.GET.get("steps", "")) or 0
    context = {
        "wanted": wanted,
        "before": before,
        "page": listed,
        "steps": steps + 1 if steps < MOST_STEPS else None,
        "tabs": [
            {"key": tab, "word": word, "count": counts.get(tab), "current": tab == wanted.tab}
            for tab, word in _tabs(wanted.tab).items()
            if tab not in RARE or tab == wanted.tab or (tab in counts and counts[tab].count)
        ],
        "filters": _filters(request, wanted, listing.choices(tenant)),
        "dates": any(request.GET.get(name, "").strip() for name in ("since", "until", "by")),
        "ignored": [name for name in ("since", "until") if _unread(request, name)],
        "narrowed": wanted != listing.TaskFilter(tab=wanted.tab),
    }
    response = partial_or_page(request, "console/tasks.html", "rows", context)
    if request.htmx.trigger == "filters":
        response["HX-Push-Url"] = _short_url(request)
    return response


@require_safe
@page("task.view")
def task_detail(request: ConsoleRequest, public_id: str) -> HttpResponse:
    """One task; the parameter `view` selects the section."""
    return partial_or_page(request, "console/task.html", "task", _task_context(request, public_id))


@require_safe
@page("task.view")
def task_download(request: ConsoleRequest, public_id: str, what: str) -> HttpResponse:
    """Download the whole result, or the whole arguments, as stored. The task's page shows only a part of long ones."""
    found = _found(request.person, public_id)
    value = found.task.result_json if what == "result" else found.arguments
    if what == "result" and value is None:
        raise NotFound("This task has no result.")
    return download(value, f"task-{public_id[:8]}-{what}.json")


@require_http_methods(["GET", "HEAD", "POST"])
@page("task.cancel")
def task_cancel(request: ConsoleRequest, public_id: str) -> HttpResponse:
    """Ask for confirmation (GET), then request the cancellation (POST). A task that has ended in the meantime stays as
    it is, and its page says so.
    """
    found = _found(request.person, public_id)
    form = ReasonForm(request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        return render(request, "console/cancel.html", {"detail": found, "task": found.task, "form": form})
    if found.task.state in TERMINAL:
        messages.info(
            request, f"The task had already ended: it is {state_word(found.task.state)}. Nothing was changed."
        )
    else:
        state = tasks.cancel_task(request.caller, public_id, reason=form.cleaned_data["reason"])
        if state is State.CANCELLED:
            messages.success(request, "Cancelled.")
        elif state in TERMINAL:
            messages.info(request, f"The task ended first: it is {state_word(state)}. Nothing was changed.")
        # A cancellation that has not ended the task yet gets no message: the page shows it until then.
    return redirect("task-detail", public_id=public_id)


@require_http_methods(["GET", "HEAD", "POST"])
@page("task.rerun")
def task_rerun(request: ConsoleRequest, public_id: str) -> HttpResponse:
    """Ask for confirmation (GET), then run the same call again, as a new task (POST)."""
    if request.method != "POST":
        found = _found(request.person, public_id)
        return render(request, "console/rerun.html", {"detail": found, "task": found.task, "edited": _edited(found)})
    try:
        new = tasks.rerun_task(request.caller, public_id)
    except NotFound:
        raise
    except TaskHubError as error:
        messages.error(request, error.message)
        return redirect("task-detail", public_id=public_id)
    messages.success(request, "This is the new task. The earlier one is linked below.")
    return redirect("task-detail", public_id=new.public_id)


def _for_me(request: ConsoleRequest, task_id: int, asked: list[detail.TaskQuestion]) -> list[detail.TaskQuestion]:
    """The questions of `asked` that wait for this person, as in the inbox."""
    if not asked or not request.caller.may("question.answer"):
        return []
    mine = inbox.mine_of(request.person, task_id)
    return [question for question in asked if question.id in mine]


def _waiting_for(asked: list[detail.TaskQuestion]) -> str:
    """Who the open questions wait for, as in `listing.TaskRow`."""
    if any(question.kind is QuestionKind.OUTCOME for question in asked):
        return "unknown"
    if any(question.audience != "client" for question in asked):
        return "people"
    return "client" if asked else ""


def _edited(found: detail.TaskDetail) -> Changes | None:
    """The differences between the arguments that the client sent and those with which the call runs; `None` if nobody
    has changed them."""
    return found.edited and of_arguments(found.arguments, found.edited["arguments"])


def _found(person: Person, public_id: str, *, skip: int = 0) -> detail.TaskDetail:
    found = None if "\0" in public_id else detail.task_detail(person.tenant_id, public_id, skip=skip)
    if found is None:
        raise NotFound("There is no such task, or it is not yours to see.")
    return found


def _task_context(request: ConsoleRequest, public_id: str) -> dict[str, Any]:
    person, now = request.person, datetime.now(UTC)
    skip = min(whole(request.GET.get("skip", "")) or 0, LINES_KEPT) if request.GET.get("view") == "log" else 0
    found = _found(person, public_id, skip=skip)
    task = found.task
    section = request.GET.get("view", "summary")
    open_questions = [q for q in found.questions if q.state is QuestionState.OPEN]
    near = story.near_limit_in(found, now)
    paused = task.state is State.QUEUED and not (found.server_enabled or found.server_removed)
    decided_only = task.revision == DECIDED_ONLY
    context: dict[str, Any] = {
        "detail": found,
        "decided_only": decided_only,
        "task": task,
        "section": section if section in SECTIONS else "summary",
        "why": story.why(found, now),
        "left": story.left(found),
        "again": "" if near is None or task.cancel_requested_at else f"load delay:{near}s, ",
        "waiting_for": _waiting_for(open_questions),
        "open_questions": open_questions,
        "authorizing": any(question.kind is QuestionKind.AUTHORIZATION for question in open_questions),
        "ended": task.state in TERMINAL,
        "took": (task.ended_at or now) - task.created_at,
        "may_cancel": request.caller.may("task.cancel") and task.state not in TERMINAL,
        "may_rerun": request.caller.may("task.rerun") and task.state in TERMINAL and not decided_only,
        "for_me": _for_me(request, task.id, open_questions),
        # Empty while the task waits or is being cancelled, because `why` says the same or more.
        "message": "" if paused or task.cancel_requested_at or task.state is State.INPUT_REQUIRED else task.message,
        "edited": _edited(found),
        "may_see_client": request.caller.may("client.view"),
        "may_see_rules": request.caller.may("server.view"),
        "may_see_audit": request.caller.may("audit.view"),
        "cancel_form": ReasonForm(auto_id="cancel_%s"),
        "tabs": [
            ("summary", "Summary", None),
            ("timeline", "Timeline", len(found.events)),
            ("questions", "Questions", len(found.questions)),
            ("log", "Log", found.log_lines),
            ("wire", "Wire", None),
        ],
    }
    match context["section"]:
        case "summary":
            rows = content.folded_rows(content.rows(found.arguments))
            arguments_json, more = content.folded(visible_json(found.arguments))
            context |= {
                "rows": rows,
                "arguments_json": arguments_json,
                "arguments_cut": rows.cut or more,
                "outcome": content.outcome(task.result_json),
                "error": json.loads(task.error_json) if task.error_json else None,
                "timeline": story.timeline(found, now),
            }
        case "timeline":
            context |= {"timeline": story.timeline(found, now), "moments": story.moments(found.events)}
        case "questions":
            context["remarks"] = remarks_by_key(task.id)
        case "log":
            context["log"] = _log(found, skip)
        case "wire":
            context["wire"], context["wire_cut"] = content.folded(_wire(registry.shown(task)))
    return context


def _tabs(chosen: str) -> dict[str, str]:
    """The words of the tabs to show, by key. A tab of `listing.PARTS` is shown only while it is chosen, beside its
    main tab."""
    words = {}
    for tab, word in TAB_WORDS.items():
        if listing.PARTS.get(chosen) == tab:
            words[chosen] = PART_WORDS[chosen]
        words[tab] = word
    return words


def _log(found: detail.TaskDetail, skipped: int) -> dict[str, Any]:
    """The template context that says which of the stored lines are shown; `skipped` newer lines are not."""
    earlier = max(found.log_lines - skipped - len(found.lines), 0)
    return {
        "first": earlier + min(len(found.lines), 1),
        "last": earlier + len(found.lines),
        "earlier": earlier,
        "skipped": skipped,
        "next": skipped + len(found.lines),
        "full": found.log_lines >= LINES_KEPT,
        "kept": LINES_KEPT,
    }


def _wire(shown: Any) -> str:
    return "" if shown is None else visible_json(shown)


def _filter(request: ConsoleRequest) -> listing.TaskFilter:
    given, now = request.GET, datetime.now(UTC)
    tab = given.get("state", "")
    since, until = _aged(given.get("age", ""), now)
    return listing.TaskFilter(
        tab=tab if tab in listing.TABS or tab in listing.PARTS else "",
        tool=_clean(given.get("tool", "")),
        context_id=whole(given.get("client", "")),
        text=_clean(given.get("q", "")),
        since=query.moment(request, "since", now=now) or since,
        until=query.moment(request, "until", now=now) or until,
        by_end=given.get("by") == "ended",
    )


def _aged(age: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """The times from which and until which the filter `age` selects tasks; `None` where it sets no limit."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    match age:
        case "today":
            return today, None
        case "yesterday":
            return today - timedelta(days=1), today
    return (now - AGES[age] if age in AGES else None), None


def _unread(request: ConsoleRequest, name: str) -> bool:
    """Whether the parameter is given and cannot be read as a time."""
    return bool(request.GET.get(name, "").strip()) and query.moment(request, name, now=datetime.now(UTC)) is None


def _filters(request: ConsoleRequest, wanted: listing.TaskFilter, choices: listing.Choices) -> TaskFilters:
    now = {"q": wanted.text, "tool": wanted.tool, "client": wanted.context_id, "state": wanted.tab}
    times = {name: query.text(request, name, longest=40) for name in ("age", "since", "until", "by")}
    filters = TaskFilters(now | times)
    filters.offer("tool", "Every tool", ((name, name) for name in choices.tools))
    filters.offer("client", "Every client", choices.clients)
    filters.offer("age", "Any time", AGE_WORDS.items())
    filters.offer("by", BY_WORDS[""], ((key, word) for key, word in BY_WORDS.items() if key))
    return filters


def _short_url(request: ConsoleRequest) -> str:
    """The list's URL without the empty fields that the form sends."""
    query = request.GET.copy()
    for name in [name for name, value in query.items() if not value]:
        del query[name]
    return f"{request.path}?{query.urlencode()}" if query else request.path


def _clean(text: str) -> str:
    """The text without U+0000, which Postgres refuses, and of 255 characters at most, as the longest id has."""
    return text.replace("\0", "").strip()[:255]
