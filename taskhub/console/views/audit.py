"""The audit log: its page with filters, and its export."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from taskhub.console import query
from taskhub.console.access import page
from taskhub.console.forms.filters import AuditFilters
from taskhub.console.htmx import partial_or_page, wants_partial
from taskhub.console.requests import ConsoleRequest
from taskhub.control.audit import begin_export
from taskhub.core.errors import Invalid, NotFound
from taskhub.core.states import Door
from taskhub.domain.audit import reads as audit
from taskhub.lib.signs import spelled, visible_json

FIELDS: Final = ("action", "actor", "task", "door", "address", "since", "until", "text")
CALLED: Final = {"door": "channel"}
"""The names of filters on the page, if they differ from those in the URL."""
COLUMNS: Final = (
    "id", "at", "action", "actor", "door", "address", "task", "client", "target", "reason", "before", "after",
)  # fmt: skip
FORMATS: Final = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
NEWER_SHOWN: Final = 99
MOST_STEPS: Final = 20
"""How many times a search without matches continues by itself, each time further back in the log."""


@page("audit.view")
@require_safe
def audit_list(request: ConsoleRequest) -> HttpResponse:
    """The log under the filters of the URL; the parameter `event` opens one entry beside it."""
    tenant_id = request.person.tenant_id
    words, wanted, ignored = _filter(request)
    part = query.choice(request, "part", ("newer", "seal"))
    if part and wants_partial(request):
        return _live_part(request, part, words, wanted)
    found = audit.event_page(
        tenant_id, wanted, before=query.number(request, "before"), after=query.number(request, "after")
    )
    event_id = query.number(request, "event")
    event = audit.event_by_id(tenant_id, event_id) if event_id else None
    if event_id and event is None:
        raise NotFound("There is no such entry in the log.")
    place = {"before": query.number(request, "before"), "after": query.number(request, "after")}
    first = not place["before"] and not place["after"]
    steps = (query.number(request, "steps") or 0) + 1
    goes_on = found.searched_to is not None and not found.rows and steps <= MOST_STEPS
    return partial_or_page(
        request,
        "console/audit.html",
        "log",
        {
            "page": found,
            "event": event,
            "ignored": ignored,
            "filtered": any(words.values()),
            "chips": [
                (CALLED.get(name, name), value, query.url(**{**words, name: ""}))
                for name, value in words.items()
                if value
            ],
            "rows": [(row, query.url(**words, **place, event=row.id)) for row in found.rows],
            "here": query.url(**words, **place),
            "newest": query.url(**words),
            "older": found.older and query.url(**words, before=found.older),
            "further": query.url(**words, before=found.older, steps=steps) if goes_on else "",
            "newer": found.newer and query.url(**words, after=found.newer),
            "newer_since": query.url(**words, part="newer", after=found.rows[0].id if found.rows else None)
            if first
            else "",
            "newer_count": 0,
            "filters": _filters(words),
            "actions": audit.known_actions(tenant_id),
            "seal": audit.seal_status(tenant_id),
            "archived": None if found.older else audit.archived_log(),
            "can_export": request.caller.may("audit.export"),
            "exports": [(form, _export_url(form, words)) for form in FORMATS],
            "export_rows": audit.EXPORT_ROWS,
            "window": audit.WINDOW,
        },
    )


def _live_part(request: ConsoleRequest, part: str, words: dict[str, str], wanted: audit.EventFilter) -> HttpResponse:
    """A part of the page that is refetched after a hint: the number of newer rows, or the line about the seals. The
    rows are not refetched, because they would move while somebody reads them."""
    tenant_id = request.person.tenant_id
    if part == "seal":
        return render(request, "console/audit.html#seal", {"seal": audit.seal_status(tenant_id)})
    after = query.number(request, "after") or 0
    return render(
        request,
        "console/audit.html#newer",
        {
            "newer_count": audit.count_newer(tenant_id, wanted, after, NEWER_SHOWN),
            "most": NEWER_SHOWN,
            "newest": query.url(**words),
            "newer_since": query.url(**words, part="newer", after=after or None),
        },
    )


@page("audit.export")
@require_safe
def audit_export(request: ConsoleRequest) -> HttpResponse:
    """Download the filtered log, newest first. The export is recorded in the log before its first byte is sent, and has
    no later events."""
    form = request.GET.get("format", "")
    if form not in FORMATS:
        raise Invalid("Choose a format: jsonl or csv.")
    words, wanted, ignored = _filter(request)
    if ignored:
        # A list may ignore a filter that it cannot understand; a file must contain exactly what was asked for.
        raise Invalid(f"This part of the query cannot be understood: {', '.join(ignored)}.")
    tenant_id = request.person.tenant_id
    up_to = begin_export(request.caller, form=form, query={name: value for name, value in words.items() if value})
    rows = audit.export_events(tenant_id, wanted, up_to=up_to)
    chunks = _jsonl(rows) if form == "jsonl" else _csv(rows)
    response = StreamingHttpResponse(chunks, content_type=FORMATS[form])
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    response["Content-Disposition"] = f'attachment; filename="taskhub-audit-{stamp}.{form}"'
    return response  # type: ignore[return-value]  # it is no subclass of HttpResponse, but Django takes it


def _filter(request: HttpRequest) -> tuple[dict[str, str], audit.EventFilter, list[str]]:
    """The filters as text by name, the `EventFilter` made of them, and the names of those that cannot be understood."""
    words = {name: query.text(request, name) for name in FIELDS}
    now = datetime.now(UTC)
    since, until = (query.moment(request, name, now=now) for name in ("since", "until"))
    if words["door"] and words["door"] not in set(Door):
        words["door"] = ""
    if since is None:
        words["since"] = ""
    if until is None:
        words["until"] = ""
    ignored = [name for name in FIELDS if request.GET.get(name, "").strip() and not words[name]]
    return (
        words,
        audit.EventFilter(
            action=words["action"],
            actor=words["actor"],
            task=words["task"],
            door=words["door"],
            address=words["address"],
            since=since,
            until=until,
            text=words["text"],
        ),
        ignored,
    )


def _filters(words: dict[str, str]) -> AuditFilters:
    filters = AuditFilters(words)
    filters.offer("door", "any", ((door.value, door.value) for door in Door))
    return filters


def _export_url(form: str, words: dict[str, str]) -> str:
    return reverse("audit-export") + query.url(format=form, **words)


def _line(row: audit.EventRow) -> dict[str, object]:
    return {
        "id": row.id,
        "at": row.at.isoformat(),
        "action": row.action,
        "actor": row.actor,
        "door": row.door,
        "address": row.address,
        "task": row.task_public_id or (None if row.task_id is None else f"#{row.task_id}"),
        "client": row.context_name,
        "target": row.target,
        "reason": row.reason,
        "before": row.before,
        "after": row.after,
    }


def _cut_note() -> str:
    return f"cut at {audit.EXPORT_ROWS:,} rows; narrow the time with since and until to get the rest"


def _jsonl(rows: Iterator[audit.EventRow]) -> Iterator[bytes]:
    """A JSON object per line. An export that is cut ends with the object `{"cut": …}`."""
    for number, row in enumerate(rows):
        if number == audit.EXPORT_ROWS:
            yield json.dumps({"cut": _cut_note()}).encode() + b"\n"
            return
        yield visible_json(_line(row), indent=None).encode() + b"\n"


def _csv(rows: Iterator[audit.EventRow]) -> Iterator[bytes]:
    """A header, then a row for each event. An export that is cut ends with a row that says so."""
    yield _csv_row(COLUMNS)
    for number, row in enumerate(rows):
        if number == audit.EXPORT_ROWS:
            yield _csv_row([_cut_note()])
            return
        yield _csv_row([_cell(value) for value in _line(row).values()])


def _csv_row(cells: tuple[str, ...] | list[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue().encode()


def _cell(value: object) -> str:
    """The value as text that no spreadsheet takes for a formula. Names and reasons come from outside, and a spreadsheet
    would calculate a cell that begins with one of these characters."""
    if value is None:
        return ""
    text = spelled(value if isinstance(value, str) else visible_json(value, indent=None))
    return (
        f"'{text}"
        if text.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))
        else text
    )
