"""The page about workers and the queue."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse
from django.views.decorators.http import require_safe

from taskhub.console.access import page
from taskhub.console.htmx import partial_or_page
from taskhub.console.requests import ConsoleRequest
from taskhub.domain.workers import reads as workers


@page("worker.view")
@require_safe
def worker_list(request: ConsoleRequest) -> HttpResponse:
    """Workers that are alive or ended lately, and the tenant's queue."""
    found = workers.fleet(request.person.tenant_id)
    return partial_or_page(
        request,
        "console/workers.html",
        "fleet",
        {
            "fleet": found,
            "alive": found.alive,
            "ended": [worker for worker in found.workers if worker.state != "alive"],
            "lease_seconds": settings.TASKHUB_LEASE_SECONDS,
        },
    )
