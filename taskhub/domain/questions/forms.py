"""Forms of elicitations and the answers to them, checked without a framework.

A form is a flat object schema (B26-83): strings with formats, numbers, booleans, single and multiple choices.
`form_fields` reads it both for the console's form and for the check of a client's answer, so the two cannot disagree.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

from taskhub.core.errors import Invalid
from taskhub.lib import jsonx

MAX_FIELDS = 100
MAX_TEXT = 65_536
MAX_FORM = 65_536
"""The most bytes of the schema of a form."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form. `choices` are (value, title) pairs; empty for free input."""

    name: str
    kind: str  # string, integer, number, boolean, choice, choices
    title: str
    description: str
    required: bool
    default: Any
    format: str = ""
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    choices: tuple[tuple[str, str], ...] = ()


def unfit(params: dict[str, Any]) -> str:
    """Why no page can show a question with these params, whatever its kind; empty if a page can."""
    try:
        jsonx.check(params)
    except jsonx.JsonError as error:
        return str(error)
    message = params.get("message", "")
    return f"the message is longer than {MAX_TEXT} characters" if len(str(message)) > MAX_TEXT else ""


def form_fields(schema: Any) -> tuple[Field, ...]:
    """The fields of a requested schema, in its order. Raises `Invalid` for a schema that is not flat, or for which no
    form could be drawn or filled in."""
    try:
        jsonx.check(schema)
    except jsonx.JsonError as error:
        raise Invalid(f"Its schema cannot be read: {error}.") from None
    if len(jsonx.encode(schema)) > MAX_FORM:
        raise Invalid(f"Its schema is larger than {MAX_FORM} bytes.")
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(properties) > MAX_FIELDS:
        raise Invalid(f"A form is a flat object with at most {MAX_FIELDS} properties.")
    required = schema.get("required", [])
    required = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return tuple(_field(name, rule, name in required) for name, rule in properties.items())


def _field(name: str, rule: Any, required: bool) -> Field:
    if not isinstance(rule, dict):
        raise Invalid(f"Field {name!r} has no schema.")
    kind = rule.get("type", "string")
    choices: tuple[tuple[str, str], ...] = ()
    if kind == "array":
        items = rule.get("items", {})
        choices = _choices(items) if isinstance(items, dict) else ()
        if not choices:
            raise Invalid(f"Field {name!r} is a list without choices.")
        kind = "choices"
    elif kind == "string" and ("enum" in rule or "oneOf" in rule or "anyOf" in rule):
        choices = _choices(rule)
        kind = "choice"
    elif kind not in ("string", "integer", "number", "boolean"):
        raise Invalid(f"Field {name!r} has type {str(kind)[:100]!r}, which a form cannot ask for.")
    low, high = ("minItems", "maxItems") if kind == "choices" else ("minLength", "maxLength")
    least, most = _whole(rule.get(low)), _whole(rule.get(high))
    if least is not None and least > MAX_TEXT:
        raise Invalid(f"Field {name!r} wants more than an answer can have.")
    return Field(
        name=name,
        kind=kind,
        title=_text(rule.get("title")) or name,
        description=_text(rule.get("description")),
        required=required,
        default=rule.get("default"),
        format=_text(rule.get("format")),
        minimum=_number(rule.get("minimum")),
        maximum=_number(rule.get("maximum")),
        min_length=least,
        max_length=None if most is None else min(most, MAX_TEXT),
        pattern=_text(rule.get("pattern"))[:256],
        choices=choices,
    )


def _choices(rule: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    for word in ("oneOf", "anyOf"):
        if isinstance(rule.get(word), list):
            return tuple(
                (str(option["const"]), str(option.get("title", option["const"])))
                for option in rule[word]
                if isinstance(option, dict) and "const" in option
            )
    listed = rule.get("enum")
    values = [str(value) for value in listed] if isinstance(listed, list) else []
    names = rule.get("enumNames")
    titles = [str(n) for n in names] if isinstance(names, list) and len(names) == len(values) else values
    return tuple(zip(values, titles, strict=True))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    # An integer is not made a float, which would round a large one, or overflow.
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def checked_elicitation(params: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    """The answer to a form, or to a request to open a page, without what was not asked for. Raises `Invalid`, which
    names the wrong field."""
    action = response.get("action")
    if action not in ("accept", "decline", "cancel"):
        raise Invalid("action must be accept, decline or cancel.", pointer="/action")
    if action != "accept" or params.get("mode") == "url":
        return {"action": action}
    content = response.get("content", {})
    if not isinstance(content, dict):
        raise Invalid("content must be an object.", pointer="/content")
    return {"action": action, "content": checked_content(params.get("requestedSchema", {}), content)}


def checked_content(schema: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """`content` reduced to the form's fields. Raises `Invalid` for the first field that is wrong."""
    clean: dict[str, Any] = {}
    for field in form_fields(schema):
        if field.name not in content or content[field.name] is None:
            if field.required:
                raise Invalid(f"{field.title} is required.", pointer=f"/content/{field.name}", field=field.name)
            continue
        problem = field_problem(field, content[field.name])
        if problem:
            raise Invalid(f"{field.title} {problem}.", pointer=f"/content/{field.name}", field=field.name)
        clean[field.name] = content[field.name]
    return clean


def field_problem(field: Field, value: Any) -> str:
    """Why `value` does not fit the field, as the end of a sentence; empty when it does."""
    if field.kind == "boolean":
        return "" if isinstance(value, bool) else "must be true or false"
    if field.kind in ("integer", "number"):
        return _number_problem(field, value)
    if field.kind == "choices":
        return _choices_problem(field, value)
    if not isinstance(value, str):
        return "must be text"
    if field.kind == "choice":
        return "" if value in dict(field.choices) else "must be one of the choices"
    return _text_problem(field, value)


def _number_problem(field: Field, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "must be a number"
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a number"
    if field.kind == "integer" and int(value) != value:
        return "must be a whole number"
    if field.minimum is not None and value < field.minimum:
        return f"must be at least {field.minimum}"
    if field.maximum is not None and value > field.maximum:
        return f"must be at most {field.maximum}"
    return ""


def _choices_problem(field: Field, value: Any) -> str:
    known = dict(field.choices)
    if not isinstance(value, list) or any(not isinstance(item, str) or item not in known for item in value):
        return "must be chosen from the list"
    if field.min_length is not None and len(value) < field.min_length:
        return f"needs at least {_counted(field.min_length, 'choice')}"
    if field.max_length is not None and len(value) > field.max_length:
        return f"takes at most {_counted(field.max_length, 'choice')}"
    return ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _text_problem(field: Field, value: str) -> str:
    if len(value) > MAX_TEXT:
        return "is too long"
    if field.min_length is not None and len(value) < field.min_length:
        return f"needs at least {_counted(field.min_length, 'character')}"
    if field.max_length is not None and len(value) > field.max_length:
        return f"takes at most {_counted(field.max_length, 'character')}"
    if field.format == "email" and not re.fullmatch(r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)+", value):
        return "must be an email address"
    if field.format == "uri" and not _is_uri(value):
        return "must be a URL"
    if field.format in ("date", "date-time") and not _is_time(field.format, value):
        return "must be a date" + (" and time" if field.format == "date-time" else "")
    return ""


def _is_uri(value: str) -> bool:
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return bool(parts.scheme) and bool(parts.netloc or parts.path) and " " not in value


def _is_time(form: str, value: str) -> bool:
    try:
        if form == "date":
            return date.fromisoformat(value).isoformat() == value
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return "T" in value or " " in value
