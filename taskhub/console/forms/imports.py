"""Forms to import servers from a file: the file, then the values that it asks for."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django import forms
from django.utils.safestring import mark_safe

from taskhub.console.forms.base import ConsoleForm, Typed, picked
from taskhub.console.forms.servers import SECRET
from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.server_files import Placeholder, ServersFile

MAX_BYTES: Final = 65_536
"""The most bytes of a file; `manage.py server import` accepts larger ones."""
MAX_VALUES: Final = 200
"""The most values that a file may ask for."""


class _Pasted(forms.Textarea):
    """A text area whose text is never sent back to the browser, because it may contain secrets."""

    def format_value(self, value: Any) -> None:
        """Returns `None`, so that nothing is filled in."""


class ImportForm(ConsoleForm):
    """The file: pasted or uploaded."""

    first = "text"
    text = forms.CharField(
        required=False,
        label="Paste it",
        widget=_Pasted(
            attrs={"class": "mono", "rows": 10, "spellcheck": "false", "autocomplete": "off", "maxlength": MAX_BYTES}
        ),
        help_text=mark_safe(
            "An <code>mcp.json</code> as Claude, VS Code, Cursor, Windsurf or Zed keep it, or a "
            "<code>server.json</code> of the MCP registry. The next page shows what it would add, and asks for "
            "what it needs; nothing is stored before that."
        ),
    )
    file = forms.FileField(required=False, label="Or choose the file", allow_empty_file=True)

    def clean(self) -> dict[str, Any]:
        """Check that a file was either pasted or uploaded, and put its content into `text`."""
        typed = self.cleaned_data
        text, file = typed.get("text") or "", typed.get("file")
        if bool(text.strip()) == (file is not None):
            raise forms.ValidationError(f"Paste a file or choose one, of at most {MAX_BYTES:,} bytes.")
        if file is not None and file.size <= MAX_BYTES:
            try:
                text = file.read().decode("utf-8")
            except UnicodeDecodeError:
                raise forms.ValidationError("The file is no UTF-8 text.") from None
        if (file is not None and file.size > MAX_BYTES) or len(text.encode("utf-8", "replace")) > MAX_BYTES:
            raise forms.ValidationError(
                f"The file is larger than {MAX_BYTES:,} bytes: import it with manage.py server import."
            )
        return {**typed, "text": text}


class ImportValuesForm(ConsoleForm):
    """Asks for the values that a file needs, each in a field `value-N`, and for an entry of the registry also for the
    name of the new server. `sealed` is the file, encrypted."""

    first: ClassVar[str] = "value-0"
    sealed = forms.CharField(required=False, widget=forms.HiddenInput)
    way = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, file: ServersFile, data: Any = None, *, sealed: str = "") -> None:
        super().__init__(data, initial={"sealed": sealed, "way": file.way})
        if len(file.placeholders) > MAX_VALUES:
            raise Invalid(f"The file asks for more than {MAX_VALUES} values.")
        if file.way:
            self.fields["name"] = Typed(label="Name", longest=64, initial=file.templates[0].name)
        self.asked = {f"value-{number}": each for number, each in enumerate(file.placeholders)}
        for name, each in self.asked.items():
            self.fields[name] = _field(each)

    def clean(self) -> dict[str, Any]:
        """Check that every value that is needed was given."""
        for name, each in self.asked.items():
            if each.needed and not self.cleaned_data.get(name):
                self.add_error(name, "A value is needed.")
        return self.cleaned_data

    @property
    def retype(self) -> bool:
        """Whether secrets have to be typed again, because a form that is shown again does not repeat them."""
        return bool(self.errors) and any(each.hidden and self[name].data for name, each in self.asked.items())

    def values(self) -> dict[str, str]:
        """The typed values, by the key by which the file asks for each."""
        return {each.key: self.cleaned_data[name] for name, each in self.asked.items()}


def _field(asked: Placeholder) -> forms.CharField:
    about = asked.description
    label = asked.key if asked.needed else f"{asked.key} (optional)"
    if asked.choices:
        blank = () if asked.default or asked.needed else (("", ""),)
        choices = (*blank, *((choice, choice) for choice in asked.choices))
        return picked(choices, label=label, help_text=about, initial=asked.default)
    if asked.hidden:
        secret = {**SECRET, "autocomplete": "new-password"}
        return Typed(
            label=label, longest=32_768, look="mono", widget=forms.PasswordInput, attrs=secret, help_text=about
        )
    return Typed(
        label=label, longest=2_000, look="mono", attrs={"spellcheck": "false"}, help_text=about, initial=asked.default
    )
