"""The form with which a person calls a tool. It is made from the tool's schema as the form for edited arguments is, or
has one input for all arguments as JSON."""

from __future__ import annotations

from typing import Any, Final

from django import forms

from taskhub.console.forms.edits import EditForm
from taskhub.core.asking import Asking
from taskhub.core.errors import TaskHubError
from taskhub.core.rules import EVERY_ARGUMENT
from taskhub.domain.questions.forms import MAX_FIELDS
from taskhub.domain.tasks.edits import MAX_EDITED
from taskhub.lib import jsonx
from taskhub.lib.signs import visible_json

_ALL: Final = Asking(editable=(EVERY_ARGUMENT,))
_LONGEST_DEFAULT: Final = 200
"""How many characters of an argument's default are shown beside its input."""
_MORE_THAN_NAMES: Final = ("$ref", "allOf", "anyOf", "oneOf", "patternProperties")
"""Words of a schema by which a call may have arguments that `properties` does not list."""


class TryForm(EditForm):
    """The arguments of a call. Empty inputs are not sent, so that the tool's defaults apply. With `as_json`, the
    arguments are typed as one JSON object."""

    once = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    whole = forms.CharField(
        required=False,
        label="Arguments",
        max_length=MAX_EDITED,
        strip=False,
        initial="{}",
        help_text="A JSON object.",
        widget=forms.Textarea(attrs={"rows": 8, "class": "mono", "spellcheck": "false"}),
    )

    def __init__(self, schema: Any, data: Any = None, *, as_json: bool = False) -> None:
        super().__init__(_ALL, {} if as_json else schema, {}, data)
        self.as_json = as_json
        self.focus = "whole" if as_json else "f0"
        self.fields["reason"].label = "Reason (optional)"
        if not as_json:
            del self.fields["whole"]
            _tell_defaults(self, schema)

    @property
    def inputs(self) -> list[forms.BoundField]:
        """The inputs for arguments: one for each, or one for all as JSON."""
        return [self["whole"]] if self.as_json else super().inputs

    def clean(self) -> dict[str, Any]:
        """Reads the inputs, and sets `arguments`. A value that does not fit is an error of its input."""
        cleaned = super().clean()
        if self.as_json and "whole" in cleaned:
            try:
                found = jsonx.decode((cleaned["whole"].strip() or "{}").encode("utf-8", "surrogatepass"))
            except jsonx.JsonError as error:
                self.add_error("whole", f"This is no JSON that calls may have: {error}.")
                return cleaned
            if isinstance(found, dict):
                self.arguments = found
            else:
                self.add_error("whole", 'Give a JSON object, such as {"service": "web"}.')
        return cleaned

    def show_once(self, once: str) -> None:
        """Put `once`, under which the call is made only once, into the form, so that it is sent with the form."""
        posted: Any = self.data
        self.data = posted = posted.copy()
        posted["once"] = once

    def refuse(self, error: TaskHubError) -> None:
        """Show the error beside the input that it is about. For arguments that do not fit the schema, the problem ends
        with the path of the argument, such as `… at count/0`: its first part names the input."""
        if self.as_json:
            self.add_error("whole", error.message)
            return
        about = str(error.data.get("problem", "")).rpartition(" at ")[2]
        if about and (name := self._input_of(about)):
            self.add_error(name, error.message)
            return
        super().refuse(error)

    def _input_of(self, path: str) -> str:
        for number, field in enumerate(self.wanted):
            if path == field.name or path.startswith(f"{field.name}/"):
                return f"f{number}"
        return ""


def only_as_json(schema: Any) -> bool:
    """Whether the tool's arguments can only be typed as JSON, because the schema has too many properties, or none but
    allows arguments."""
    if not isinstance(schema, dict):
        return False
    listed = schema.get("properties")
    names = len(listed) if isinstance(listed, dict) else 0
    open_ended = any(word in schema for word in _MORE_THAN_NAMES) or bool(schema.get("additionalProperties"))
    return names > MAX_FIELDS or (not names and open_ended)


def _tell_defaults(form: TryForm, schema: Any) -> None:
    """Say beside each input what applies if it is left empty."""
    rules = schema.get("properties") if isinstance(schema, dict) else None
    for number, field in enumerate(form.wanted):
        made = form.fields[f"f{number}"]
        rule = rules.get(field.name) if isinstance(rules, dict) else None
        default = ""
        if isinstance(rule, dict) and "default" in rule:
            default = visible_json(rule["default"], indent=None)[:_LONGEST_DEFAULT]
            made.help_text = f"{made.help_text} By default: {default}".strip()
        choices: Any = getattr(made.widget, "choices", None)
        if choices and field.kind == "choice" and not field.required:
            empty = f"Not given: {default}" if default else "Not given"
            made.widget.choices = [("", empty), *list(choices)[1:]]
