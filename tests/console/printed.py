"""What templates print without the component for foreign text, read from Django's own parse of them."""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import pkgutil
import re
import types
import typing
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.apps import apps
from django.db import models
from django.template import Node, defaulttags, engines, loader_tags
from django.template.base import FilterExpression, Variable, VariableNode
from django.template.library import InclusionNode, SimpleNode

import taskhub
from taskhub.console.templatetags.parts import PartNode

COMPONENT: Final = frozenset({"foreign", "foreign_lines", "spelled", "worded"})
"""The filters that make foreign text fit for a page."""
NO_TEXT: Final = frozenset(
    {"number", "duration", "percent", "pluralize", "yesno", "length", "date", "utc_minute", "filesizeformat", "minutes"}
)
"""Filters whose result is a number, a time, or a word of the template."""
OURS: Final = frozenset({"past", "not_counted", "said", "state_word", "why", "unknowns"})
"""Filters that answer with words of ours; `test_filters_know_words_of_ours_only` holds them to it."""
ENCODED: Final = frozenset({"urlencode"})
"""Filters whose result has no character but those of an address."""
SAFE_TAGS: Final = frozenset(
    {
        *("sentence", "told", "query", "ago", "since", "clock", "state_badge", "then_badge", "outcome_badge"),
        *(
            "risk_badge",
            "change_badge",
            "icon",
            "icon_for",
            "icon_of_kind",
            "go_keys",
            "htmx_config",
            "disk_full",
            "live",
        ),
        *("bypass_in_force", "inbox_number", "waiting_for_me"),
    }
)
"""Tags that use the component for what they are given, look it up among words of ours, or write an address, a number or
a time."""
HARMLESS: Final = (type(None), bool, int, float, datetime, date, timedelta, UUID, IPv4Address, IPv6Address, enum.Enum)
SILENT: Final = frozenset(
    {
        *(
            "CommentNode",
            "RenderPartialNode",
            "CsrfTokenNode",
            "ExtendsNode",
            "BlockNode",
            "IfNode",
            "ForNode",
            "LoadNode",
            "WithNode",
        ),
        *("IncludeNode", "TextNode", "URLNode", "StaticNode", "TemplateTagNode", "SlotNode", "PartialNode"),
        *("DefinePartialNode", "HTMXScriptNode", "InclusionNode", "TemplateLiteral", "HtmxScriptNode", "SpacelessNode"),
    }
)
"""Nodes that print nothing that they are given, but for addresses that are encoded."""


class Printed(NamedTuple):
    """An expression that a template prints without the component."""

    template: str
    expression: str


def printed(name: str, template: Any = None) -> Iterator[Printed]:
    """All that the template (by default, that of this name) prints without the component, except literals, addresses
    that it made by name, and what is no text by its record (`fields_without_text`)."""
    nodes = list(_all((template or engines["django"].get_template(name)).template.nodelist))
    made = {found for node in nodes for found in _made(node)}
    for node in nodes:
        for expression in _shown(node):
            word = re.sub(r"\s+", " ", expression.token).strip()
            path = re.split(r"[|]", word)[0].split(".")
            if not (_drawn(expression) or path[0] in made or (len(path) > 1 and path[-1] in fields_without_text())):
                yield Printed(name, word)


def handed_on(name: str) -> Iterator[tuple[str, str, FilterExpression]]:
    """What the template hands on under another name: (the template that gets it, the name, the expression)."""
    for node in _all(engines["django"].get_template(name).template.nodelist):
        if isinstance(node, loader_tags.IncludeNode):
            assert isinstance(node.template.var, str), f"{name} includes a template whose name is a variable"
            yield from ((str(node.template.var), key, value) for key, value in node.extra_context.items())
        elif isinstance(node, defaulttags.WithNode):
            yield from ((name, key, value) for key, value in node.extra_context.items())


def is_drawn(expression: FilterExpression) -> bool:
    """Whether what is handed on may be printed as it is."""
    path = expression.token.split("|")[0].split(".")
    return _drawn(expression) or (len(path) > 1 and path[-1] in fields_without_text())


@functools.cache
def fields_without_text() -> frozenset[str]:
    """Names of fields that hold a number, a time, a yes or no, an id or one of our words, in each record and each model
    that has a field of that name."""
    found: dict[str, list[bool]] = defaultdict(list)
    for module in pkgutil.walk_packages(taskhub.__path__, "taskhub."):
        if ".migrations" in module.name or ".management" in module.name or module.name.endswith("__main__"):
            continue
        for record in vars(importlib.import_module(module.name)).values():
            if not isinstance(record, type) or record.__module__ != module.name or not _is_record(record):
                continue
            hints = typing.get_type_hints(record)
            for key, value in vars(record).items():
                if isinstance(value, (property, functools.cached_property)):
                    function = value.fget if isinstance(value, property) else value.func
                    hints[key] = typing.get_type_hints(function).get("return", str)
            for key, hint in hints.items():
                found[key].append(_is_harmless(hint))
    for model in apps.get_models(include_auto_created=True):
        for field in model._meta.get_fields():
            if isinstance(field, models.Field):
                harmless = not isinstance(
                    field, (models.CharField, models.TextField, models.JSONField, models.BinaryField)
                )
                found[field.attname].append((harmless and not field.is_relation) or field.attname.endswith("_id"))
    return frozenset(key for key, answers in found.items() if all(answers))


def _is_record(record: type) -> bool:
    return dataclasses.is_dataclass(record) or (issubclass(record, tuple) and hasattr(record, "_fields"))


def _is_harmless(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return all(_is_harmless(one) for one in typing.get_args(hint))
    if origin is typing.Literal:
        return True
    return isinstance(hint, type) and issubclass(hint, HARMLESS)


def _all(nodelist: Any) -> Iterator[Node]:
    seen: set[int] = set()
    waiting: list[Node] = [*nodelist]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting += _below(node)


def _made(node: Node) -> Iterator[str]:
    """The names under which a node keeps an address that it wrote."""
    if isinstance(node, defaulttags.URLNode) and node.asvar:
        yield node.asvar
    elif isinstance(node, SimpleNode) and node.target_var and node.func.__name__ == "query":
        yield node.target_var


def _shown(node: Node) -> Iterator[FilterExpression]:
    """The expressions that a node prints, as far as it does not hand them on to a template."""
    if isinstance(node, VariableNode):
        yield node.filter_expression
    elif isinstance(node, PartNode):
        yield from (
            value for key, value in node.given.items() if key not in ("to", "of", "value")
        )  # a value is sent back
    elif isinstance(node, InclusionNode):
        return
    elif isinstance(node, SimpleNode):
        if node.func.__name__ not in SAFE_TAGS:
            yield from (*node.args, *node.kwargs.values())
    elif isinstance(node, defaulttags.FirstOfNode):
        yield from () if node.asvar else node.vars
    elif isinstance(node, defaulttags.CycleNode):
        yield from node.cyclevars
    elif type(node).__name__ not in SILENT:
        raise AssertionError(f"{type(node).__name__}: say in tests/console/printed.py what it prints")


def _below(node: Node) -> Iterator[Node]:
    """The nodes in a node, wherever it keeps them."""
    for value in vars(node).values() if hasattr(node, "__dict__") else ():
        yield from _nodes(value)


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _nodes(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _nodes(one)
    elif hasattr(value, "nodelist"):
        yield from _nodes(value.nodelist)


def _drawn(expression: FilterExpression) -> bool:
    """Whether the expression is a literal, or its last filter leaves no foreign text as it is."""
    names = [getattr(function, "_filter_name", function.__name__) for function, _ in expression.filters]
    if names and names[-1] in COMPONENT | NO_TEXT | OURS | ENCODED:
        return True
    found = expression.var
    return not isinstance(found, Variable) or found.lookups is None or found.var in ("True", "False", "None")
