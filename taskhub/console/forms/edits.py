"""The form with which people change arguments of a call before they approve it.

It is made from the tool's schema, in the same way as forms that tools ask people to fill in. An argument that has no
suitable input, or that the input would change, is edited as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from django import forms
from django.utils.html import format_html

from taskhub.console.forms.questions import LONG_TEXT, factor_code, form_field, json_value, local_time, tool_name
from taskhub.core.asking import Asking
from taskhub.core.errors import Invalid, TaskHubError
from taskhub.core.rules import EVERY_ARGUMENT
from taskhub.domain.questions.forms import MAX_FIELDS, MAX_TEXT, Field, field_problem, form_fields
from taskhub.lib import jsonx
from taskhub.lib.signs import invisible, spelled

_MISSING: Final = object()
_JSON: Final = "json"
_FREE: Final = ("string", "integer", "number", "boolean", "array")


class EditForm(forms.Form):
    """Changes arguments of a call. After validation, `arguments` has all arguments of the call. Inputs are named `f0`,
    `f1`, …"""

    focus = "f0"
    """The field that has the focus when the form opens."""
    reason = forms.CharField(
        required=False,
        max_length=1_000,
        label="Reason",
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Kept in the audit log.",
    )
    confirmed = tool_name()
    code = factor_code()
    mark = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, said: Asking, schema: Any, before: Mapping[str, Any], data: Any = None) -> None:
        super().__init__(data, auto_id="id_%s", use_required_attribute=False)
        self.schema = schema
        self.before = before
        self.confirms = ""
        self.arguments: dict[str, Any] = {}
        self.wanted = tuple(_wanted(said, schema, before))
        for number, field in enumerate(self.wanted):
            self.fields[f"f{number}"] = _json_input(field) if field.kind == _JSON else form_field(field)

    @property
    def inputs(self) -> list[forms.BoundField]:
        """The inputs for arguments, without those for the reason, the tool's name and the code."""
        return [self[f"f{number}"] for number in range(len(self.wanted))]

    def clean(self) -> dict[str, Any]:
        """Reads the inputs, and sets `arguments`. A value that does not fit is an error of its input."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        self.arguments = dict(self.before)
        for number, field in enumerate(self.wanted):
            name = f"f{number}"
            if name not in cleaned:
                continue
            value, problem = _value(field, cleaned[name])
            if value is _MISSING and field.required and not problem:
                problem = "is required"
            if problem:
                self.add_error(name, f"{field.title} {problem}.")
            elif value is _MISSING:
                self.arguments.pop(field.name, None)
            else:
                self.arguments[field.name] = value
        return cleaned

    def show(self, mark: str) -> None:
        """Put `mark`, which stands for what the person is shown (`domain.tasks.edits.Proposal`), into the form, so that
        it is sent with the form."""
        posted: Any = self.data
        self.data = posted = posted.copy()
        posted["mark"] = mark

    def confirm(self, tool: str) -> None:
        """Require that the name of the tool is typed."""
        self.confirms = tool
        self.fields["confirmed"].help_text = format_html(
            "This call is critical: to approve it, type <code>{}</code>", spelled(tool)
        )

    def refuse(self, error: TaskHubError) -> None:
        """Show the use case's error beside the input that it is about."""
        told = str(error.data.get("field", ""))
        inputs = {field.name: f"f{number}" for number, field in enumerate(self.wanted)}
        name = inputs.get(told, told if told in ("confirmed", "code") else "")
        self.add_error(name or None, error.message)


def _wanted(said: Asking, schema: Any, before: Mapping[str, Any]) -> Iterator[Field]:
    listed = schema.get("properties") if isinstance(schema, dict) else None
    rules: dict[str, Any] = listed if isinstance(listed, dict) else {}
    named = dict.fromkeys([*rules, *before, *(name for name in said.editable if name != EVERY_ARGUMENT)])
    needed = schema.get("required") if isinstance(schema, dict) else None
    for name in [name for name in named if said.may_edit(name)][:MAX_FIELDS]:
        required = isinstance(needed, list) and name in needed
        yield _field(name, _resolved(schema, rules.get(name)), required, before.get(name, _MISSING))


def _field(name: str, rule: Any, required: bool, value: Any) -> Field:
    default = None if value is _MISSING else value
    plain = _plain(rule)
    told = plain if plain is not None else rule if isinstance(rule, dict) else {}
    if plain is not None and value is not None:
        try:
            (found,) = form_fields({"properties": {name: plain}, "required": [name] if required else []})
        except Invalid:
            pass
        else:
            if found.kind == "boolean":
                # A choice, because a checkbox could not say that the argument is missing.
                found = replace(found, kind="choice", choices=(("true", "true"), ("false", "false")))
                default = json.dumps(default) if isinstance(default, bool) else default
            elif isinstance(value, str) and (len(value) > LONG_TEXT // 2 or "\n" in value):
                found = replace(found, max_length=found.max_length or MAX_TEXT)
            found = replace(found, default=default)
            if value is _MISSING or _gives_back(found, value):
                return found
    title, text = (told.get(part) for part in ("title", "description"))
    return Field(
        name=name,
        kind=_JSON,
        title=title if isinstance(title, str) and title else name,
        description=text if isinstance(text, str) else "",
        required=required,
        default="" if value is _MISSING else _as_json(value),
    )


def _resolved(schema: Any, rule: Any) -> Any:
    """The schema of an argument. SDKs write enumerations as references: then the definition that the schema refers
    to."""
    if not isinstance(rule, dict):
        return rule
    either = rule.get("anyOf")
    if isinstance(either, list):
        return {**rule, "anyOf": [_resolved(schema, one) for one in either[:MAX_FIELDS]]}
    kind, _, name = str(rule.get("$ref", "")).removeprefix("#/").partition("/")
    tables = schema.get(kind) if kind in ("$defs", "definitions") else None
    found = tables.get(name) if isinstance(tables, dict) else None
    if not isinstance(found, dict) or "$ref" in found:
        return rule
    return {**found, **{word: part for word, part in rule.items() if word != "$ref"}}


def _plain(rule: Any) -> dict[str, Any] | None:
    """The schema of an argument that a form can ask for, which has one type and may also allow null; `None` for any
    other."""
    if not isinstance(rule, dict):
        return None
    either = rule.get("anyOf")
    if "type" not in rule and isinstance(either, list):
        left = [one for one in either if one != {"type": "null"}]
        if len(left) == 1 and len(either) == 2 and isinstance(left[0], dict):
            rule = {**{name: part for name, part in rule.items() if name != "anyOf"}, **left[0]}
    kind, listed = rule.get("type"), rule.get("enum")
    if not isinstance(kind, str) or kind not in _FREE or {"$ref", "allOf", "not", "const"} & rule.keys():
        return None
    if listed is not None and not (isinstance(listed, list) and all(isinstance(one, str) for one in listed)):
        return None
    return {str(name): part for name, part in rule.items()}


def _gives_back(field: Field, value: Any) -> bool:
    """Whether the field's input, if nobody changes it, is read as exactly this value."""
    if isinstance(value, str) and (
        invisible(value) or ("\n" in value and (field.format or (field.max_length or 0) <= LONG_TEXT))
    ):
        return False
    if field.kind == "choices":
        raw: Any = value
    else:
        raw = local_time(value) if field.format == "date-time" else field.default if _is_bool(field) else str(value)
        if field.format or field.kind in ("integer", "number"):
            raw = raw.strip() if isinstance(raw, str) else raw
    found, problem = _value(field, raw)
    return not problem and found is not _MISSING and jsonx.canonical(found) == jsonx.canonical(value)


def _is_bool(field: Field) -> bool:
    return field.choices == (("true", "true"), ("false", "false"))


def _value(field: Field, raw: Any) -> tuple[Any, str]:
    """The posted value as JSON, and the problem with it (empty for none)."""
    if field.kind == _JSON:
        return _from_json(str(raw or ""))
    value, problem = json_value(field, raw)
    if value is None:
        return _MISSING, problem
    problem = problem or field_problem(field, value)
    if _is_bool(field) and not problem:
        return value == "true", ""
    return value, problem


def _from_json(text: str) -> tuple[Any, str]:
    if not text.strip():
        return _MISSING, ""
    try:
        return jsonx.decode(text.encode("utf-8", "surrogatepass")), ""
    except jsonx.JsonError as error:
        return None, f"is no JSON: {error}"


def _as_json(value: Any) -> str:
    """The value as JSON, with invisible characters as escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return json.dumps(value, indent=2) if invisible(text.replace("\n", "")) else text


def _json_input(field: Field) -> forms.Field:
    lines = min(max(field.default.count("\n") + 1, 2), 12)
    return forms.CharField(
        label=field.title,
        required=False,
        initial=field.default,
        strip=False,
        help_text=f"{field.description} As JSON; empty for none.".strip(),
        widget=forms.Textarea(attrs={"rows": lines, "class": "mono", "spellcheck": "false"}),
    )
