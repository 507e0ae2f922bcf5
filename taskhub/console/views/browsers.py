"""Browsers that are notified: subscribed and removed by their person; and what a browser needs to install the console
and to show notifications."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from django.contrib import messages
from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from taskhub.console.access import page
from taskhub.console.htmx import in_words
from taskhub.console.requests import ConsoleRequest
from taskhub.control import notifications as control
from taskhub.core.errors import Invalid, LimitReached, Refused
from taskhub.domain.people.browser_sessions import row_key

_LONGEST = 4_000
"""Characters that are read of each field."""
_BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


@page("task.view")  # every role has it
@require_POST
@sensitive_post_parameters("endpoint", "p256dh", "auth")
@sensitive_variables("given")
def add(request: ConsoleRequest) -> HttpResponse:
    """Notify this browser, with the subscription that its script has made. Errors are plain text, which the script
    shows."""
    given = {name: request.POST.get(name, "")[:_LONGEST] for name in ("endpoint", "p256dh", "auth")}
    key = row_key(request.session.session_key or "")
    control.begin_in(request.caller, request.POST.get("zone", ""))
    try:
        control.add_browser(request.caller, session=key, label=_label(request), **given)
    except LimitReached as error:
        return in_words(error.message, 429)
    except Refused as error:
        return in_words(error.message, 409)
    except Invalid as error:
        return in_words(error.message, 400)
    messages.success(request, "This browser is notified.")
    return HttpResponse(status=204)


@page("task.view")
@require_POST
def remove(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Stop notifying one of the person's browsers."""
    label = control.remove_browser(request.caller, pk)
    messages.success(request, f"{label} is notified no more.")
    return redirect("notifications")


@require_safe
def manifest(request: HttpRequest) -> HttpResponse:
    """What a browser installs: the console, which opens at the inbox."""
    found = {
        "name": "TaskHub",
        "short_name": "TaskHub",
        "description": "Calls of agents, and what of them waits for people",
        "id": "/",
        "start_url": reverse("inbox"),
        "scope": "/",
        "display": "standalone",
        "background_color": "#0f6674",
        "theme_color": "#0f6674",
        "icons": [
            {"src": static("img/logo.svg"), "sizes": "any", "type": "image/svg+xml"},
            {"src": static("img/icon-192.png"), "sizes": "192x192", "type": "image/png"},
            {"src": static("img/icon-512.png"), "sizes": "512x512", "type": "image/png", "purpose": "any maskable"},
        ],
    }
    return JsonResponse(found, content_type="application/manifest+json")


@require_safe
def service_worker(request: HttpRequest) -> HttpResponse:
    """The service worker, at an address of its own: below it lies the whole console. It keeps no page and answers no
    request."""
    response = HttpResponse(_service_worker(), content_type="text/javascript; charset=utf-8")
    response["Cache-Control"] = "no-cache"
    return response


@cache
def _service_worker() -> bytes:
    found = finders.find("js/service-worker.js")
    assert isinstance(found, str)
    return Path(found).read_bytes()


def _label(request: HttpRequest) -> str:
    """What the browser says it is, in two words."""
    agent = request.headers.get("user-agent", "")
    browser = next((word for part, word in _BROWSERS if part in agent), "Browser")
    system = next((word for part, word in _SYSTEMS if part in agent), "")
    return f"{browser} on {system}" if system else browser
