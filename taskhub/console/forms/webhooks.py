"""The form of a webhook."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.utils.html import format_html

from taskhub.console.forms.access import Boxes
from taskhub.console.forms.base import ConsoleForm, Typed
from taskhub.domain.notices.kinds import SAYS, Kind
from taskhub.domain.notices.webhooks import MAX_NAME, MAX_URL, Wanted, WebhookRow

_STAYS: Final = "Stored encrypted. Leave it empty to keep the present one."


class WebhookForm(ConsoleForm):
    """Asks for a webhook's name and address, and for the events that are sent there."""

    first = "name"

    name = Typed(label="Name", longest=MAX_NAME, demanded=True)
    url = Typed(
        label="Address",
        longest=MAX_URL,
        widget=forms.URLInput,
        help_text="http or https. Stored encrypted: pages show its origin only.",
    )
    kinds = Boxes(
        label="Events",
        initial=list(Kind),
        choices=[
            (kind, format_html('<code>{}</code> <span class="soft">{}</span>', kind, SAYS[kind])) for kind in Kind
        ],
    )
    client = Typed(
        label="Only of the client",
        longest=255,
        help_text="The name of a client: then only what belongs to it is sent. Empty for all.",
    )

    @classmethod
    def of(cls, row: WebhookRow) -> WebhookForm:
        """The form that changes a webhook."""
        return cls(initial={"name": row.name, "kinds": row.kinds, "client": row.client or ""}).changing()

    def changing(self) -> WebhookForm:
        """Change the form to one for an existing webhook, whose address may stay as it is, and return it."""
        self.fields["url"].help_text = _STAYS
        return self

    @property
    def wanted(self) -> Wanted:
        """The posted settings of the webhook."""
        given: dict[str, Any] = self.cleaned_data
        return Wanted(given["name"], given["url"] or None, given["kinds"], given["client"])
