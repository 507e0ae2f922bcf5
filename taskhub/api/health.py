"""Health at three depths."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache

from taskhub.api.away import later, reason
from taskhub.domain.health.checks import all_ready, ready
from taskhub.store.call import LACKING

PROBED: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Any `Host` header is accepted here: load balancers and scrapers name the process by its IP address."""


@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200: the process answers."""
    return JsonResponse({"status": "ok"})


@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when this process can serve: the database answers and is migrated. With `?full`, when a worker is alive
    and every server was contacted too. 503 lists what is missing."""
    try:
        problems = all_ready() if "full" in request.GET else ready()
    except Exception as error:  # noqa: BLE001 - raised again unless it is of the kind expected
        why = reason(error)
        problems = [why if why == LACKING else "the database is away"]
    if not problems:
        return JsonResponse({"status": "ready", "problems": []})
    return _not_ready(request, problems)


@never_cache
def unanswered(request: HttpRequest) -> HttpResponse:
    """503: whether this process is ready was not found out in time. Makes no check itself."""
    return _not_ready(request, ["no answer in time: the database is frozen or slow, or all page lanes are busy"])


def _not_ready(request: HttpRequest, problems: list[str]) -> HttpResponse:
    response = JsonResponse({"status": "not ready", "problems": problems}, status=503)
    return later(request, response, "; ".join(problems))
