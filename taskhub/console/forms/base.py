"""What the console's forms have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from django import forms

from taskhub.core.errors import TaskHubError
from taskhub.lib.numbers import whole
from taskhub.lib.signs import spelled


class ConsoleForm(forms.Form):
    """A form that takes what was typed; what is right says the operation that it is handed to, in one place for
    every door. `refuse` puts its answer beside the field that it is about.
    """

    first: ClassVar[str] = ""
    """The field that has the focus when the form opens."""
    aliases: ClassVar[dict[str, str]] = {}
    """What an operation calls a field: what it is called here."""

    def __init__(self, data: Any = None, **options: Any) -> None:
        super().__init__(data, use_required_attribute=False, **options)

    @property
    def focus(self) -> str:
        """The field to begin with: the first that is wrong."""
        return next((name for name in self.fields if name in self.errors), "" if self.errors else self.first)

    def refuse(self, error: TaskHubError) -> None:
        """Say why what was typed does not do."""
        told = str(error.data.get("field", ""))
        name = self.aliases.get(told, told)
        self.add_error(name if name in self.fields else None, error.message)


class Typed(forms.CharField):
    """Text as it was typed, without the blanks around it. `longest` is what the browser lets anybody type; `demanded`
    has it ask for something. Of what comes otherwise no more is taken than it takes to refuse it.
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
        self.validators.clear()  # Django's own forbids U+0000, which the operations refuse in their words

    def to_python(self, value: Any) -> str:
        """Cut beyond what could be right."""
        return (super().to_python(value) or "")[: self.longest + 100]


class Whole(Typed):
    """A whole number from `low` to `high`; the operation says whether it fits.

    Where it is `optional`, nothing is `None`.
    """

    def __init__(
        self, *, low: int, high: int, demanded: bool = False, optional: bool = False, refusal: str = "", **options: Any
    ) -> None:
        self.optional = optional
        self.refusal = refusal or "Give a whole number, not {}."
        # A browser knows no longest number, and suggests none of its own.
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
    """One of a list. What is not on it comes through, and is refused by the operation in its own words."""
    shown = [(value, spelled(words)) for value, words in choices]
    return forms.CharField(required=False, widget=forms.Select(choices=shown), **options)
