"""Decides calls again by the rules in force: the call of a claimed task, if rules or tool have changed or the bypass
that let it pass is over; the call of a task that is run again; and, for a card, the call that people are about to
approve."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from taskhub.core.bypass import passed
from taskhub.core.names import PERSON_ISSUERS
from taskhub.core.records import Actor, Claim, NewQuestion, OpenQuestion, ToolRecord
from taskhub.core.rules import NOBODY, Client, Otherwise, Then, Verdict, signed_in
from taskhub.core.states import QuestionKind
from taskhub.core.words import words
from taskhub.domain.catalogue.view import tool_by_id
from taskhub.domain.changes import change, questions, who
from taskhub.domain.rules.decisions import Rules, denied_why
from taskhub.domain.rules.reads import present, version
from taskhub.domain.tasks.create import approval_question
from taskhub.lib import jsonx
from taskhub.store import statements
from taskhub.store.models import Question, Task

_DECIDE_AGAIN = statements.one("decide_again", bool)
_SIGNED_IN = statements.one("signed_in", str)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What becomes of an approved call when a worker takes it, by the rules in force now."""

    verdict: Verdict
    asked_again: bool
    """Whether people are asked again, because the rules now ask in another way than when people approved."""


def runs_with(task: Task) -> dict[str, Any]:
    """The arguments with which the call runs: those of the client, or those that people approved instead."""
    found: dict[str, Any] = task.arguments if task.edited is None else task.edited["arguments"]
    return found


def decide(task: Task, tool: ToolRecord, rules: Rules, arguments: dict[str, Any] | None = None) -> Verdict:
    """What the rules say of the call of `task`: for its client with the scopes that the token had, the tool as it is
    now, and `arguments`, by default those with which the call runs. `task.context` has to be loaded."""
    client, name = task.context, task.client_info.get("name")
    scopes = (task.decided or {}).get("scopes")
    return rules.decide(
        Client(
            client.pk,
            client.name,
            client.issuer,
            client.subject,
            client.client_id,
            None if scopes is None else frozenset(scopes),
            signed_in(json.loads(_SIGNED_IN(context=client.pk))) if client.issuer in PERSON_ISSUERS else NOBODY,
        ),
        tool,
        runs_with(task) if arguments is None else arguments,
        program=name if isinstance(name, str) else "",
        now=datetime.now(UTC),
    )


def may_run(claim: Claim, rules: dict[int, Rules], *, actor: Actor) -> bool:
    """Decide the call of a claimed task again, and store what the rules say. Returns whether it may run. If not, the
    claim is over: the task has ended, or people are asked. `rules` keeps the rules of tenants for further calls.

    An approval stands if the same rule asks for it in the same words as before.
    """
    task = Task.objects.select_related("context").get(pk=claim.task_id)
    tool = tool_by_id(claim.tool_id)
    assert tool is not None  # its tasks keep a tool from being deleted
    if claim.tenant_id not in rules:
        rules[claim.tenant_id] = Rules(present(claim.tenant_id))
    verdict, approval = _decided(task, tool, rules[claim.tenant_id], runs_with(task), _given(task))
    if approval is not None:
        approval = _again(with_edited(approval, task.edited), task)
    # A bypass that let the call pass has to be replaced even if there are no rules.
    decided = verdict.stored() or {"then": str(verdict.then), "version": verdict.version}
    return change(
        _DECIDE_AGAIN,
        claim.task_id,
        task=claim.task_id,
        epoch=claim.epoch,
        decided=jsonx.encode(decided).decode(),
        approval=None if approval is None else jsonx.encode(questions([approval])).decode(),
        refusal=_refusal(verdict),
        who=who(actor),
    )


def outlook(task_id: int, question: OpenQuestion, arguments: dict[str, Any]) -> Outlook:
    """What `may_run` will come to, if people approve the call with these arguments in answer to this question, and the
    rules stay as they are now."""
    task = Task.objects.select_related("context").get(pk=task_id)
    tool = tool_by_id(task.tool_id)
    assert tool is not None  # its tasks keep a tool from being deleted
    given = {"params": question.params, "group": question.group, "quorum": question.quorum}
    verdict, approval = _decided(task, tool, Rules(present(task.tenant_id)), arguments, given)
    return Outlook(verdict, approval is not None)


def _decided(
    task: Task, tool: ToolRecord, rules: Rules, arguments: dict[str, Any], given: Mapping[str, Any] | None
) -> tuple[Verdict, NewQuestion | None]:
    """What the rules say of the call with these arguments, and the approval that people have to give; `None` if none is
    required, or the approval `given` stands."""
    verdict = decide(task, tool, rules, arguments)
    approval = None if verdict.then is Then.DENY else approval_question(tool, arguments, verdict)
    if approval is None or _stands(task.tenant_id, given, approval, verdict):
        return verdict, None
    verdict = rules.let_pass(verdict, tool)
    return verdict, None if verdict.bypass is not None else approval


def _refusal(verdict: Verdict) -> str | None:
    if verdict.then is not Then.DENY:
        return None
    return words("hidden_by_rule") if verdict.hidden else denied_why(verdict)


def has_preview(task_id: int) -> bool:
    """Whether the rule that decided the task last has a preview."""
    return Task.objects.filter(pk=task_id, decided__has_key="preview").exists()


def with_edited(approval: NewQuestion, edited: dict[str, Any] | None) -> NewQuestion:
    """The approval, changed so that it is about the arguments of `edited`; unchanged if `edited` is `None`. If nobody
    decides, the call is denied even if the rule would let it run, because the rule means the call that the client
    made."""
    if edited is None:
        return approval
    params = {**approval.params, "edited": edited}
    if (decided := params.get("decided")) and decided.get("otherwise") == Otherwise.ALLOW:
        params["decided"] = {**decided, "otherwise": str(Otherwise.DENY)}
    return replace(approval, params=params)


def _again(approval: NewQuestion, task: Task) -> NewQuestion:
    """The approval with the reason why it is asked for only now: the bypass that let the call pass is over, or the
    rules decided the call again."""
    if passed(task.decided) is not None:
        return replace(approval, params={**approval.params, "asked_again": "bypass_over"})
    return replace(approval, params={**approval.params, "decided": {**approval.params["decided"], "again": True}})


def approval_stands(tenant_id: int, public_id: str, approval: NewQuestion, verdict: Verdict) -> bool:
    """Whether people have already approved the call of this task as `approval` would ask them to; `False` if the task
    was purged."""
    task = Task.objects.filter(tenant_id=tenant_id, public_id=public_id).first()
    return task is not None and _stands(tenant_id, _given(task), approval, verdict)


def _given(task: Task) -> Mapping[str, Any] | None:
    """The last approval that people gave for the call: `params`, `group` and `quorum` of its question; `None` if they
    gave none."""
    return (
        Question.objects.filter(task=task, kind=QuestionKind.APPROVAL, state="answered")
        .order_by("-id")
        .values("params", "group", "quorum")
        .first()
    )


def _stands(tenant_id: int, last: Mapping[str, Any] | None, approval: NewQuestion, verdict: Verdict) -> bool:
    """Whether people who gave the approval `last` approved the call as `approval` would ask them to."""
    if last is None:
        return False
    before, now = dict(last["params"]), dict(approval.params)
    decided = before.pop("decided", None)
    now.pop("decided", None)
    before.pop("asked_again", None)
    before.pop("permit", None)
    before.pop("edited", None)  # a claim compares what runs with what was approved
    # If the first group did not decide in time, another group was asked. The rule names the first.
    group = (decided or {}).get("escalated_from", last["group"])
    if (group, last["quorum"]) != (approval.group, approval.quorum):
        return False
    if verdict.rule is None or decided is None or before != now:
        return False
    if verdict.rule.name != decided["rule"]:
        return False
    asked = version(tenant_id, decided["version"])
    return asked is not None and verdict.rule in asked.rules
