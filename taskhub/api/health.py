"""Health at two depths, and figures for scrapers."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache

from taskhub.queries.health import backlog, ready


@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200: the process answers."""
    return JsonResponse({"status": "ok"})


@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when the database answers, is migrated, and a worker is alive; 503 says which is not."""
    try:
        problems = ready()
    except DatabaseError:
        connection.close()
        problems = ["the database is away"]
    response = JsonResponse(
        {"status": "ready" if not problems else "not ready", "problems": problems}, status=503 if problems else 200
    )
    # Django logs every 5xx as an error; to be asked and to say "not yet" is none.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus text, counted in SQL at the scrape so that all processes agree."""
    lines: list[str] = []
    for name, about, rows in backlog():
        lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
        for labels, value in rows:
            inside = ",".join(f'{key}="{label}"' for key, label in labels.items())
            lines.append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; version=0.0.4")
