"""The form that begins a bypass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django import forms

from taskhub.console.forms.base import ConsoleForm, Typed, Whole
from taskhub.core.bypass import MAX_MINUTES, MAX_REASON
from taskhub.lib.numbers import whole

DEFAULT_MINUTES: Final = 30


class BypassForm(ConsoleForm):
    """Asks how many minutes the bypass lasts, for what reason, and whether it is for calls of all servers or of one
    server."""

    first = "reason"

    reason = Typed(
        label="Reason",
        longest=MAX_REASON,
        demanded=True,
        help_text="Shown on every page, with each call that was let pass, and in the audit log.",
    )
    minutes = Whole(
        label="Minutes",
        low=1,
        high=MAX_MINUTES,
        demanded=True,
        initial=DEFAULT_MINUTES,
        help_text=f"It ends by itself, after {MAX_MINUTES:,} minutes (a day) at the latest.",
    )
    server = forms.ChoiceField(
        required=False,
        label="Calls of",
        help_text="Those of one server, if only that cannot wait.",
    )

    def offer_servers(self, servers: Iterable[tuple[int, str]]) -> None:
        """Offer these servers, each an id and a name, in the select."""
        choice = self.fields["server"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [("", "all servers"), *((str(number), name) for number, name in servers)]

    @property
    def server_id(self) -> int | None:
        """The id of the chosen server; `None` for all."""
        return whole(self.cleaned_data["server"], most=2**63 - 1)
