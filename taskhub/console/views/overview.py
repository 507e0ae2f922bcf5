"""The overview: how the tenant's tasks are doing, and what needs a person."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from taskhub.console.access import page
from taskhub.console.chart import chart
from taskhub.console.htmx import partial_or_page
from taskhub.console.requests import ConsoleRequest
from taskhub.domain.catalogue import reads as servers
from taskhub.domain.notices.webhooks import silent_webhooks
from taskhub.domain.questions import inbox
from taskhub.domain.tasks import stats
from taskhub.domain.tasks.listing import TaskFilter, task_page
from taskhub.domain.workers import reads as workers

SHORT = 6
FAILING = 5


@require_safe
@page("task.view")
def disk(request: ConsoleRequest) -> HttpResponse:
    """The banner about a full disk; empty if there is room."""
    return render(request, "parts/full.html")


@require_safe
@page("task.view")
def overview(request: ConsoleRequest) -> HttpResponse:
    """Numbers, one chart and three short lists; before the first task, the first steps."""
    person = request.person
    tenant = person.tenant_id
    answers = request.caller.may("question.answer")
    day = stats.day(tenant)
    context = {
        "numbers": stats.numbers(tenant),
        "queue": workers.queue(tenant),
        "since": day.since,
        "errors": day.counts.errors,
        "chart": chart(day.hours),
        "failing": day.failing[:FAILING],
        "newest": task_page(tenant, TaskFilter(), limit=SHORT).rows,
        "answers": answers,
        "needs": inbox.questions(person, "mine" if answers else "all", limit=SHORT),
        "waiting_tools": servers.waiting_tools(tenant),
        "silent_webhooks": silent_webhooks(tenant) if request.caller.may("settings.view") else (),
        "may_manage": request.caller.may("server.manage"),
        "may_try": request.caller.may("task.rerun"),
        "may_issue": request.caller.may("client.manage"),
    }
    return partial_or_page(request, "console/overview.html", "numbers-and-lists", context)
