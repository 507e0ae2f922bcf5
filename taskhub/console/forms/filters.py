"""Rows of filters above lists. Views read the values from the URL; these forms only draw the controls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django import forms

from taskhub.console.forms.base import Typed, picked

FREE: Final[dict[str, Any]] = {"autocomplete": None}
"""A browser may suggest what was typed before."""
SEARCH: Final[dict[str, Any]] = {"type": "search", "data-search": True} | FREE


class Filters(forms.Form):
    """Drawn with the values in force. A label encloses each control, so no ids are needed."""

    def __init__(self, now: dict[str, Any]) -> None:
        super().__init__(initial=now, auto_id=False)

    def offer(self, name: str, none: str, choices: Iterable[tuple[Any, str]]) -> None:
        """Set the choices of a list, after `none`, the word for no choice."""
        field = picked([("", none), *choices])
        self.fields[name].widget = field.widget


class TaskFilters(Filters):
    """Above the list of tasks."""

    q = Typed(
        label="Search",
        attrs={**SEARCH, "autocomplete": "off", "id": "q", "placeholder": "Id, tool, argument or message"},
    )
    tool = picked((), label="Tool")
    client = picked((), label="Client")
    age = picked((), label="Time")
    # Outside of the form: it stands beside the tabs, which are replaced with the rows.
    state = forms.CharField(required=False, widget=forms.HiddenInput(attrs={"form": "filters"}))


class ClientFilters(Filters):
    """Above the list of clients."""

    q = Typed(label="Name, issuer or subject", attrs=SEARCH)
    state = picked((("", "any"), ("active", "active"), ("disabled", "locked out")), label="State")


class AuditFilters(Filters):
    """Above the log."""

    text = Typed(label="Text in target, reason or details", attrs=SEARCH)
    action = Typed(label="Action", longest=64, attrs={"list": "actions", "placeholder": "task or task.created"} | FREE)
    actor = Typed(label="Actor", attrs=FREE)
    since = Typed(label="Since", longest=40, attrs={"placeholder": "24h or 2026-07-31"} | FREE)
    until = Typed(label="Until", longest=40, attrs={"placeholder": "2026-07-31T18:00"} | FREE)
    task = Typed(label="Task", longest=64, look="mono", attrs={"placeholder": "id"} | FREE)
    door = picked((), label="Channel")
    address = Typed(label="Address", longest=64, look="mono", attrs={"placeholder": "10.1."} | FREE)
