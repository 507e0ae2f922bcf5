"""Decides calls again by the rules in force: the call of a claimed task, if rules or tool have changed or the bypass
that let it pass is over; and the call of a task that is run again."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from taskhub.core.bypass import passed
from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.records import Actor, Claim, NewQuestion, ToolRecord
from taskhub.core.rules import NOBODY, Client, Otherwise, Then, Verdict, signed_in
from taskhub.core.states import QuestionKind
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
            signed_in(json.loads(_SIGNED_IN(context=client.pk))) if client.issuer == OAUTH_ISSUER else NOBODY,
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
    verdict = decide(task, tool, rules[claim.tenant_id])
    approval = None if verdict.then is Then.DENY else approval_question(tool, runs_with(task), verdict)
    if approval is not None and _stands(task, approval, verdict):
        approval = None
    elif approval is not None:
        verdict = rules[claim.tenant_id].let_pass(verdict, tool)
        approval = None if verdict.bypass is not None else _again(with_edited(approval, task.edited), task)
    # A bypass that let the call pass has to be replaced even if there are no rules.
    decided = verdict.stored() or {"then": str(verdict.then), "version": verdict.version}
    return change(
        _DECIDE_AGAIN,
        claim.task_id,
        task=claim.task_id,
        epoch=claim.epoch,
        decided=jsonx.encode(decided).decode(),
        approval=None if approval is None else jsonx.encode(questions([approval])).decode(),
        refusal=denied_why(verdict) if verdict.then is Then.DENY else None,
        who=who(actor),
    )


def has_preview(task_id: int) -> bool:
    """Whether the rule that decided the task last has a preview."""
    return Task.objects.filter(pk=task_id, decided__has_key="preview").exists()


def with_edited(approval: NewQuestion, edited: dict[str, Any] | None) -> NewQuestion:
    """The approval, about these arguments instead of the client's own. If nobody decides, the call is denied even if
    the rule would let it run, because the rule means the call that the client made."""
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
    return task is not None and _stands(task, approval, verdict)


def _stands(task: Task, approval: NewQuestion, verdict: Verdict) -> bool:
    """Whether people have approved the call as `approval` would ask them to."""
    last = (
        Question.objects.filter(task=task, kind=QuestionKind.APPROVAL, state="answered")
        .order_by("-id")
        .values("params", "group", "quorum")
        .first()
    )
    if last is None:
        return False
    before, now = dict(last["params"]), dict(approval.params)
    decided = before.pop("decided", None)
    now.pop("decided", None)
    before.pop("asked_again", None)
    before.pop("permit", None)
    before.pop("edited", None)  # the claim holds what runs to what was approved
    # The rule named the first group, if that did not decide in time and another group was asked.
    group = (decided or {}).get("escalated_from", last["group"])
    if (group, last["quorum"]) != (approval.group, approval.quorum):
        return False
    if verdict.rule is None or decided is None or before != now:
        return False
    asked = version(task.tenant_id, decided["version"])
    return asked is not None and verdict.rule in asked.rules and verdict.rule.name == decided["rule"]
