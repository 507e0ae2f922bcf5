"""The form of a person who goes away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import forms

from taskhub.console.forms.base import ConsoleForm, Typed, picked
from taskhub.core.errors import Invalid
from taskhub.domain.notices.choices import zones
from taskhub.domain.people.absences import Away


class _MomentInput(forms.TextInput):
    input_type = "datetime-local"


class Moment(Typed):
    """A date and time without a zone; `None` for an empty input."""

    def __init__(self, **options: Any) -> None:
        super().__init__(longest=32, widget=_MomentInput, **options)

    def clean(self, value: Any) -> datetime | None:
        """The time as it was typed, without a zone; `None` for an empty input. Raises `ValidationError` for anything
        else."""
        text = self.to_python(value)
        if not text:
            return None
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise forms.ValidationError("Give a date and a time.") from None
        if not 2 <= found.year <= 9998:  # so that it is a time in every zone
            raise forms.ValidationError("Give a date and a time.")
        return found.replace(tzinfo=None)


class AbsenceForm(ConsoleForm):
    """Says until when a person is away, and who decides for them."""

    until = Moment(label="Away until", help_text="No message comes before. Then one tells what still waits for you.")
    zone = picked([(name, name) for name in zones()], label="Time zone")
    deputy = picked(
        [],
        label="Deputy",
        help_text="Somebody who may approve calls. Until then they decide for your groups too, and what is handed over"
        " to you. It gives them no other right, and each of you counts once.",
    )

    def __init__(self, data: Any = None, *, deputies: Sequence[str], **options: Any) -> None:
        """`deputies`: whom the person may name. If there is nobody, the form has no input for a deputy."""
        super().__init__(data, **options)
        if deputies:
            chosen: Any = self.fields["deputy"]
            chosen.widget.choices = [("", "Nobody"), *((name, name) for name in deputies)]
        else:
            del self.fields["deputy"]

    @classmethod
    def of(cls, away: Away | None, *, zone: str, deputies: Sequence[str]) -> AbsenceForm:
        """The form with the absence `away` filled in, if there is one. Times are in `zone`, the time zone of the
        person."""
        until = "" if away is None else f"{away.until.astimezone(ZoneInfo(zone)):%Y-%m-%dT%H:%M}"
        deputy = "" if away is None else away.deputy
        return cls(deputies=deputies, initial={"until": until, "zone": zone, "deputy": deputy})

    @property
    def ends_at(self) -> datetime:
        """The time until which the person is away, in UTC. Raises `Invalid` naming the field."""
        given: dict[str, Any] = self.cleaned_data
        if given["zone"] not in zones():
            raise Invalid("Choose a time zone.", field="zone")
        if given["until"] is None:
            raise Invalid("Give a date and a time.", field="until")
        found: datetime = given["until"].replace(tzinfo=ZoneInfo(given["zone"])).astimezone(UTC)
        return found
