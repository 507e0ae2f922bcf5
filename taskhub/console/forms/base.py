"""What the console's forms have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from django import forms

from taskhub.core.errors import TaskHubError
from taskhub.lib.numbers import whole
from taskhub.lib.signs import spelled


class ConsoleForm(forms.Form):
    """A form that only takes what was typed. The use case that gets it says what is wrong, in one place for every door;
    `refuse` puts its answer beside the field that it is about.
    """

    first: ClassVar[str] = ""
    """The field that has the focus when the form opens."""
    aliases: ClassVar[dict[str, str]] = {}
    """A use case's name of a field: its name here."""

    def __init__(self, data: Any = None, **options: Any) -> None:
        super().__init__(data, use_required_attribute=False, **options)

    @property
    def focus(self) -> str:
        """The first wrong field, else `first`; empty where only the form as a whole is wrong."""
        return next((name for name in self.fields if name in self.errors), "" if self.errors else self.first)

    def refuse(self, error: TaskHubError) -> None:
        """Show why the use case refused the input."""
        told = str(error.data.get("field", ""))
        name = self.aliases.get(told, told)
        self.add_error(name if name in self.fields else None, error.message)


class Typed(forms.CharField):
    """Text as it was typed, without surrounding blanks. The browser lets people type up to `longest` characters, and
    with `demanded` insists on some. Longer text, which can be sent without a browser, is cut just above the limit.
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
        self.validators.clear()  # Django's own forbids U+0000, which the use cases refuse in their own words

    def to_python(self, value: Any) -> str:
        """Cut what is too long in any case."""
        return (super().to_python(value) or "")[: self.longest + 100]


class Whole(Typed):
    """A whole number; the use case says whether it is within the limits.

    Where it is `optional`, an empty input is `None`.
    """

    def __init__(
        self, *, low: int, high: int, demanded: bool = False, optional: bool = False, refusal: str = "", **options: Any
    ) -> None:
        self.optional = optional
        self.refusal = refusal or "Give a whole number, not {}."
        # No `maxlength` for numbers in browsers, and no suggestions anyway.
        limits = {"min": low, "max": high, "maxlength": None, "autocomplete": None}
        super().__init__(longest=20, demanded=demanded, widget=forms.NumberInput, attrs=limits, **options)

    def clean(self, value: Any) -> int | None:
        """The number."""
        text = self.to_python(value)
        if self.optional and not text:
            return None
        number = whole(text, most=999_999_999)
        if number is None:
            raise forms.ValidationError(self.refusal.format(repr(text[:20])))
        return number


def picked(choices: Iterable[tuple[str, str]], **options: Any) -> forms.CharField:
    """One of a list. A value that is not on it is passed on, for the use case to refuse in its own words."""
    shown = [(value, spelled(words)) for value, words in choices]
    return forms.CharField(required=False, widget=forms.Select(choices=shown), **options)
