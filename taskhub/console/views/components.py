"""A page for developers that shows every part of the console in every state."""

from __future__ import annotations

from typing import Final

from django import forms
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from taskhub.console.forms.base import ConsoleForm, Typed, Whole, picked
from taskhub.console.forms.filters import ClientFilters
from taskhub.console.templatetags.console import LOOKS

FOREIGN: Final = (
    *("pay\u202efdp.exe", "one\ntwo", " a     b ", "p\u0430ypal", "yes\U000e006e\U000e006f", "z" + "\u0301" * 9),
    *("pay \u05d0\u05d1 100", "\u05d0\u05d1 to 100", "\U0001f469\u200d\U0001f467", "x" * 400),
)
LONG: Final = "a-name-that-is-far-longer-than-any-place-it-could-ever-stand-in-because-a-server-chose-it"


class Sample(ConsoleForm):
    """A form with one field of each kind."""

    text = Typed(label="Text", help_text="What stands below a label.")
    code = Typed(label="Code", look="mono", attrs={"placeholder": "a placeholder"})
    secret = Typed(label="Password", widget=forms.PasswordInput)
    number = Whole(label="Number", low=1, high=20)
    choice = picked((("", "None of them"), ("a", "The first"), ("b", "The second")), label="Choice")
    moment = forms.CharField(label="Date", required=False, widget=forms.DateInput(attrs={"type": "date"}))
    prose = Typed(label="Prose", widget=forms.Textarea, attrs={"rows": 3})
    box = forms.BooleanField(label="One box", required=False)
    one = forms.ChoiceField(label="One of", widget=forms.RadioSelect, choices=[("a", "The first"), ("b", "The second")])
    some = forms.MultipleChoiceField(
        label="Some of", widget=forms.CheckboxSelectMultiple, choices=[("a", "The first"), ("b", "The second")]
    )


def _wrong() -> Sample:
    form = Sample({"text": LONG, "number": "99", "choice": "b", "box": "on"}, auto_id="wrong_%s")
    form.is_valid()
    for name in form.fields:
        if name not in form.errors:
            form.add_error(name, "What was expected, what was found, and what to do next.")
    form.add_error(None, "What is wrong with all of it.")
    return form


@require_safe
def components(request: HttpRequest) -> HttpResponse:
    """The page of all parts; 404 unless `DEBUG` is on."""
    if not settings.DEBUG:
        raise Http404
    return render(
        request,
        "console/components.html",
        {
            "form": Sample(initial={"text": "As it was", "number": 3, "one": "a", "some": ["b"]}),
            "wrong": _wrong(),
            "filters": ClientFilters({"q": "", "state": "active"}),
            "looks": ("", "primary", "danger", "primary danger", "quiet"),
            "kinds": ("info", "success", "warning", "error"),
            "states": LOOKS,
            "hues": ("good", "warn", "danger", "accent", ""),
            "long": LONG,
            "foreign": FOREIGN,
        },
    )
