"""Approvals for clients that make their calls themselves: the requests of `/api/v1/approvals`, without HTTP.

A request is decided as a `tools/call` would be, by the same rules. If they allow the call, it gets a permit at once. If
people have to be asked, the request is a task that people decide and no worker runs (`core.versions.DECIDED_ONLY`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any, Final

from taskhub.core.bypass import not_asked, passed
from taskhub.core.errors import Forbidden, Invalid, NotFound, Refused, Unavailable
from taskhub.core.hints import run_topic
from taskhub.core.names import IDEMPOTENCY_KEY
from taskhub.core.records import Principal, TaskRecord, ToolRecord
from taskhub.core.rules import NO_VERDICT, Then, Verdict
from taskhub.core.states import State
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.permits.records import DEFAULT_SECONDS, WANTED_SECONDS, Permit, Redemption
from taskhub.domain.permits.signatures import arguments_digest, is_signed, signed
from taskhub.domain.permits.writes import issue_permit, owned_permit, record_refusal, redeem_permit
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.create import approval_question
from taskhub.domain.tasks.recheck import approval_stands
from taskhub.lib import jsonx
from taskhub.protocol.calls import (
    PUBLIC_ID,
    Made,
    actor_of,
    console_at,
    created,
    fresh_since,
    idempotency_key,
    judged,
    known_task,
    unless_gone,
    wait_for,
)
from taskhub.protocol.hub import Hub, client_of
from taskhub.protocol.incoming import Incoming
from taskhub.protocol.wire.page_links import question_path

MAX_WAIT_SECONDS: Final = 60
"""The longest that a request waits for a decision."""
MAX_WAITS: Final = 200
"""The most requests of a client that wait in one process; further requests are answered at once."""
HOUR_MS: Final = 3_600_000
_UNKNOWN: Final = "There is no such approval, or it is not this client's."


class Status(StrEnum):
    """The state of a request for an approval."""

    PENDING = "pending"
    """People are asked."""
    GRANTED = "granted"
    """There is a permit, which can be redeemed."""
    REDEEMED = "redeemed"
    DENIED = "denied"
    """A rule or a person has denied the call."""
    EXPIRED = "expired"
    """Nobody decided in time, or the permit was not redeemed in time."""
    CANCELLED = "cancelled"
    FAILED = "failed"
    """No decision was possible, for example because the tool has changed."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that is to be approved. `server` and `tool` are the server's name in the hub and the tool's own name at
    the server. `wanted_by`: until when people may decide; `None` for `WANTED_SECONDS` from now. `valid_seconds`: for
    how long the permit can be redeemed. `program`: what the client's program calls itself. `key`: the idempotency key,
    if the client sent one."""

    server: str
    tool: str
    arguments: dict[str, Any]
    wanted_by: datetime | None = None
    valid_seconds: int = DEFAULT_SECONDS
    program: str = ""
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """The answer to a request. `id` is empty if a rule denied the call, because such requests are not stored. `page`:
    the address where people decide."""

    status: Status
    id: str = ""
    message: str = ""
    permit: str = ""
    expires_at: datetime | None = None
    page: str = ""


class NotRedeemed(Refused):
    """The permit belongs to the client, but cannot be redeemed. `why`: the reason as one word, for programs."""

    def __init__(self, why: str, message: str) -> None:
        super().__init__(message)
        self.why = why


class NoFit(Invalid):
    """The arguments do not fit the tool's schema, so people are not asked."""


_WHY: Final = {
    Redemption.OTHER_ARGUMENTS: "The permit is for other arguments.",
    Redemption.USED: "The permit has been used: it is for one call.",
    Redemption.EXPIRED: "The permit has expired.",
    Redemption.WITHDRAWN: "The tool is not offered any more.",
    Redemption.TOOL_CHANGED: "The tool has changed since the call was approved.",
    Redemption.CALL_CHANGED: "The server's address has changed since the call was approved.",
    Redemption.APPROVER_LEFT: "Somebody who approved the call may not approve it any more.",
}


async def request_approval(hub: Hub, incoming: Incoming, wanted: Wanted, *, wait: float) -> Approval:
    """Have a call decided. If people are asked, wait at most `wait` seconds for their decision.

    Raises `NotFound` for a tool that is unknown or hidden from the client, `NoFit`, `Invalid`, `KeyReused`,
    `LimitReached` or `Unavailable`.
    """
    principal = incoming.principal
    due = _due_seconds(wanted.wanted_by)
    key = idempotency_key({} if wanted.key is None else {IDEMPOTENCY_KEY: wanted.key})
    tool = await _tool(hub, principal, wanted.server, wanted.tool)
    program = {"name": wanted.program} if wanted.program else {}
    verdict, problem = await judged(hub, incoming, tool, wanted.arguments, program)
    if verdict.then is Then.DENY:
        return Approval(Status.DENIED, message=problem)
    if problem:
        raise NoFit(problem)
    if approval_question(tool, wanted.arguments, verdict) is None:
        issue = partial(
            issue_permit,
            tenant_id=principal.tenant_id,
            context_id=principal.context_id,
            tool=tool,
            arguments_sha256=arguments_digest(wanted.arguments),
            verdict=verdict,
            seconds=wanted.valid_seconds,
            actor=actor_of(incoming),
        )
        issued = _of_permit(await hub.lanes.run(issue))
        let_pass = passed(verdict.stored())
        return issued if let_pass is None else replace(issued, message=not_asked(let_pass))
    made = await created(
        hub,
        incoming,
        tool=tool,
        arguments=wanted.arguments,
        revision=DECIDED_ONLY,
        verdict=verdict,
        client_info=program,
        idempotency_key=key,
        ttl_ms=(due + wanted.valid_seconds) * 1_000 + HOUR_MS,
        permit_seconds=wanted.valid_seconds,
        wanted_seconds=due,
    )
    return await _decided(hub, incoming, made, wait)


async def approval(hub: Hub, incoming: Incoming, public_id: str, *, wait: float) -> Approval:
    """The client's request with this id, as soon as it is decided, or undecided after `wait` seconds. Raises
    `NotFound`."""
    task = await known_task(hub, incoming.principal, public_id, DECIDED_ONLY)
    if task is not None:
        return await _decided(hub, incoming, Made(task), wait)
    permit = await _permit(hub, incoming.principal, public_id)
    if permit is None:
        raise NotFound(_UNKNOWN)
    return _of_permit(permit)


async def cancel_approval(hub: Hub, incoming: Incoming, public_id: str) -> Approval:
    """Withdraw a request that is not decided yet; one that is decided stays as it is. Raises `NotFound`."""
    task = await known_task(hub, incoming.principal, public_id, DECIDED_ONLY)
    if task is not None and task.ended_at is None:
        await hub.lanes.run(request_cancel, task.id, actor=actor_of(incoming))
    return await approval(hub, incoming, public_id, wait=0)


async def redeem(
    hub: Hub, incoming: Incoming, public_id: str, *, permit: str, arguments: dict[str, Any], program: str = ""
) -> Approval:
    """Redeem a permit, so that its client may make one call with these arguments. The rules decide again: if they now
    deny the call, or require an approval that the call does not have, the permit is not redeemed. `program`: see
    `Wanted`.

    Raises `NotFound` if the client has no such permit, and `NotRedeemed` if the permit cannot be redeemed.
    """
    principal = incoming.principal
    held = await _permit(hub, principal, public_id)
    if held is None:
        raise NotFound(_UNKNOWN)
    if not is_signed(held, permit):
        raise await _not_redeemed(hub, incoming, held, "not_this_permit", "This is not the permit of this approval.")
    digest = arguments_digest(arguments)
    verdict = NO_VERDICT
    if digest == held.arguments_sha256 and held.redeemed_at is None and not held.expired:
        verdict = await _check_rules(hub, incoming, held, arguments, program)
    outcome = await hub.lanes.run(
        partial(
            redeem_permit,
            public_id,
            context_id=principal.context_id,
            arguments_sha256=digest,
            verdict=verdict,
            actor=actor_of(incoming),
        )
    )
    if outcome is Redemption.UNKNOWN:
        raise NotFound(_UNKNOWN)
    if outcome is not Redemption.REDEEMED:
        raise await _not_redeemed(hub, incoming, held, outcome, _WHY[outcome])
    return Approval(Status.REDEEMED, public_id, "Make the call now: this permit is used.")


async def _check_rules(hub: Hub, incoming: Incoming, held: Permit, arguments: dict[str, Any], program: str) -> Verdict:
    """The verdict of the present rules, if they let the call be made. Raises `NotRedeemed` if they do not."""
    try:
        tool = await _tool(hub, incoming.principal, held.server, held.tool)
    except NotFound:
        message = _WHY[Redemption.WITHDRAWN]
        raise await _not_redeemed(hub, incoming, held, Redemption.WITHDRAWN, message) from None
    rules = (await hub.catalogue(incoming.principal)).rules
    steps = rules.deciding(client_of(incoming.principal), tool, arguments, program=program, now=datetime.now(UTC))
    verdict = await hub.rule_time.run(incoming.principal.tenant_id, steps)
    if verdict.then is Then.DENY:
        raise await _not_redeemed(hub, incoming, held, "denied", "A rule denies this call now.")
    if (wanted := approval_question(tool, arguments, verdict)) is None:
        return verdict
    stands = partial(approval_stands, incoming.principal.tenant_id, held.public_id, wanted, verdict)
    if not held.asked or (verdict.version != held.rules_version and not await hub.lanes.run(stands)):
        verdict = rules.let_pass(verdict, tool)
        if verdict.bypass is None:
            message = "This call needs an approval now; ask again."
            raise await _not_redeemed(hub, incoming, held, "approval_needed", message)
    return verdict


async def _not_redeemed(hub: Hub, incoming: Incoming, held: Permit, why: str, message: str) -> NotRedeemed:
    """Record in the audit log why the permit is not redeemed, at most once a minute for each permit and reason, and
    return the error to raise."""
    key = (held.public_id, str(why))
    if not hub.refused.get(key):
        hub.refused.keep(key, True, hub.refused.since())
        tenant, actor = incoming.principal.tenant_id, actor_of(incoming)
        with suppress(Unavailable):  # the permit is refused even if that cannot be recorded
            await hub.lanes.run(partial(record_refusal, held, str(why), tenant_id=tenant, actor=actor))
    return NotRedeemed(str(why), message)


async def _tool(hub: Hub, principal: Principal, server: str, name: str) -> ToolRecord:
    """The tool of that name at that server. Raises `NotFound` if there is none that the client may see."""
    for tool in (await hub.catalogue(principal)).tools:
        if tool.name == name and tool.server_name == server:
            return tool
    raise NotFound(f"Unknown tool: {name[:128]} of server {server[:128]}")


async def _permit(hub: Hub, principal: Principal, public_id: str) -> Permit | None:
    if not PUBLIC_ID.fullmatch(public_id):
        return None
    return await hub.lanes.run(owned_permit, public_id, principal.context_id)


async def _decided(hub: Hub, incoming: Incoming, made: Made, wait: float) -> Approval:
    """The request of this task, as soon as it is decided, or undecided after `wait` seconds; at once if `MAX_WAITS`
    requests of the client already wait."""
    topic, client = run_topic(made.task.public_id), incoming.principal.context_id
    with hub.hints.watch(topic) as bell:
        task = await fresh_since(hub, made)
        if wait > 0 and hub.waits[client] < MAX_WAITS:
            hub.waits[client] += 1
            try:
                waiting = wait_for(hub, task, lambda _: hub.closing.is_set(), bell=bell, seconds=wait)
                task = await unless_gone(incoming, waiting, _nothing)
            finally:
                hub.waits[client] -= 1
                if not hub.waits[client]:
                    del hub.waits[client]
            if not await incoming.valid():
                raise Forbidden("The token is not valid any more.")
    return await _of_task(hub, incoming, task)


async def _nothing() -> None:
    """Do nothing if the client disconnects: it can ask for the decision later."""


async def _of_task(hub: Hub, incoming: Incoming, task: TaskRecord) -> Approval:
    if task.state is State.INPUT_REQUIRED:
        page = f"{console_at(hub, incoming)}{question_path(task, task.questions[0])}"
        return Approval(Status.PENDING, task.public_id, task.message, page=page)
    if task.state is State.CANCELLED:
        return Approval(Status.CANCELLED, task.public_id, task.message)
    if task.state is State.FAULTED:
        late = jsonx.decode((task.error_json or "{}").encode()).get("data", {}).get("reason") == "input_timeout"
        return Approval(Status.EXPIRED if late else Status.FAILED, task.public_id, task.message)
    hub.brought(task, incoming.principal.context_id)
    if task.is_error:
        (said,) = jsonx.decode((task.result_json or "").encode())["content"]
        return Approval(Status.DENIED, task.public_id, said["text"])
    permit = await _permit(hub, incoming.principal, task.public_id)
    if permit is None:  # deleted, since its time is over
        return Approval(Status.EXPIRED, task.public_id, _WHY[Redemption.EXPIRED])
    return _of_permit(permit)


def _of_permit(permit: Permit) -> Approval:
    if permit.redeemed_at is not None:
        return Approval(Status.REDEEMED, permit.public_id, _WHY[Redemption.USED])
    if permit.expired:
        return Approval(Status.EXPIRED, permit.public_id, _WHY[Redemption.EXPIRED])
    return Approval(Status.GRANTED, permit.public_id, permit=signed(permit), expires_at=permit.expires_at)


def _due_seconds(wanted_by: datetime | None) -> int:
    """The seconds from now until `wanted_by`; `WANTED_SECONDS` if it is `None`. Raises `Invalid` for a time out of
    range."""
    if wanted_by is None:
        return WANTED_SECONDS
    seconds = int((wanted_by - datetime.now(UTC)).total_seconds())
    if not 1 <= seconds <= WANTED_SECONDS:
        raise Invalid(f"It must be 1 to {WANTED_SECONDS:,} seconds from now, not {seconds:,}.", field="wanted_by")
    return seconds


__all__ = [
    "MAX_WAIT_SECONDS", "Approval", "NoFit", "NotRedeemed", "Status", "Wanted", "approval",
    "cancel_approval", "redeem", "request_approval",
]  # fmt: skip
