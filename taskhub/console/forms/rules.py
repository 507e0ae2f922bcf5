"""Forms about the tenant's rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from django import forms
from django.utils.safestring import mark_safe

from taskhub.console.forms.base import ConsoleForm, Typed, Whole, picked
from taskhub.core.errors import Invalid, TaskHubError
from taskhub.core.policy import MAX_GROUP, MAX_QUORUM
from taskhub.core.records import ToolRecord
from taskhub.core.rules import (
    MAX_ARGUMENT_NAME,
    MAX_EDITABLE,
    MAX_MINUTES,
    MAX_NAME,
    MAX_PREVIEW,
    MAX_REASON,
    MAX_RULES,
    MAX_SENTENCE,
    MAX_TOOL,
    MAX_WHEN,
    MAX_WORDS,
    Otherwise,
    Preview,
    Risk,
    Rule,
    Then,
    preview_from_json,
)
from taskhub.domain.rules.written import Comparison, joined, of_argument, of_tool, typed, typed_list
from taskhub.lib import jsonx
from taskhub.lib.numbers import whole
from taskhub.lib.signs import spelled

THEN_WORDS: Final = {
    Then.ASK: "Ask: people must approve the call",
    Then.DENY: "Deny: the call does not run, and the agent is told so",
    Then.HIDE: "Hide: the client does not know of the tool",
    Then.ALLOW: "Allow: the call runs without approval",
}
RISK_WORDS: Final = {
    Risk.LOW: "Low",
    Risk.HIGH: "High",
    Risk.CRITICAL: "Critical: who approves types the tool’s name",
}
OTHERWISE_WORDS: Final = {
    Otherwise.DENY: "The call is denied",
    Otherwise.ALLOW: "The call runs",
    Otherwise.ESCALATE: "Another group is asked",
}
COMPARISONS: Final = {
    Comparison.LIKE: "is like",
    Comparison.IS: "is",
    Comparison.IS_NOT: "is not",
    Comparison.GREATER: "is greater than",
    Comparison.LESS: "is less than",
    Comparison.STARTS: "starts with",
    Comparison.ONE_OF: "is one of (with commas)",
    Comparison.BETWEEN: "is between (with a comma)",
    Comparison.PRESENT: "is present",
    Comparison.ABSENT: "is not present",
}
MOST_TOOLS: Final = 1_000
"""The most tools that the select offers. Others can be named in the expression."""


def _reason() -> Typed:
    return Typed(
        label=mark_safe('Reason <span class="soft">(optional)</span>'),
        longest=MAX_REASON,
        help_text="Kept with the new version and in the audit log.",
    )


class ChangeForm(ConsoleForm):
    """Changes the list of rules as a whole. `expected` is the version that the person was shown."""

    expected = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)
    reason = _reason()

    @property
    def version(self) -> int:
        """The version that the person was shown; -1, which no list has, if that is not a number."""
        found = whole(str(self["expected"].value() or ""), most=2**31 - 1)
        return -1 if found is None else found

    def refuse(self, error: TaskHubError) -> None:
        """As `ConsoleForm.refuse`. If the error is about a rule of the list that the form does not show, the message
        begins with that rule's position."""
        told = str(error.data.get("field", ""))
        if found := re.match(r"rules\.(\d+)\.", told):
            error = Invalid(f"Rule {int(found[1]) + 1}: {error.message}")
        super().refuse(error)

    def show_version(self, version: int) -> None:
        """Make the refused form refer to the version that is in force now, so that it can be sent again."""
        self._type(expected=str(version))

    def _type(self, **texts: str) -> None:
        """Show these texts instead of those that were posted."""
        posted: Any = self.data
        self.data = posted = posted.copy()
        for name, text in texts.items():
            posted[name] = text


class RuleForm(ChangeForm):
    """Adds or changes one rule. The fields of `BUILDER` write a condition into its expression."""

    first = "name"
    BUILDER: Final = ("tool", "argument", "comparison", "value")
    name = Typed(label="Name", longest=MAX_NAME, demanded=True, help_text="No other rule of the list has it.")
    then = picked(((str(then), words) for then, words in THEN_WORDS.items()), label="What it does", initial=Then.ASK)
    tool = picked((), label="Server or tool")
    argument = Typed(label="Argument", longest=128, look="mono", attrs={"spellcheck": "false"})
    comparison = picked(((str(one), words) for one, words in COMPARISONS.items()), label="Comparison")
    value = Typed(label="Value", longest=1_000, look="mono", attrs={"spellcheck": "false"})
    when = Typed(
        label="When",
        longest=MAX_WHEN,
        look="mono",
        widget=forms.Textarea,
        attrs={
            "rows": 4,
            "spellcheck": "false",
            "placeholder": 'tool.name == "deploy" && like(args.environment, "production")',
        },
        help_text="An expression in CEL. Empty: every call.",
    )
    words = Typed(
        label=mark_safe('Words for the agent <span class="soft">(optional)</span>'),
        longest=MAX_WORDS,
        widget=forms.Textarea,
        attrs={"rows": 2, "placeholder": "Use staging instead."},
        help_text="Why the call is denied, and what to do instead.",
    )
    group = Typed(
        label=mark_safe('Group <span class="soft">(optional)</span>'),
        longest=MAX_GROUP,
        attrs={"list": "groups"},
        help_text="Empty: everybody who may approve.",
    )
    quorum = Whole(
        label="Approvals needed", low=1, high=MAX_QUORUM, initial=1, optional=True, help_text="By as many people."
    )
    not_requester = forms.BooleanField(
        required=False,
        label="Not by the requester",
        help_text="Whoever made the call, through an application that they signed in, may not decide it. Of a client "
        "that calls with a token nobody is known as its requester, so nobody is left out.",
    )
    risk = picked(((str(risk), words) for risk, words in RISK_WORDS.items()), label="Risk", initial=Risk.LOW)
    second_factor = forms.BooleanField(
        required=False,
        label="With a second factor",
        help_text="Who approves types a code of their authenticator app. Who has none cannot approve.",
    )
    sentence = Typed(
        label=mark_safe('What will happen <span class="soft">(optional)</span>'),
        longest=MAX_SENTENCE,
        attrs={"placeholder": "Deploy {args.service} {args.version} to {args.environment}"},
        help_text="The headline for the people who are asked, with the call’s arguments in their places.",
    )
    preview = Typed(
        label=mark_safe('Preview by a tool <span class="soft">(optional)</span>'),
        longest=MAX_TOOL,
        look="mono",
        attrs={"spellcheck": "false", "placeholder": "plan_deploy"},
        help_text="A tool of the same server that says that it only reads. Its answer stands on the card.",
    )
    preview_arguments = Typed(
        label=mark_safe('Preview by arguments <span class="soft">(optional)</span>'),
        longest=MAX_PREVIEW,
        look="mono",
        attrs={"spellcheck": "false", "placeholder": '{"dry_run": true}'},
        help_text="Instead: JSON for the same tool, set over the call’s own, with which it does nothing.",
    )
    expires_minutes = Whole(
        label="Minutes to decide", low=1, high=MAX_MINUTES, initial=1_440, optional=True, help_text="1,440 are a day."
    )
    remind_minutes = Whole(
        label=mark_safe('Remind after minutes <span class="soft">(optional)</span>'),
        low=0,
        high=MAX_MINUTES - 1,
        optional=True,
        help_text="Once, if they have not decided by then.",
    )
    otherwise = picked(
        ((str(one), words) for one, words in OTHERWISE_WORDS.items()),
        label="If nobody decides in time",
        initial=Otherwise.DENY,
        help_text="By the rule, and on record as such.",
    )
    escalate_to = Typed(
        label="Group that is asked then",
        longest=MAX_GROUP,
        attrs={"list": "groups"},
        help_text="It has the same time. If it does not decide either, the call is denied.",
    )
    editable = Typed(
        label=mark_safe('Arguments that may be edited <span class="soft">(optional)</span>'),
        longest=(MAX_ARGUMENT_NAME + 1) * MAX_EDITABLE,
        look="mono",
        widget=forms.Textarea,
        attrs={"rows": 2, "spellcheck": "false", "placeholder": "environment"},
        help_text=(
            "One a line; * for all. Whoever decides may change them first. What is approved then runs, and the agent"
            " is told."
        ),
    )
    shadow = forms.BooleanField(
        required=False,
        label="On trial",
        help_text="It decides nothing: only what it would have done is recorded.",
    )
    enabled = forms.BooleanField(required=False, label="On", initial=True)
    place = Whole(
        label="Position in the list", low=1, high=MAX_RULES, optional=True, help_text="The first match decides."
    )
    field_order = ("expected", "name", "then")

    def offer_tools(self, tools: Sequence[ToolRecord]) -> None:
        """Offer these tools, and their servers, in the builder."""
        self.tools = {str(tool.id): tool for tool in tools[:MOST_TOOLS]}
        servers = dict.fromkeys(tool.server_name for tool in self.tools.values())
        choices: list[Any] = [("", "Every tool")]
        for server in sorted(servers):
            of_it = [(key, spelled(tool.name)) for key, tool in self.tools.items() if tool.server_name == server]
            choices.append((server, [(f"server:{server}", f"Every tool of {server}"), *sorted(of_it, key=_second)]))
        self.fields["tool"].widget.choices = choices

    def built(self) -> str:
        """The expression with the builder's condition added. Raises `Invalid` naming the field."""
        picked_tool, argument = self.cleaned_data["tool"], self.cleaned_data["argument"]
        found = self.tools.get(picked_tool)
        conditions = []
        if found is not None:
            conditions.append(of_tool(found.server_name, found.name))
        elif picked_tool.startswith("server:"):
            conditions.append(of_tool(picked_tool.removeprefix("server:")))
        elif picked_tool:
            raise Invalid("There is no such tool any more.", field="tool")
        if argument:
            conditions.append(self._condition(argument, found))
        if not conditions:
            raise Invalid("Pick a server or tool, or name an argument.", field="argument")
        return joined(self.cleaned_data["when"], " && ".join(conditions))

    def _condition(self, argument: str, tool: ToolRecord | None) -> str:
        comparison, text = self.cleaned_data["comparison"], self.cleaned_data["value"]
        if comparison not in set(Comparison):
            raise Invalid("Choose a comparison.", field="comparison")
        kind = _type_of(argument, tool) if tool is not None else ""
        value: Any = typed(text, kind)
        if comparison == Comparison.STARTS:
            value = text
        elif comparison in (Comparison.ONE_OF, Comparison.BETWEEN):
            value = typed_list(text, kind)
        return of_argument(argument, Comparison(comparison), value)

    def show_built(self, when: str) -> None:
        """Put the expression into the form, and empty the builder's argument and value."""
        self._type(when=when, argument="", value="")

    def rule(self) -> Rule:
        """The posted rule. Fields that mean nothing for its kind, which is the field `then`, get their defaults. Raises
        `Invalid` for an unknown choice; the use case checks the rest."""
        posted = self.cleaned_data
        if posted["then"] not in set(Then):
            raise Invalid("Choose what the rule does.", field="then")
        then = Then(posted["then"])
        if posted["risk"] and posted["risk"] not in set(Risk):
            raise Invalid("Choose the risk.", field="risk")
        if posted["otherwise"] and posted["otherwise"] not in set(Otherwise):
            raise Invalid("Choose what happens then.", field="otherwise")
        otherwise = Otherwise(posted["otherwise"] or Otherwise.DENY)
        asks, quorum = then is Then.ASK, posted["quorum"]
        return Rule(
            name=posted["name"],
            when=posted["when"],
            then=then,
            words=posted["words"] if then is Then.DENY else "",
            group=posted["group"] if asks else "",
            quorum=quorum if asks and quorum is not None else 1,
            not_requester=asks and posted["not_requester"],
            risk=Risk(posted["risk"] or Risk.LOW) if asks else Risk.LOW,
            second_factor=asks and posted["second_factor"],
            sentence=posted["sentence"] if asks else "",
            expires_minutes=posted["expires_minutes"] if asks and posted["expires_minutes"] is not None else 1_440,
            remind_minutes=posted["remind_minutes"] or 0 if asks else 0,
            otherwise=otherwise if asks else Otherwise.DENY,
            escalate_to=posted["escalate_to"] if asks and otherwise is Otherwise.ESCALATE else "",
            preview=self._preview() if asks else None,
            editable=tuple(filter(None, map(str.strip, posted["editable"].splitlines()))) if asks else (),
            enabled=posted["enabled"],
            shadow=posted["shadow"],
        )

    def _preview(self) -> Preview | None:
        tool, text = self.cleaned_data["preview"], self.cleaned_data["preview_arguments"]
        if not text:
            return Preview(tool=tool) if tool else None
        try:
            found = jsonx.decode(text.encode("utf-8", "surrogatepass"))
        except jsonx.JsonError as error:
            raise Invalid(f"That is no JSON: {error}.", field="preview_arguments") from None
        given = preview_from_json({"arguments": found}, "preview_arguments")
        return Preview(tool=tool, arguments=given.arguments)

    def shown(self) -> Rule:
        """The rule as the form has it, with only the fields that warnings are about: what it does, when, and who is
        asked. Raises `Invalid` if nobody has chosen what the rule does."""
        then = str(self["then"].value() or "")
        if then not in set(Then):
            raise Invalid("Choose what the rule does.", field="then")

        def text(name: str) -> str:
            return str(self[name].value() or "")

        escalates = text("otherwise") == Otherwise.ESCALATE
        return Rule(
            name=text("name"),
            when=text("when"),
            then=Then(then),
            group=text("group"),
            quorum=whole(text("quorum"), most=MAX_QUORUM) or 1,
            not_requester=bool(self["not_requester"].value()),
            second_factor=bool(self["second_factor"].value()),
            otherwise=Otherwise(text("otherwise")) if text("otherwise") in set(Otherwise) else Otherwise.DENY,
            escalate_to=text("escalate_to") if escalates else "",
            sentence=text("sentence"),
        )

    def refuse_of(self, error: Invalid, place: int) -> None:
        """Show an error about the list of rules. `place` is the index of the form's rule in the list: an error about
        that rule is shown beside its field."""
        told = str(error.data.get("field", ""))
        at, _, part = told.rpartition(".")
        if at == f"rules.{place}" or part == "name":
            told = part
        self.refuse(Invalid(error.message, field=told))


def of_rule(rule: Rule, place: int) -> dict[str, Any]:
    """The initial values of the form that changes this rule, which is at the index `place` of the list."""
    return {
        "name": rule.name,
        "then": str(rule.then),
        "when": rule.when,
        "words": rule.words,
        "group": rule.group,
        "quorum": rule.quorum,
        "not_requester": rule.not_requester,
        "risk": str(rule.risk),
        "second_factor": rule.second_factor,
        "sentence": rule.sentence,
        "expires_minutes": rule.expires_minutes,
        "remind_minutes": rule.remind_minutes or None,
        "otherwise": str(rule.otherwise),
        "escalate_to": rule.escalate_to,
        "preview": rule.preview.tool if rule.preview else "",
        "preview_arguments": rule.preview.arguments if rule.preview else "",
        "editable": "\n".join(rule.editable),
        "shadow": rule.shadow,
        "enabled": rule.enabled,
        "place": place + 1,
    }


def _second(pair: tuple[str, str]) -> str:
    return pair[1]


def _type_of(argument: str, tool: ToolRecord) -> str:
    schema = tool.definition.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    rule = properties.get(argument) if isinstance(properties, dict) else None
    return str(rule.get("type", "")) if isinstance(rule, dict) else ""


def placed(rules: Iterable[Rule], rule: Rule, place: int | None, *, instead_of: str = "") -> tuple[list[Rule], int]:
    """The list of `rules` with `rule` at `place` (counted from 1), and the index (from 0) of the rule in it.

    With `instead_of`, the rule takes the place of the rule of this name, unless `place` is given. With neither, the
    rule goes last. Raises `Invalid` for a `place` beyond the end.
    """
    listed = list(rules)
    names = [one.name for one in listed]
    at = len(listed)
    if instead_of:
        at = names.index(instead_of)
        del listed[at]
    if place is not None:
        if not 1 <= place <= len(listed) + 1:
            raise Invalid(f"From 1 to {len(listed) + 1}.", field="place")
        at = place - 1
    listed.insert(at, rule)
    return listed, at
