"""Filters above lists. Views read the values from the URL; these forms only draw the controls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django import forms

from taskhub.console.forms.base import Typed, picked

FREE: Final[dict[str, Any]] = {"autocomplete": None}
"""Leaves out `autocomplete`, so that the browser may suggest earlier input."""
SEARCH: Final[dict[str, Any]] = {"type": "search", "data-search": True} | FREE


class Filters(forms.Form):
    """A row of filter controls with the current values. A label encloses each control, so it needs no id."""

    def __init__(self, now: dict[str, Any]) -> None:
        super().__init__(initial=now, auto_id=False)

    def offer(self, name: str, none: str, choices: Iterable[tuple[Any, str]]) -> None:
        """Set the choices of the select `name`; the first one is empty, with the label `none`."""
        field = picked([("", none), *choices])
        self.fields[name].widget = field.widget


class TaskFilters(Filters):
    """Filters of the task list."""

    q = Typed(
        label="Search",
        attrs={**SEARCH, "autocomplete": "off", "id": "q", "placeholder": "Id, tool, argument or message"},
    )
    tool = picked((), label="Tool")
    client = picked((), label="Client")
    age = picked((), label="Time")
    by = picked((), label="By")
    since = Typed(label="Since", longest=40, attrs={"placeholder": "24h or 2026-07-31"} | FREE)
    until = Typed(label="Until", longest=40, attrs={"placeholder": "2026-07-31T18:00"} | FREE)
    # Drawn outside of the form, beside the tabs, because it must be replaced together with tabs and rows.
    state = forms.CharField(required=False, widget=forms.HiddenInput(attrs={"form": "filters"}))


class InboxFilters(Filters):
    """Filters of the open questions in the inbox."""

    q = Typed(label="Search", attrs={**SEARCH, "id": "q", "placeholder": "Call or question"})
    tool = picked((), label="Tool")
    client = picked((), label="Client")
    kind = picked((), label="Kind")
    risk = picked((), label="Risk")
    group = picked((), label="Group")
    age = picked((), label="Asked")
    sort = picked((), label="Order")
    conversation = picked((), label="Conversation")
    queue = forms.CharField(required=False, widget=forms.HiddenInput)


class ClientFilters(Filters):
    """Filters of the client list."""

    q = Typed(label="Name, issuer or subject", attrs=SEARCH)
    state = picked((("", "any"), ("active", "active"), ("disabled", "locked out")), label="State")


class ReachFilters(Filters):
    """Searches by name in one of two lists: the tools that a client may call, or the clients that may call a tool."""

    q = Typed(label="Name", attrs=SEARCH)


class AuditFilters(Filters):
    """Filters of the audit log."""

    text = Typed(label="Text in target, reason or details", attrs=SEARCH)
    action = Typed(label="Action", longest=64, attrs={"list": "actions", "placeholder": "task or task.created"} | FREE)
    actor = Typed(label="Actor", attrs=FREE)
    since = Typed(label="Since", longest=40, attrs={"placeholder": "24h or 2026-07-31"} | FREE)
    until = Typed(label="Until", longest=40, attrs={"placeholder": "2026-07-31T18:00"} | FREE)
    task = Typed(label="Task", longest=64, look="mono", attrs={"placeholder": "id"} | FREE)
    door = picked((), label="Channel")
    address = Typed(label="Address", longest=64, look="mono", attrs={"placeholder": "10.1."} | FREE)
