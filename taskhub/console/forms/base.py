"""The base class and the fields of the console's forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from django import forms

from taskhub.core.errors import TaskHubError
from taskhub.lib.numbers import whole
from taskhub.lib.signs import spelled


class ConsoleForm(forms.Form):
    """A form that leaves validation to the use case, so that the console, the API and commands give the same messages.
    `refuse` shows the use case's error beside the field that it names."""

    first: ClassVar[str] = ""
    """The field that has the focus when the form opens."""
    aliases: ClassVar[dict[str, str]] = {}
    """Maps the use case's name of a field to its name in this form, where they differ."""

    def __init__(self, data: Any = None, **options: Any) -> None:
        super().__init__(data, use_required_attribute=False, **options)

    @property
    def focus(self) -> str:
        """The field to focus: the first with an error, else `first`; empty if there are errors, but none about a
        field."""
        return next((name for name in self.fields if name in self.errors), "" if self.errors else self.first)

    def refuse(self, error: TaskHubError) -> None:
        """Show the use case's error in the form, beside the field that it names."""
        told = str(error.data.get("field", ""))
        name = self.aliases.get(told, told)
        self.add_error(name if name in self.fields else None, error.message)


class Typed(forms.CharField):
    """A text field, stripped of surrounding whitespace.

    `longest` and `demanded` set `maxlength` and `required` of the input, which only browsers enforce. A longer text
    from another sender is cut 100 characters above `longest`, so that the use case can still refuse it as too long.
    """

    def __init__(self, *, longest: int = 200, demanded: bool = False, look: str = "", **options: Any) -> None:
        self.longest = longest
        attributes = options.pop("attrs", {})
        attributes = {"maxlength": longest, "autocomplete": "off", **attributes}
        attributes = {name: value for name, value in attributes.items() if value is not None}
        if demanded:
            attributes["required"] = True
        if look:
            attributes["class"] = look
        widget = options.pop("widget", forms.TextInput)
        super().__init__(required=False, widget=widget(attrs=attributes), **options)
        self.validators.clear()  # Django's validator forbids U+0000; the use cases refuse it with their own message

    def to_python(self, value: Any) -> str:
        """The text, cut to `longest` + 100 characters: still too long, so that the use case refuses it."""
        return (super().to_python(value) or "")[: self.longest + 100]


class Whole(Typed):
    """A whole number. The limits are only for the browser's input; the use case checks them. An empty input is `None`
    if the field is `optional`, else an error."""

    def __init__(
        self, *, low: int, high: int, demanded: bool = False, optional: bool = False, refusal: str = "", **options: Any
    ) -> None:
        self.optional = optional
        self.refusal = refusal or "Give a whole number, not {}."
        # `None` leaves the attribute out: number inputs have no `maxlength`, and browsers suggest no numbers.
        limits = {"min": low, "max": high, "maxlength": None, "autocomplete": None}
        super().__init__(longest=20, demanded=demanded, widget=forms.NumberInput, attrs=limits, **options)

    def clean(self, value: Any) -> int | None:
        """The number; `None` for an empty input if the field is `optional`."""
        text = self.to_python(value)
        if self.optional and not text:
            return None
        number = whole(text, most=999_999_999)
        if number is None:
            raise forms.ValidationError(self.refusal.format(repr(text[:20])))
        return number


def picked(choices: Iterable[tuple[str, str]], **options: Any) -> forms.CharField:
    """A select. A posted value that is not among the choices is accepted here: the use case refuses it with its own
    message."""
    shown = [(value, spelled(words)) for value, words in choices]
    return forms.CharField(required=False, widget=forms.Select(choices=shown), **options)
