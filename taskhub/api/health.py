"""Health checks: `/healthz` (the process), `/readyz` (with the database), `/readyz?full` (with workers and servers)."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache

from taskhub.api.away import later, reason
from taskhub.domain.health.checks import all_ready, ready
from taskhub.store.call import LACKING

PROBED: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that accept any `Host` header, because load balancers and scrapers address a process by its IP."""


@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200, because the process answers. Checks nothing else."""
    return JsonResponse({"status": "ok"})


@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """200 if this process can serve: the database answers and is migrated. With `?full`, also a worker must be alive
    and every server contacted. Else 503 with the list of problems."""
    try:
        problems = all_ready() if "full" in request.GET else ready()
    except Exception as error:  # noqa: BLE001 - `reason` raises other errors again
        why = reason(error)
        problems = [why if why == LACKING else "the database is away"]
    if not problems:
        return JsonResponse({"status": "ready", "problems": []})
    return _not_ready(request, problems)


@never_cache
def unanswered(request: HttpRequest) -> HttpResponse:
    """The 503 of `/readyz` when its checks take too long. Makes no check itself."""
    return _not_ready(request, ["no answer in time: the database is frozen or slow, or all page lanes are busy"])


def _not_ready(request: HttpRequest, problems: list[str]) -> HttpResponse:
    response = JsonResponse({"status": "not ready", "problems": problems}, status=503)
    return later(request, response, "; ".join(problems))
