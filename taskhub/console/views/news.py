"""The bell: what reached a person, and how far they have read it."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from taskhub.console.access import page
from taskhub.console.htmx import partial_or_page, wants_partial
from taskhub.console.news import row_of
from taskhub.console.requests import ConsoleRequest
from taskhub.control import news
from taskhub.domain.questions.news import SHOWN


@require_safe
@page("question.answer")
def news_list(request: ConsoleRequest) -> HttpResponse:
    """What reached the person, newest first."""
    return partial_or_page(request, "console/news.html", "list", _listed(request))


@require_safe
@page("question.answer")
def news_count(request: ConsoleRequest) -> HttpResponse:
    """The number of unread news, for the bells of a page, and the newest of them in words."""
    return render(request, "parts/news_count.html", {**_counted(request), "live": True})


@require_POST
@page("question.answer")
def news_read(request: ConsoleRequest) -> HttpResponse:
    """Mark the news that were listed as read."""
    news.mark_read(request.caller, request.POST.get("until", ""))
    if wants_partial(request):
        return render(request, "console/news.html#list", {**_listed(request), "live": True})
    return redirect("news")


def _counted(request: ConsoleRequest) -> dict[str, Any]:
    found = news.own_news(request.caller)
    unread = [one for one in found if one.unread]
    return {
        "rows": [row_of(one) for one in found[:SHOWN]],
        "unread": min(len(unread), SHOWN),
        "more": len(unread) > SHOWN,
        "newest": row_of(unread[0]) if unread else None,
        "until": news.until(request.caller, found),
    }


def _listed(request: ConsoleRequest) -> dict[str, Any]:
    return {**_counted(request), "most": SHOWN}
