"""The forms with which people answer questions.

A form built from a tool's schema validates with `field_problem`, as a client's answer is validated, so both follow the
same rules. Its inputs are named `f0`, `f1`, …, never after the tool's property names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django import forms
from django.utils.html import format_html

from taskhub.core.errors import Invalid
from taskhub.domain.questions.asked_back import MAX_ASKED
from taskhub.domain.questions.forms import Field, field_problem
from taskhub.domain.questions.remarks import MAX_REMARK
from taskhub.lib import signs
from taskhub.lib.numbers import whole
from taskhub.lib.signs import spelled, without_invisible

RADIO_CHOICES: Final = 5
LONG_TEXT: Final = 200
INPUT_TYPES: Final = {"email": "email", "uri": "url", "date": "date", "date-time": "datetime-local"}


class AnswerForm(forms.Form):
    """A form built from `Field` records. `response()` is the answer that the tool receives."""

    def __init__(self, wanted: tuple[Field, ...], data: Any = None) -> None:
        super().__init__(data, auto_id="id_%s", use_required_attribute=False)
        self.wanted = wanted
        for number, field in enumerate(wanted):
            self.fields[f"f{number}"] = form_field(field)

    def clean(self) -> dict[str, Any]:
        """The values as JSON types. They are validated like a client's answer."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        for number, field in enumerate(self.wanted):
            name = f"f{number}"
            if name not in cleaned:
                continue
            value, problem = json_value(field, cleaned[name])
            if value is None and field.required and not problem:
                problem = "is required"
            if value is not None and not problem:
                problem = field_problem(field, value)
            if problem:
                self.add_error(name, f"{field.title} {problem}.")
            cleaned[name] = value
        return cleaned

    def response(self) -> dict[str, Any]:
        """The MCP result of the elicitation: values by property name, without fields that were left empty."""
        values = ((field.name, self.cleaned_data.get(f"f{n}")) for n, field in enumerate(self.wanted))
        return {"action": "accept", "content": {name: value for name, value in values if value is not None}}


class TextAnswerForm(forms.Form):
    """A written reply to a sampling request."""

    text = forms.CharField(
        label="Your reply",
        max_length=65_536,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text="The tool receives it in place of a model's reply, marked as written by a person.",
        error_messages={"required": "Write a reply."},
    )

    def response(self) -> dict[str, Any]:
        """The MCP result of the sampling request."""
        text = self.cleaned_data["text"].replace("\r\n", "\n")
        return {
            "role": "assistant",
            "content": {"type": "text", "text": text},
            "model": "human",
            "stopReason": "endTurn",
        }


class RootsForm(forms.Form):
    """A list of roots, one URI per line."""

    roots = forms.CharField(
        label="Roots",
        required=False,
        max_length=65_536,
        widget=forms.Textarea(attrs={"rows": 5, "placeholder": "file:///srv/project"}),
        help_text="One file:// URI per line. Leave empty for no roots.",
    )

    def clean_roots(self) -> list[dict[str, str]]:
        """The lines as MCP roots."""
        lines = [line.strip() for line in self.cleaned_data["roots"].splitlines() if line.strip()]
        for line in lines:
            if not line.startswith("file://") or " " in line:
                raise forms.ValidationError(f"{line[:80]} is not a file:// URI; write a space as %20.")
        return [{"uri": line} for line in lines]

    def response(self) -> dict[str, Any]:
        """The MCP result of `roots/list`."""
        return {"roots": self.cleaned_data["roots"]}


def tool_name() -> forms.CharField:
    """The input in which the tool's name has to be typed to approve a critical call."""
    return forms.CharField(
        required=False,
        max_length=200,
        label="Name of the tool",
        widget=forms.TextInput(
            attrs={"class": "mono", "autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}
        ),
    )


def factor_code() -> forms.CharField:
    """The input of a code of a second factor."""
    return forms.CharField(
        required=False,
        max_length=100,
        label="Code of your second factor",
        help_text="Of your authenticator app, or a recovery code. Only to approve.",
        widget=forms.TextInput(
            attrs={"class": "mono", "autocomplete": "one-time-code", "autocapitalize": "off", "spellcheck": "false"}
        ),
    )


PRESETS: Final = (
    "Not now: ask again later.",
    "The arguments are wrong: check them, and call again.",
    "This is not what was asked for.",
    "This needs somebody else’s word first.",
)
"""Reasons for a rejection that a person can choose instead of typing one."""


class DecisionForm(forms.Form):
    """Approves or rejects a call. A rejection needs a reason, which the calling agent reads: one of `PRESETS`, unless
    one is typed. `confirms`: the tool's name, if it has to be typed to approve the call."""

    verdict = forms.ChoiceField(
        choices=[("approve", "Approve"), ("reject", "Reject")],
        error_messages={"required": "Choose approve or reject.", "invalid_choice": "Choose approve or reject."},
    )
    preset = forms.ChoiceField(
        required=False,
        label="To reject, choose why",
        choices=[("", "Type one below"), *((words, words) for words in PRESETS)],
    )
    reason = forms.CharField(
        required=False,
        max_length=1_000,
        label="Reason",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Required to reject. The caller sees it; always kept in the audit log.",
    )
    confirmed = tool_name()
    code = factor_code()

    def __init__(self, data: Any = None, *, confirms: str = "") -> None:
        super().__init__(data)
        self.confirms = confirms
        self.fields["confirmed"].help_text = format_html(
            "This call is critical: to approve it, type <code>{}</code>", spelled(confirms)
        )

    def clean(self) -> dict[str, Any]:
        """The posted values. If no reason was typed, `reason` is the preset that was chosen."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("verdict") == "reject" and not without_invisible(cleaned.get("reason", "")).strip():
            cleaned["reason"] = cleaned.get("preset", "")
        return cleaned


class AlikeForm(DecisionForm):
    """Approves or rejects the selected approvals, which are alike; none of them is critical."""

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        self.fields[
            "reason"
        ].help_text = "Required to reject, and the same for all. The callers see it; always kept in the audit log."
        self.picked = [number for text in data.getlist("question") if (number := whole(text))] if data else []
        """The ids of the selected questions. What is no number counts as not selected."""

    def refuse(self, error: Invalid) -> None:
        """Show the error, which says why nothing was decided; beside the reason if the error is about it."""
        self.add_error("reason" if error.data.get("field") == "reason" else None, error.message)


class BlockForm(forms.Form):
    """Rejects a call and blocks its tool for its client. The one reason is recorded for both."""

    focus = "reason"
    """The field that has the focus when the form opens."""
    reason = forms.CharField(
        max_length=1_000,
        label="Reason",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="The caller sees it; always kept in the audit log, with the rule too.",
        error_messages={"required": "Enter a reason; the caller will see it."},
    )


class CommentForm(forms.Form):
    """A comment on a question."""

    text = forms.CharField(
        required=False,
        max_length=MAX_REMARK,
        label="Comment",
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="For the people who see this question; its client and the agent are not told.",
    )


class AskBackForm(forms.Form):
    """What an approver asks the requester of a call."""

    text = forms.CharField(
        required=False,
        max_length=MAX_ASKED,
        label="What do you want to know?",
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Sent with your name. The call goes on waiting; the answer appears here, for everybody who decides.",
    )


class HandOverForm(forms.Form):
    """Hands a question over to a person or a group that may answer it: `people` and `groups` are their names."""

    focus = "to"
    """The field that has the focus when the form opens."""
    to = forms.ChoiceField(
        label="To", error_messages={"required": "Choose a person or a group.", "invalid_choice": "Choose one of these."}
    )
    text = forms.CharField(
        required=False,
        max_length=MAX_REMARK,
        label="Note (optional)",
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="For the people who see this question.",
    )

    def __init__(self, data: Any = None, *, people: Sequence[str], groups: Sequence[str]) -> None:
        super().__init__(data, auto_id="id_hand_%s")
        options = [(f"person:{name}", spelled(name)) for name in people]
        options += [(f"group:{name}", f"Group {spelled(name)}") for name in groups]
        self.fields["to"].choices = [("", "Choose …"), *options]  # type: ignore[attr-defined]  # a field with choices

    @property
    def chosen(self) -> dict[str, str]:
        """The choice as `control.remarks.hand_over` takes it."""
        kind, _, name = self.cleaned_data["to"].partition(":")
        return {kind: name}


BLANKS: Final = {"string": "…", "integer": 0, "number": 0, "boolean": True, "array": [], "object": {}}
OUTLINED: Final = 5
"""The most members that an outline of a JSON object names."""


def outline(schema: dict[str, Any]) -> str:
    """What JSON of the schema looks like: an object with the members that it needs, or else may have, each with a value
    of its type."""
    members = schema.get("properties")
    members = members if isinstance(members, dict) else {}
    needed = schema.get("required")
    names = [name for name in members if isinstance(needed, list) and name in needed] or list(members)
    kinds = {name: members[name].get("type") if isinstance(members[name], dict) else None for name in names[:OUTLINED]}
    blank = {name: BLANKS.get(kind, "…") if isinstance(kind, str) else "…" for name, kind in kinds.items()}
    return json.dumps(blank, ensure_ascii=False)


class RulingForm(forms.Form):
    """Rules, for a lost run, whether the tool ran. `schema`: the tool's output schema, if it has one: its result is
    JSON then. The form is sent twice: the second time with `confirmed`, after the person has seen the consequences."""

    verdict = forms.ChoiceField(
        choices=[("ran", "It ran"), ("unrun", "It did not run")],
        error_messages={"required": "Choose one of the rulings.", "invalid_choice": "Choose one of the rulings."},
    )
    reason = forms.CharField(
        max_length=1_000,
        label="Reason",
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="How you know. The caller sees it; always kept in the audit log.",
        error_messages={"required": "Enter a reason: how do you know?"},
    )
    result = forms.CharField(
        required=False,
        max_length=65_536,
        strip=False,
        label="Result, if it ran and you know it (optional)",
        widget=forms.Textarea(attrs={"rows": 4, "class": "mono", "spellcheck": "false"}),
    )
    as_json = forms.BooleanField(
        required=False, label="The result is JSON", help_text="The caller gets it as structured content too."
    )
    confirmed = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, schema: dict[str, Any] | None = None) -> None:
        super().__init__(data, auto_id="id_%s", use_required_attribute=False)
        self.structured = schema is not None
        if schema is not None:
            del self.fields["as_json"]
            self.fields["result"].help_text = format_html(
                "JSON, as the tool’s output schema has it, such as <code>{}</code>. The caller gets it.",
                spelled(outline(schema)),
            )
        else:
            self.fields["result"].help_text = "The caller gets it as if the tool had answered."

    @property
    def ran(self) -> bool:
        """Whether the ruling is that the tool ran."""
        return bool(self.cleaned_data["verdict"] == "ran")

    def given(self) -> dict[str, str]:
        """The result that was typed, as `control.questions.rule_outcome` takes it."""
        typed = self.cleaned_data["result"].replace("\r\n", "\n")
        if not typed.strip():
            return {}
        as_json = self.structured or self.cleaned_data.get("as_json")
        return {"json_text" if as_json else "text": typed}


class ReasonForm(forms.Form):
    """An optional reason, for the audit log."""

    reason = forms.CharField(required=False, max_length=1_000, label="Reason (optional)")


def form_field(field: Field) -> forms.Field:
    """The Django form field for a `Field` record."""
    common: dict[str, Any] = {
        "label": field.title,
        "required": False,
        "help_text": _help(field),
    }
    made: forms.Field
    if field.kind == "boolean":
        made = forms.BooleanField(**common, initial=field.default is True)
    elif field.kind == "choice":
        options = _titled(field)
        radio = len(options) <= RADIO_CHOICES
        if not field.required:
            options = [("", "No answer"), *options]
        elif not radio and field.default is None:
            options = [("", "Choose …"), *options]
        widget = (forms.RadioSelect if radio else forms.Select)(choices=options)
        made = forms.CharField(**common, initial=field.default if field.default is not None else "", widget=widget)
    elif field.kind == "choices":
        boxes = forms.CheckboxSelectMultiple(choices=_titled(field))
        made = forms.Field(**common, initial=field.default if isinstance(field.default, list) else [], widget=boxes)
        made.hidden_widget = forms.MultipleHiddenInput
    else:
        made = _free_field(field, common)
    # The label shows that the field is required. The browser must not check it, because its messages would differ from
    # ours.
    made.widget.is_required = field.required
    return made


def _free_field(field: Field, common: dict[str, Any]) -> forms.Field:
    initial = "" if field.default is None or _hidden_default(field) else field.default
    if field.kind in ("integer", "number"):
        attrs: dict[str, Any] = {"step": "1" if field.kind == "integer" else "any", "inputmode": "decimal"}
        if field.minimum is not None:
            attrs["min"] = f"{field.minimum:g}"
        if field.maximum is not None:
            attrs["max"] = f"{field.maximum:g}"
        return forms.CharField(**common, initial=initial, widget=forms.NumberInput(attrs=attrs))
    if field.max_length is not None and field.max_length > LONG_TEXT and not field.format:
        return forms.CharField(**common, initial=initial, strip=False, widget=forms.Textarea(attrs={"rows": 4}))
    if field.format == "date-time":
        initial = local_time(initial)
    made = forms.TextInput(attrs={"step": "1"} if field.format == "date-time" else {})
    made.input_type = INPUT_TYPES.get(field.format, "text")
    return forms.CharField(**common, initial=initial, strip=bool(field.format), widget=made)


def _help(field: Field) -> str:
    parts = [field.description] if field.description else []
    if _hidden_default(field):
        parts.append(f"The tool suggests {signs.spelled(field.default)!r}, which holds characters that nobody sees.")
    if field.format == "date-time":
        parts.append("Time in UTC.")
    low, high = field.minimum, field.maximum
    if low is not None and high is not None:
        parts.append(f"From {low:g} to {high:g}.")
    elif low is not None or high is not None:
        parts.append(f"At least {low:g}." if low is not None else f"At most {high:g}.")
    if field.kind == "choices" and (field.min_length or field.max_length):
        least, most = field.min_length or 0, field.max_length or len(field.choices)
        parts.append(f"Choose {least} to {most}." if least != most else f"Choose {least}.")
    return " ".join(parts)


def _titled(field: Field) -> list[tuple[str, str]]:
    """The choices, with invisible characters spelled out: a browser's select takes no markup."""
    return [(value, signs.spelled(title)) for value, title in field.choices]


def _hidden_default(field: Field) -> bool:
    """Whether the default has invisible characters. It is then not filled in, since an input cannot mark them."""
    return isinstance(field.default, str) and bool(signs.invisible(field.default))


def json_value(field: Field, raw: Any) -> tuple[Any, str]:
    """The JSON value of a posted value (`None` for no answer), and the problem with it (empty for none)."""
    if field.kind == "boolean":
        return bool(raw), ""
    if field.kind == "choices":
        chosen = [str(item) for item in raw] if isinstance(raw, list) else []
        return (chosen if chosen or field.required else None), ""
    text = str(raw or "")
    if text == "":
        return None, ""
    if field.kind in ("integer", "number"):
        return _number(field, text.strip())
    if field.format == "date-time":
        return _utc(text), ""
    return text.replace("\r\n", "\n"), ""


def _number(field: Field, text: str) -> tuple[Any, str]:
    try:
        return int(text), ""
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None, "must be a number"
    if field.kind == "integer" and value.is_integer() and abs(value) < 2**53:
        return int(value), ""
    return value, ""


def _utc(text: str) -> str:
    """The value of a `datetime-local` input, entered in UTC, as RFC 3339. Text that is no time is returned
    unchanged."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    try:
        return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:  # before the year 1 or after 9999 in UTC
        return text


def local_time(value: Any) -> str:
    """A default date and time in the format of a `datetime-local` input; empty if it cannot be read."""
    try:
        at = datetime.fromisoformat(str(value))
        return (at.astimezone(UTC) if at.tzinfo else at).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError):
        return ""
