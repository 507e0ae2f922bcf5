"""The verdicts of rules on calls, in words."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from taskhub.core.records import NewQuestion
from taskhub.core.rules import Otherwise, Then, Verdict
from taskhub.domain.clients.verdicts import Called
from taskhub.domain.rules.decisions import denied
from taskhub.domain.rules.explained import Step, Unknown, Why

UNKNOWN: Final = {
    Unknown.ARGUMENTS: "the arguments",
    Unknown.TIME: "the time",
    Unknown.PROGRAM: "what its program calls itself",
    Unknown.SCOPES: "the scopes of its token",
}
WHY: Final = {
    Why.DECIDES: "decides",
    Why.NOT_MET: "not met",
    Why.DOUBT: "in doubt, so it does not allow",
    Why.OFF: "off",
    Why.OVERRULED: "met, but a rule below hides the tool",
}
WOULD: Final = {Then.HIDE: "hidden it", Then.DENY: "denied it", Then.ASK: "asked", Then.ALLOW: "allowed it"}


def unknown_words(unknown: Collection[Unknown]) -> str:
    """The facts that are not known yet and on which a verdict depends, in words."""
    found = [words for one, words in UNKNOWN.items() if one in unknown]
    return " and ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))


def why_words(step: Step) -> str:
    """How a rule takes part in the verdict on a call, in words."""
    words = f"on trial: it would have {WOULD[step.rule.then]}" if step.why is Why.TRIAL else WHY[step.why]
    return f"{words}, in doubt" if step.doubt else words


def minutes(count: int) -> str:
    """A number of minutes as text, in the largest unit that gives a whole number."""
    for size, unit in ((1_440, "d"), (60, "h")):
        if count % size == 0:
            return f"{count // size} {unit}"
    return f"{count} min"


def called_words(called: Called) -> str:
    """What happens to a call, in words."""
    if called.then is Then.HIDE:
        return "The client does not know of the tool, and its call finds none."
    return verdict_words(called.explained.verdict, called.approval)


def verdict_words(verdict: Verdict, asked: NewQuestion | None) -> str:
    """What happens to a call, in words, by the verdict on it and the approval that it needs, if any."""
    if verdict.then is Then.DENY:
        return f"It does not run. The agent is told: “{denied(verdict)}”"
    if asked is not None:
        approve = "approves" if asked.quorum == 1 else "approve"
        rule = verdict.rule
        assert rule is not None  # only rules ask
        others = ", but not whoever made the call" if rule.not_requester else ""
        others += ", with a second factor" if rule.second_factor else ""
        then = {
            Otherwise.DENY: "it is denied",
            Otherwise.ALLOW: "it runs",
            Otherwise.ESCALATE: f"{rule.escalate_to} is asked, for the same time, and then it is denied",
        }[rule.otherwise]
        waits = f"waits until {asked.quorum} of {asked.group or 'the approvers'} {approve} it"
        remind = f" They are reminded after {minutes(rule.remind_minutes)}." if rule.remind_minutes else ""
        return f"It {waits}{others}.{remind} If nobody decides within {minutes(rule.expires_minutes)}, {then}."
    if verdict.rule:
        return "It runs without an approval."
    return "No rule matches: it runs without an approval."
