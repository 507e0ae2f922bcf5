"""Forms about the access of clients: tokens, applications, consents, and how calls wait."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.conf import settings
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from taskhub.console.forms.base import ConsoleForm, Typed, Whole, picked
from taskhub.core.names import APPROVALS_SCOPE, CALL_SCOPES, SCOPES
from taskhub.domain.clients.patience import CallerSettings

DAYS: Final = 90
MAX_DAYS: Final = 3_650
MAX_PATIENCE: Final = 3_600
SCOPE_WORDS: Final = {
    "tasks:call": "call tools",
    "tasks:read": "read its tasks",
    "tasks:answer": "answer questions of its tasks",
    "tasks:cancel": "cancel its tasks",
    APPROVALS_SCOPE: "have calls approved that it makes elsewhere",
}
CONSENT_WORDS: Final = {
    "tasks:call": ("Run tools", "It starts tasks in your name, which others may have to approve."),
    "tasks:read": ("Read the tasks it started", "Their state, progress and results. No tasks of anybody else."),
    "tasks:answer": ("Answer questions of those tasks", "Instead of you, where a tool asks its caller."),
    "tasks:cancel": ("Cancel those tasks", "Ask them to stop."),
    APPROVALS_SCOPE: ("Have calls approved", "Ask in your name for permits to make calls without this hub."),
}
"""For each scope: its label and its explanation on the consent page."""


class Boxes(forms.MultipleChoiceField):
    """Checkboxes. Posted values that are not among the choices are ignored."""

    widget = forms.CheckboxSelectMultiple

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)

    def clean(self, value: Any) -> list[str]:
        """The offered values that are ticked, in the order of the choices."""
        # The stubs allow groups among the choices; here all are pairs.
        return [str(key) for key, _ in self.choices if str(key) in (value or ())]  # type: ignore[union-attr, misc]


class TokenForm(ConsoleForm):
    """Issues a token for a client: a named one, or an existing one by its id (`context`).

    `once` identifies the rendered form, so that a form that is sent twice makes one token.
    """

    first = "client"
    client = Typed(
        label="Name",
        longest=128,
        demanded=True,
        help_text=mark_safe(
            "The program that will call, such as <code>ci-deployer</code>. An existing name gets one more token."
        ),
    )
    scopes = Boxes(
        initial=CALL_SCOPES,
        choices=[
            (scope, format_html('<code>{}</code> <span class="soft">{}</span>', scope, SCOPE_WORDS.get(scope, scope)))
            for scope in SCOPES
        ],
    )
    days = Whole(
        label="Days until it expires",
        low=1,
        high=MAX_DAYS,
        initial=DAYS,
        demanded=True,
        refusal="A token lasts a whole number of days, 1 to 3650, not {}.",
    )
    context = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
    once = forms.CharField(required=False, max_length=40, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, known: bool = False, **options: Any) -> None:
        super().__init__(data, **options)
        del self.fields["client" if known else "context"]

    def clean_scopes(self) -> list[str]:
        """Refuses a token without any scope."""
        scopes: list[str] = self.cleaned_data["scopes"]
        if not scopes:
            raise forms.ValidationError("Tick at least one scope.")
        return scopes


class LeaveTasksForm(ConsoleForm):
    """Asks what to do with the live tasks of a client that is locked out."""

    tasks = forms.ChoiceField(
        required=False,
        initial="keep",
        choices=[("keep", "Let them go on"), ("cancel", "Ask them to stop")],
        widget=forms.RadioSelect,
    )

    def __init__(self, data: Any = None, *, live: str = "") -> None:
        super().__init__(data)
        self.fields["tasks"].label = f"{live} of its tasks {'has' if live == '1' else 'have'} not ended"

    @property
    def stops(self) -> bool:
        """Whether the client's tasks are to be asked to stop."""
        return self.is_valid() and self.cleaned_data["tasks"] == "cancel"


class WaitingForm(ConsoleForm):
    """Sets how long a client's plain calls wait for a result, and whether the client's tool list has the hub's own
    tools."""

    first = "patience"
    patience = Whole(
        label="Seconds until an interim result",
        low=1,
        high=MAX_PATIENCE,
        optional=True,
        help_text=(
            "Below the time-out of its programs. Empty: automatic; going back to that forgets what was learned."
        ),
    )
    hub_tools = picked((), label="Tools of the hub")

    def __init__(self, data: Any = None, *, now: CallerSettings | None = None) -> None:
        initial = {}
        if now is not None:
            seconds = None if now.patience_ms is None else now.patience_ms // 1_000
            initial = {"patience": seconds, "hub_tools": {None: "", True: "yes", False: "no"}[now.hub_tools]}
        super().__init__(data, initial=initial)
        listed = "listed" if settings.TASKHUB_HUB_TOOLS else "not listed"
        self.fields["hub_tools"].widget.choices = [
            ("", f"As the setting says ({listed})"),
            ("yes", "Listed to it"),
            ("no", "Not listed to it"),
        ]

    def clean_hub_tools(self) -> bool | None:
        """Whether the tool list has the hub's own tools; `None` to follow the setting `TASKHUB_HUB_TOOLS`."""
        answers = {"": None, "yes": True, "no": False}
        if self.cleaned_data["hub_tools"] not in answers:
            raise forms.ValidationError("Choose yes, no, or as the setting says.")
        return answers[self.cleaned_data["hub_tools"]]


class ApplicationForm(ConsoleForm):
    """The name and the redirect URIs of an application, which can be changed later."""

    first = "name"
    aliases = {"redirect_uris": "redirects"}
    name = Typed(
        label="Name",
        longest=100,
        demanded=True,
        help_text="Shown to people when they are asked to grant access.",
    )
    redirects = Typed(
        label="Redirect addresses",
        longest=20_000,
        demanded=True,
        look="mono",
        widget=forms.Textarea,
        attrs={"rows": 4, "spellcheck": "false"},
        help_text=mark_safe(
            "One per line, exactly as the program sends them: <code>https://…</code>, or <code>http://127.0.0.1/…</code>"
            " for a program on the person's own machine, which may then use any port."
        ),
    )

    @property
    def addresses(self) -> list[str]:
        """The redirect URIs."""
        return str(self.cleaned_data["redirects"]).split()


class NewApplicationForm(ApplicationForm):
    """A new application. Its kind cannot be changed later."""

    type = forms.CharField(
        label="Kind",
        required=False,
        initial="public",
        widget=forms.RadioSelect(
            choices=[
                (kind, format_html('{} <span class="soft">{}</span>', kind.title(), words))
                for kind, words in (
                    ("public", "runs on people's machines or in their browsers, where no secret stays one"),
                    ("confidential", "runs on a server and can keep a secret"),
                )
            ]
        ),
    )

    @property
    def confidential(self) -> bool:
        """Whether the application gets a secret."""
        return bool(self.cleaned_data["type"] == "confidential")


class ConsentForm(ConsoleForm):
    """The scopes that a person grants to an application, among those in `offer`."""

    grant = Boxes(label="What it may do")

    def __init__(self, data: Any = None, *, offer: tuple[str, ...]) -> None:
        super().__init__(data, initial={"grant": offer})
        self.fields["grant"].choices = [  # type: ignore[attr-defined]  # the field is a `Boxes`
            (scope, format_html('{} <code>{}</code><span class="help">{}</span>', words, scope, more))
            for scope, (words, more) in CONSENT_WORDS.items()
            if scope in offer
        ]

    def clean_grant(self) -> tuple[str, ...]:
        """Refuses a consent in which nothing is chosen; to deny it there is a button."""
        grant = tuple(self.cleaned_data["grant"])
        if not grant:
            raise forms.ValidationError("Tick what it may do, or deny it everything.")
        return grant
