"""Rules: a tenant's ordered list that says which tools are seen, and which calls are allowed, denied or asked about.

These are records and their checks only. The language of `when` is in `domain.rules`, which also stores the list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any, Final

from taskhub.core.bypass import Bypass
from taskhub.core.errors import Invalid
from taskhub.core.policy import MAX_GROUP, MAX_QUORUM
from taskhub.lib import jsonx

MAX_RULES: Final = 200
MAX_NAME: Final = 100
MAX_WHEN: Final = 4_000
MAX_WORDS: Final = 500
MAX_SENTENCE: Final = 300
MAX_MINUTES: Final = 43_200
"""The most minutes that people have to decide: 30 days."""
MAX_PREVIEW: Final = 4_000
"""The most bytes of the arguments of a preview, as JSON."""
MAX_TOOL: Final = 128
"""The most characters of the name of a preview's tool."""
MAX_EDITABLE: Final = 50
"""The most names of arguments that people may change before they approve a call."""
MAX_ARGUMENT_NAME: Final = 128
EVERY_ARGUMENT: Final = "*"
"""Stands for all arguments in `Rule.editable`."""
MAX_REASON: Final = 500
"""The most characters of the reason for a change of the list."""
MAX_BYTES: Final = 1_048_576
"""The most bytes of a list as JSON; the table has the same limit."""


class Then(StrEnum):
    """What a rule does with a call that it matches."""

    HIDE = "hide"
    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"


class Risk(StrEnum):
    """How much harm a call may do that a rule asks about."""

    LOW = "low"
    HIGH = "high"
    CRITICAL = "critical"


class Otherwise(StrEnum):
    """What happens if nobody decides in time on a call that a rule asks about."""

    DENY = "deny"
    ALLOW = "allow"
    ESCALATE = "escalate"
    """The group `Rule.escalate_to` is asked, for the same time. If it does not decide either, the call is denied."""


@dataclass(frozen=True, slots=True)
class Preview:
    """A call that people see before they decide, and that shows what the call in question would do. It calls another
    tool of the same server (`tool`), or the same tool with other arguments (`arguments`). Exactly one of the two is
    given."""

    tool: str = ""
    """The name of another tool, which declares that it only reads. It gets those of the call's arguments that its
    schema names."""
    arguments: str = ""
    """Arguments that replace or add to the call's own, such as `{"dry_run":true}`: an object as canonical JSON."""

    def to_json(self) -> dict[str, Any]:
        """The preview as a JSON object with one member."""
        return {"tool": self.tool} if self.tool else {"arguments": jsonx.decode(self.arguments.encode())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. The first enabled rule of the list that matches a call decides."""

    name: str
    """Unique within the list."""
    when: str
    """An expression in CEL; empty if the rule matches every call."""
    then: Then
    words: str = ""
    """What the agent is told when the call is denied."""
    group: str = ""
    """The group whose people are asked; empty for all who may approve."""
    quorum: int = 1
    """How many people must approve."""
    not_requester: bool = False
    """Whether the person who made the call may not decide it."""
    risk: Risk = Risk.LOW
    """How much harm the call may do. The person who approves a critical call has to confirm which call it is."""
    second_factor: bool = False
    """Whether the person who approves has to confirm their second factor."""
    sentence: str = ""
    """What will happen, for the people who are asked, with places for arguments (`domain.rules.sentences`)."""
    expires_minutes: int = 1_440
    """How long people have to decide."""
    remind_minutes: int = 0
    """After how many minutes people are reminded, once, if they have not decided; 0 for never."""
    otherwise: Otherwise = Otherwise.DENY
    escalate_to: str = ""
    preview: Preview | None = None
    """The call that shows people what would happen; `None` for none."""
    editable: tuple[str, ...] = ()
    """The arguments that people may change before they approve the call; `EVERY_ARGUMENT` alone for all of them."""
    enabled: bool = True
    shadow: bool = False
    """Whether the rule is on trial: it decides nothing, and what it would have done is recorded."""


@dataclass(frozen=True, slots=True)
class RuleList:
    """The rules of a tenant, in their order. `version` is 0 if no list was saved yet. `bypass` is the bypass in force,
    `None` if there is none."""

    version: int
    rules: tuple[Rule, ...]
    bypass: Bypass | None = None

    @property
    def hides(self) -> bool:
        """Whether a rule may hide a tool from a client."""
        return any(rule.then is Then.HIDE and rule.enabled and not rule.shadow for rule in self.rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The differences between two lists, as names of rules, each in the order of its list. A rule that was renamed
    counts as removed and added."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    moved: tuple[str, ...]
    """Rules of both lists whose order among the rules of both lists differs."""


RULE_FIELDS: Final = tuple(part.name for part in fields(Rule))
_NEEDED: Final = ("name", "when", "then")
_DEFAULTS: Final = {part.name: part.default for part in fields(Rule) if part.name not in _NEEDED}
_CHOICES: Final[dict[str, type[StrEnum]]] = {"then": Then, "risk": Risk, "otherwise": Otherwise}
_KINDS: Final = {
    **{name: type(value) for name, value in _DEFAULTS.items()},
    **dict.fromkeys((*_NEEDED, *_CHOICES), str),
    "preview": dict,
}
_CALLED: Final = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
    tuple: "a list of texts",
}


_ONLY_ASKING: Final = {
    "group": "has a group that is asked",
    "quorum": "needs approvals",
    "not_requester": "leaves the requester out",
    "risk": "has a risk",
    "second_factor": "wants a second factor",
    "sentence": "says what will happen",
    "expires_minutes": "gives people a time to decide",
    "remind_minutes": "reminds people",
    "otherwise": "says what happens if nobody decides",
    "escalate_to": "asks another group then",
    "preview": "has a preview",
    "editable": "lets people change arguments",
}


def check_rules(rules: Sequence[Rule]) -> None:
    """Raise `Invalid` if the list cannot be saved. The error's `field` names the index of the rule in the list, from 0,
    and the rule's field, such as `rules.2.when`; it is `rules` if the list as a whole is too long. Expressions are not
    compiled here."""
    if len(rules) > MAX_RULES:
        raise Invalid(f"At most {MAX_RULES} rules, not {len(rules):,}.", field="rules")
    places: dict[str, int] = {}
    for place, rule in enumerate(rules):
        _check_rule(rule, f"rules.{place}")
        if (other := places.setdefault(rule.name, place)) != place:
            raise Invalid(
                f"Rules {other + 1} and {place + 1} are both named {rule.name}; give each a name of its own.",
                field=f"rules.{place}.name",
            )
    if (size := len(encoded(rules))) > MAX_BYTES:
        raise Invalid(f"All rules together have at most {MAX_BYTES:,} bytes, not {size:,}.", field="rules")


def _check_rule(rule: Rule, at: str) -> None:
    name = rule.name
    if not 0 < len(name) <= MAX_NAME or not name.isprintable() or name != name.strip():
        raise Invalid(
            f"A rule's name has 1 to {MAX_NAME} printable characters, without blanks around it.", field=f"{at}.name"
        )
    for part, text, most in (
        ("when", rule.when, MAX_WHEN),
        ("words", rule.words, MAX_WORDS),
        ("sentence", rule.sentence, MAX_SENTENCE),
    ):
        if len(text) > most:
            raise Invalid(f"At most {most:,} characters, not {len(text):,}.", field=f"{at}.{part}")
        if not storable(text):
            raise Invalid("It holds U+0000 or half of a surrogate pair, which cannot be stored.", field=f"{at}.{part}")
    if not rule.sentence.isprintable():
        raise Invalid("The sentence is one line of printable characters.", field=f"{at}.sentence")
    for part, choices in _CHOICES.items():
        _check_choice(choices, getattr(rule, part), f"{at}.{part}")
    for part, group in (("group", rule.group), ("escalate_to", rule.escalate_to)):
        if len(group) > MAX_GROUP or not group.isprintable():
            raise Invalid(f"A group's name has at most {MAX_GROUP} printable characters.", field=f"{at}.{part}")
    if isinstance(rule.quorum, bool) or not 1 <= rule.quorum <= MAX_QUORUM:
        raise Invalid(f"Give a whole number from 1 to {MAX_QUORUM}, not {rule.quorum}.", field=f"{at}.quorum")
    _check_kind(rule, at)
    _check_editable(rule, f"{at}.editable")
    _check_end(rule, at)
    if rule.preview is not None:
        _check_preview(rule.preview, f"{at}.preview")


def _check_kind(rule: Rule, at: str) -> None:
    """Raise `Invalid` if the rule has a field that means nothing for its kind, which is the field `then`: such as a
    group to ask in a rule that allows."""
    if rule.words and rule.then is not Then.DENY:
        raise Invalid("Only a rule that denies has words for the agent.", field=f"{at}.words")
    for part, does in _ONLY_ASKING.items():
        if rule.then is not Then.ASK and getattr(rule, part) != _DEFAULTS[part]:
            raise Invalid(f"Only a rule that asks {does}.", field=f"{at}.{part}")


def _check_preview(preview: Preview, at: str) -> None:
    if bool(preview.tool) is bool(preview.arguments):
        raise Invalid(
            "A preview names a tool that only reads, or arguments for the same tool: one of the two.", field=at
        )
    if len(preview.tool) > MAX_TOOL or not preview.tool.isprintable() or preview.tool != preview.tool.strip():
        raise Invalid(f"A tool's name has at most {MAX_TOOL} printable characters.", field=at)
    if len(preview.arguments.encode()) > MAX_PREVIEW:
        raise Invalid(f"The arguments of a preview have at most {MAX_PREVIEW:,} bytes.", field=at)


def _check_editable(rule: Rule, at: str) -> None:
    if len(rule.editable) > MAX_EDITABLE:
        raise Invalid(f"At most {MAX_EDITABLE} arguments, not {len(rule.editable)}.", field=at)
    for name in rule.editable:
        if not 0 < len(name) <= MAX_ARGUMENT_NAME or not name.isprintable():
            raise Invalid(f"An argument's name has 1 to {MAX_ARGUMENT_NAME} printable characters.", field=at)
    if len(set(rule.editable)) < len(rule.editable):
        raise Invalid("Name each argument once.", field=at)
    if EVERY_ARGUMENT in rule.editable and len(rule.editable) > 1:
        raise Invalid(f"{EVERY_ARGUMENT} stands for all arguments: name no others beside it.", field=at)


def _check_end(rule: Rule, at: str) -> None:
    """Raise `Invalid` if the fields about a call on which nobody decides in time are not allowed."""
    minutes = rule.expires_minutes
    if isinstance(minutes, bool) or not 1 <= minutes <= MAX_MINUTES:
        raise Invalid(
            f"Give a whole number from 1 to {MAX_MINUTES:,} minutes, not {minutes}.", field=f"{at}.expires_minutes"
        )
    _check_reminder(rule, f"{at}.remind_minutes")
    if rule.otherwise is Otherwise.ALLOW and rule.risk is Risk.CRITICAL:
        raise Invalid("A critical call is not allowed because nobody decided.", field=f"{at}.otherwise")
    if (rule.otherwise is Otherwise.ESCALATE) != bool(rule.escalate_to):
        what = "Name the group that is asked then." if not rule.escalate_to else "No group is asked then."
        raise Invalid(what, field=f"{at}.escalate_to")
    if rule.escalate_to and rule.escalate_to == rule.group:
        raise Invalid("This group is asked first already: name another.", field=f"{at}.escalate_to")


def _check_reminder(rule: Rule, at: str) -> None:
    minutes = rule.remind_minutes
    if isinstance(minutes, bool) or not 0 <= minutes < rule.expires_minutes:
        raise Invalid(
            f"Give 0 for no reminder, or fewer minutes than people have to decide: {rule.expires_minutes:,}.", field=at
        )


def _check_choice(choices: type[StrEnum], value: object, field: str) -> None:
    if value not in set(choices):
        raise Invalid(f"Give one of {', '.join(choices)}, not {str(value)[:20]!r}.", field=field)


def storable(text: str) -> bool:
    """Whether Postgres can store the text: without U+0000 and halves of surrogate pairs."""
    return "\0" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def to_json(rule: Rule) -> dict[str, Any]:
    """The rule as a JSON object, without fields that have their default: so a field that a later release adds changes
    no digest."""
    values = {name: getattr(rule, name) for name in RULE_FIELDS}
    return {
        name: _as_json(name, value) for name, value in values.items() if name in _NEEDED or value != _DEFAULTS[name]
    }


def _as_json(name: str, value: Any) -> Any:
    if isinstance(value, Preview):
        return value.to_json()
    if isinstance(value, tuple):
        return list(value)
    return str(value) if name in _CHOICES else value


def from_json(value: Any, field: str = "rule") -> Rule:
    """The rule of a JSON object that `to_json` made. Raises `Invalid` for an unknown or missing member, or a value of
    another type; the error names the rule as `field`. Lengths and ranges are not checked here, but by `check_rules`."""
    if not isinstance(value, dict):
        raise Invalid(f"A rule is an object with {', '.join(RULE_FIELDS)}.", field=field)
    for name in value:
        if name not in _KINDS:
            raise Invalid(
                f"A rule has no {str(name)[:60]!r}. It has {', '.join(RULE_FIELDS)}.", field=f"{field}.{str(name)[:60]}"
            )
    for name, kind in _KINDS.items():
        if name not in value and name in _NEEDED:
            raise Invalid(f"A rule needs {name}.", field=f"{field}.{name}")
        if name in value and not _is_a(value[name], kind):
            raise Invalid(f"Give {_CALLED[kind]}.", field=f"{field}.{name}")
    chosen = {name: choices for name, choices in _CHOICES.items() if name in value}
    for name, choices in chosen.items():
        _check_choice(choices, value[name], f"{field}.{name}")
    found: dict[str, Any] = {name: tuple(part) if isinstance(part, list) else part for name, part in value.items()}
    read: dict[str, Any] = {name: choices(value[name]) for name, choices in chosen.items()}
    if "preview" in value:
        read["preview"] = preview_from_json(value["preview"], f"{field}.preview")
    return Rule(**{**found, **read})


def preview_from_json(value: dict[str, Any], field: str = "preview") -> Preview:
    """The preview of a JSON object that `Preview.to_json` made. Raises `Invalid`."""
    if set(value) == {"tool"} and isinstance(value["tool"], str) and value["tool"]:
        return Preview(tool=value["tool"])
    given = value.get("arguments")
    if set(value) != {"arguments"} or not isinstance(given, dict) or not given:
        raise Invalid('A preview is {"tool": NAME}, or {"arguments": {NAME: VALUE}} for the same tool.', field=field)
    try:
        text = jsonx.canonical(given).decode()
    except (ValueError, TypeError, RecursionError) as error:
        raise Invalid(f"The arguments of a preview cannot be stored: {str(error)[:100]}.", field=field) from None
    if jsonx.has_nul(given) or not storable(text):
        raise Invalid("It holds U+0000 or half of a surrogate pair, which cannot be stored.", field=field)
    return Preview(arguments=text)


def _is_a(value: Any, kind: type) -> bool:
    """Whether the JSON value has this type; a tuple is a list of texts."""
    if kind is tuple:
        return isinstance(value, list) and all(type(part) is str for part in value)
    return type(value) is kind


def list_from_json(value: Any) -> tuple[Rule, ...]:
    """The rules of a JSON array. Raises `Invalid`, with a `field` as that of `check_rules`."""
    if not isinstance(value, list):
        raise Invalid("The rules are a list.", field="rules")
    return tuple(from_json(item, f"rules.{place}") for place, item in enumerate(value))


def encoded(rules: Sequence[Rule]) -> bytes:
    """The rules as compact JSON, as they are stored."""
    return jsonx.encode([to_json(rule) for rule in rules])


def digest_of(rules: Sequence[Rule]) -> str:
    """The digest of the rules and their order, in hexadecimal."""
    return hashlib.sha256(jsonx.canonical([to_json(rule) for rule in rules])).hexdigest()


def difference(before: Sequence[Rule], after: Sequence[Rule]) -> Difference:
    """How the second list differs from the first."""
    old, new = {rule.name: rule for rule in before}, {rule.name: rule for rule in after}
    stayed, stay = [name for name in old if name in new], [name for name in new if name in old]
    blocks = SequenceMatcher(None, stayed, stay, autojunk=False).get_matching_blocks()
    unmoved = {name for block in blocks for name in stay[block.b : block.b + block.size]}
    return Difference(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=tuple(name for name in stay if old[name] != new[name]),
        moved=tuple(name for name in stay if name not in unmoved),
    )


def fields_changed(before: Rule, after: Rule) -> tuple[str, ...]:
    """The names of the fields in which the second rule differs from the first."""
    return tuple(name for name in RULE_FIELDS if getattr(before, name) != getattr(after, name))


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The person who signed in the application that calls. Empty for other clients."""

    name: str = ""
    role: str = ""
    groups: tuple[str, ...] = ()

    def stored(self) -> dict[str, Any]:
        """The person as tasks keep them: the same JSON object that the SQL function `th_signed_in` gives."""
        return {"name": self.name, "role": self.role, "groups": list(self.groups)}


NOBODY: Final = SignedIn()


def signed_in(found: dict[str, Any]) -> SignedIn:
    """The person whom the SQL function `th_signed_in` found."""
    return SignedIn(found["name"], found["role"], tuple(found["groups"]))


@dataclass(frozen=True, slots=True)
class Client:
    """The client for whose call or list of tools a rule decides. `scopes` is `None` if no token names any: then
    expressions about scopes are in doubt."""

    context_id: int
    name: str
    issuer: str
    subject: str
    client_id: str
    scopes: frozenset[str] | None = None
    person: SignedIn = NOBODY


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say of a call."""

    then: Then
    rule: Rule | None = None
    """The rule that decided; `None` if none matched."""
    version: int = 0
    doubt: bool = False
    """Whether the rule matched only because its expression was in doubt."""
    shadows: tuple[str, ...] = ()
    """The names of the matching rules on trial (`shadow`) that stand before the rule that decided."""
    scopes: frozenset[str] | None = None
    """The scopes for which the rules decided (`Client.scopes`)."""
    person: SignedIn = NOBODY
    """The person for whom the rules decided (`Client.person`), if rules speak of people."""
    bypass: Bypass | None = None
    """The bypass that lets the call run; without it people would be asked."""

    @property
    def hidden(self) -> bool:
        """Whether the call is denied because a rule hides the tool from the client."""
        return self.rule is not None and self.rule.then is Then.HIDE

    def stored(self) -> dict[str, Any] | None:
        """The verdict as a task stores it; `None` if the tenant has no rules and no bypass let the call pass."""
        if not self.version and self.bypass is None:
            return None
        kept: dict[str, Any] = {"then": str(Then.HIDE if self.hidden else self.then), "version": self.version}
        if self.rule is not None:
            kept |= {"rule": self.rule.name, "doubt": self.doubt}
            if self.rule.preview is not None and self.then is Then.ASK:
                kept["preview"] = True
        if self.bypass is not None:
            kept["bypass"] = self.bypass.stored()
        if self.scopes is not None:
            kept["scopes"] = sorted(self.scopes)
        if self.person != NOBODY:
            kept["person"] = self.person.stored()
        return kept


NO_VERDICT: Final = Verdict(Then.ALLOW)
