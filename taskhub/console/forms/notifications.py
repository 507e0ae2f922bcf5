"""The forms about messages to a person: which ones they get, when, and at which addresses."""

from __future__ import annotations

from datetime import time
from typing import Any, Final

from django import forms

from taskhub.console.channels import WORDS
from taskhub.console.forms.access import Boxes
from taskhub.console.forms.base import ConsoleForm, Typed, picked
from taskhub.core.errors import Invalid
from taskhub.domain.notices import targets
from taskhub.domain.notices.addresses import MAX_ADDRESS, Own
from taskhub.domain.notices.channels import Channel
from taskhub.domain.notices.choices import DAILY, SOON, Choices, zones
from taskhub.domain.notices.kinds import PERSONAL, UNDECIDABLE

_PACES: Final = ((SOON, "Soon: all that came together, once a minute at most"), (DAILY, "Once a day, all that waits"))


class _TimeInput(forms.TextInput):
    input_type = "time"


class OfDay(Typed):
    """A time of day; `None` for an empty input."""

    def __init__(self, **options: Any) -> None:
        super().__init__(longest=8, widget=_TimeInput, **options)

    def clean(self, value: Any) -> time | None:
        """The time, to the minute; `None` for an empty input. Raises `ValidationError` for anything else."""
        text = self.to_python(value)
        if not text:
            return None
        try:
            return time.fromisoformat(text).replace(second=0, microsecond=0, tzinfo=None)
        except ValueError:
            raise forms.ValidationError("Give a time of day, such as 22:00.") from None


class AddressForm(ConsoleForm):
    """Asks for the address at which a channel reaches a person."""

    address = Typed(longest=MAX_ADDRESS, attrs={"autocomplete": "off"})
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput(attrs={"data-zone": ""}))

    def __init__(self, data: Any = None, *, channel: Channel, own: Own | None = None, **options: Any) -> None:
        """`own`: the person's stored address on the channel, to fill in."""
        if own is not None:
            options["initial"] = {"address": own.pending or own.address}
        super().__init__(data, auto_id=f"id_{channel}_%s", **options)
        field, words = self.fields["address"], WORDS[channel]
        field.label, field.help_text = words.label, words.hint
        if channel == Channel.APPRISE:
            field.help_text += f" Services of this hub: {', '.join(targets.names())}."
        if words.kind == "email":
            field.widget.input_type = "email"
            field.widget.attrs["autocomplete"] = "email"


class ChoicesForm(ConsoleForm):
    """Asks which messages a person gets, and when. The choices hold for all channels."""

    kinds = Boxes(label="Tell me when", choices=list(PERSONAL.items()))
    pace = forms.CharField(required=False, label="When", widget=forms.RadioSelect(choices=_PACES))
    daily_at = OfDay(label="Time of the daily message")
    quiet_from = OfDay(label="Quiet from", help_text="What comes then is sent when it ends. Empty: never quiet.")
    quiet_until = OfDay(label="Quiet until")
    zone = picked([(name, name) for name in zones()], label="Time zone of these times")

    def __init__(self, data: Any = None, *, admin: bool = False, **options: Any) -> None:
        """`admin`: whether to offer messages for administrators too."""
        super().__init__(data, **options)
        if not admin:
            boxes: Any = self.fields["kinds"]
            boxes.choices = [(kind, words) for kind, words in boxes.choices if kind != UNDECIDABLE]

    @classmethod
    def of(cls, choices: Choices, *, admin: bool = False) -> ChoicesForm:
        """The form with the stored choices of a person filled in. `admin` as in the constructor."""
        form = cls(
            admin=admin,
            initial={
                "kinds": list(choices.kinds),
                "pace": choices.pace,
                "daily_at": _clock(choices.daily_at) or "08:00",
                "quiet_from": _clock(choices.quiet_from),
                "quiet_until": _clock(choices.quiet_until),
                "zone": choices.zone,
            },
        )
        if not choices.stored:
            form.fields["zone"].widget.attrs["data-zone"] = ""
        return form

    @property
    def choices(self) -> Choices:
        """What the person wants. Raises `Invalid` for an unknown time zone."""
        given: dict[str, Any] = self.cleaned_data
        if given["zone"] not in zones():
            raise Invalid("Choose a time zone.", field="zone")
        return Choices(
            kinds=given["kinds"],
            pace=given["pace"],
            daily_at=given["daily_at"],
            quiet_from=given["quiet_from"],
            quiet_until=given["quiet_until"],
            zone=given["zone"],
        )


def _clock(at: time | None) -> str:
    return at.isoformat("minutes") if at else ""
