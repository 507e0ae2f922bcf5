"""How two configurations differ, in plain words and without secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Final

from taskhub.core.policy import Policy
from taskhub.core.rules import RULE_FIELDS, Preview, Rule, difference
from taskhub.domain.configuration.document import written_name
from taskhub.domain.configuration.records import ClientConfig, Configuration, Given, OAuthConfig, ServerConfig, Spec
from taskhub.domain.configuration.references import same_spec
from taskhub.lib.signs import spelled, visible_json

SHOWN: Final = 200
"""How many characters of a value are shown, from its beginning."""

_NEW: Final = object()
"""Stands for the earlier value of a record that is new."""
_APART: Final = frozenset({"name", "username", "tools"})
"""Fields that are not compared with the others: names identify a record, and tools have lines of their own."""


def differences(before: Configuration, after: Configuration) -> tuple[str, ...]:
    """How `after` differs from `before`: a line of text for each rule, server, tool, person and client that differs."""
    lines = [
        *_of_rules(before.rules, after.rules),
        *_of_each("server", before.servers, after.servers, lambda server: server.name),
        *_of_tools(before.servers, after.servers),
        *_of_each("person", before.people, after.people, lambda person: person.username),
        *_of_each("client", before.clients, after.clients, client_name),
    ]
    return tuple(map(spelled, lines))


def client_name(client: ClientConfig) -> str:
    """The name of a client; for a client of another issuer, also the issuer, subject and client id that identify it."""
    return client.name if client.own else f"{client.name} ({' '.join(part for part in client.key if part)})"


def _of_rules(before: Sequence[Rule], after: Sequence[Rule]) -> Iterator[str]:
    found = difference(before, after)
    old, new = {rule.name: rule for rule in before}, {rule.name: rule for rule in after}
    for name in found.added:
        rule = new[name]
        others = [part for part in RULE_FIELDS if part not in ("name", "when", "then")]
        words = [f"added, {rule.then} when {_shown(rule.when or 'any call')}", *_said(rule, others)]
        yield f"rule {name}: {', '.join(words)}"
    for name in found.changed:
        yield f"rule {name}: {', '.join(_changes(old[name], new[name], RULE_FIELDS))}"
    for name in found.removed:
        yield f"rule {name}: removed"
    if found.moved:
        yield f"rules in another order: {', '.join(found.moved)}"


def _of_each(what: str, before: Sequence[Any], after: Sequence[Any], key: Callable[[Any], str]) -> Iterator[str]:
    old, new = {key(one): one for one in before}, {key(one): one for one in after}
    for name, one in new.items():
        names = [part.name for part in fields(one) if part.name not in _APART]
        if name not in old:
            yield f"{what} {name}: {', '.join(['added', *_said(one, names)])}"
        elif changes := list(_changes(old[name], one, names)):
            yield f"{what} {name}: {', '.join(changes)}"
    for name in old:
        if name not in new:
            yield f"{what} {name}: removed"


def _of_tools(before: Sequence[ServerConfig], after: Sequence[ServerConfig]) -> Iterator[str]:
    policies = {server.name: server.tools for server in before}
    for server in after:
        old, new = policies.get(server.name, {}), server.tools
        for name in sorted({*old, *new}):
            parts = [part.name for part in fields(Policy)]
            if changes := list(_changes(old.get(name, Policy()), new.get(name, Policy()), parts)):
                yield f"tool {server.name}/{name}: {', '.join(changes)}"


def _said(record: Any, names: Sequence[str]) -> Iterator[str]:
    """The fields of a new record that are not the default, in words."""
    unsaid = {part.name: _default(part) for part in fields(record)}
    for name in names:
        if (value := getattr(record, name)) != unsaid[name]:
            yield from _change(name, _NEW, value)


def _default(part: Any) -> Any:
    return part.default if part.default_factory is MISSING else part.default_factory()


def _changes(before: Any, after: Any, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield from _change(name, old, new)


def _change(name: str, old: Any, new: Any) -> Iterator[str]:
    word = written_name(name)
    if isinstance(new, Spec):
        yield from _of_spec(old, new)
    elif isinstance(old, Given) or isinstance(new, Given):
        yield f"{word} {_given(old, new)}"
    elif isinstance(old, OAuthConfig) or isinstance(new, OAuthConfig):
        yield from _of_oauth(old, new)
    elif name in ("headers", "environment"):
        yield from _of_pairs("header" if name == "headers" else "variable", {} if old is _NEW else old, new)
    elif old is _NEW:
        yield f"{word} {_shown(new)}"
    else:
        yield f"{word} {_shown(new)} (was {_shown(old)})"


def _of_spec(old: Any, new: Spec) -> Iterator[str]:
    if old is _NEW:
        yield new.shown
    elif old.shown != new.shown:
        yield f"spec {new.shown} (was {old.shown})"
    elif not same_spec(old, new):
        yield "another secret in its spec"


def _of_oauth(old: Any, new: Any) -> Iterator[str]:
    if not isinstance(new, OAuthConfig):
        yield "authorized by OAuth no more"
        return
    parts = [part.name for part in fields(new)]
    if isinstance(old, OAuthConfig):
        yield from (f"oauth {change}" for change in _changes(old, new, parts))
    else:
        yield from (f"oauth {change}" for change in _said(new, parts))


def _of_pairs(what: str, old: Mapping[str, Given], new: Mapping[str, Given]) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"{what} {name} {_given(old.get(name), new.get(name))}"


def _given(old: Any, new: Any) -> str:
    if not isinstance(new, Given):
        return "removed"
    return "replaced" if isinstance(old, Given) else "given"


def _shown(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, Preview):
        value = value.to_json()
    text = " ".join(value.split()) if isinstance(value, str) and value.strip() else visible_json(value, indent=None)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
