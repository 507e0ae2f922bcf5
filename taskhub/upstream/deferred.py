"""Polls a server for its task of a deferred call, and translates its answer into plain records.

In revision 2026-07-28 the answer to `tasks/get` has everything: the result, the error, or the questions, which
`tasks/update` answers. An answer is sent again for as long as the server asks the question, so sent answers need not be
remembered. For 2025-11-25, `upstream.session_tasks` makes the further requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as types
from mcp import MCPError
from pydantic import ValidationError

from taskhub.core.errors import TaskHubError
from taskhub.core.records import LogLine, NewQuestion, Poll
from taskhub.core.versions import has_sessions
from taskhub.core.words import words
from taskhub.domain.credentials.records import NeedsAuthorization
from taskhub.upstream.asks import OtherwiseError
from taskhub.upstream.call import asked, finished, passed_on, poll_ms, profile_of, status_message
from taskhub.upstream.connection import Connection
from taskhub.upstream.failures import gone
from taskhub.upstream.offers import Verbatim
from taskhub.upstream.outcomes import Asked, Faulted, Finished, broken
from taskhub.upstream.pool import Pool
from taskhub.upstream.refusals import Unauthorized, refusal
from taskhub.upstream.sessions import Later
from taskhub.upstream.sieve import misfit
from taskhub.upstream.target import Target

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 10.0
"""The longest that a server may take for one poll."""

FIRST_MS: Final = 100
"""Milliseconds until the first poll, and until the first one after an answer was sent. Each further pause is twice as
long, up to the interval that the server asks for. So the result of a short task need not wait for a whole interval."""

LONGEST_MS: Final = 5_000
"""The most milliseconds between two polls if the server does not ask for an interval."""

ASKING_MS: Final = 5_000
"""The least milliseconds between two polls while people or the client are asked."""

CANCELLING_MS: Final = 1_000
"""Milliseconds between two polls of a task that the server is to cancel."""

LATER_MS: Final = 1_000
"""The least milliseconds until the next poll if the client's session at the server cannot be used now."""

_UNKNOWN: Final = frozenset({types.INVALID_PARAMS, types.METHOD_NOT_FOUND, -32002})
"""Error codes that mean that the server does not know the task."""


@dataclass(frozen=True, slots=True)
class GoesOn:
    """The server's task is not over. `message`: the server's message about it, empty if there is none. `delay_ms`:
    milliseconds until the next poll. `poll_ms`: the pause from which `next_ms` computes the one after that."""

    status: str
    message: str
    poll_ms: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class AsksMore:
    """The server's task asks questions that it did not ask before."""

    questions: tuple[NewQuestion, ...]
    delay_ms: int = ASKING_MS


@dataclass(frozen=True, slots=True)
class AsksNoMore:
    """The server's task no longer wants answers to the questions that are open."""

    message: str
    delay_ms: int = FIRST_MS


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The server's task was cancelled. `confirmed`: whether the server has said so."""

    confirmed: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The server's task ended without a result. `status`: the status of that task from now on."""

    outcome: Faulted
    status: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The server does not know its task any more, so the outcome of the call is unknown. `told`: the sentence that says
    so."""

    told: str


@dataclass(frozen=True, slots=True)
class Silent:
    """The poll got no answer; `problem` says why. The server is polled again later. `scopes`: the scopes that the token
    lacks, if the server refused the poll because of that."""

    problem: str
    scopes: str = ""


PollOutcome = GoesOn | AsksMore | AsksNoMore | Finished | Ended | Cancelled | Lost | Silent


class _TaskRequest(types.Request[dict[str, Any], str]):
    name_param = "taskId"


def is_spent(taken: Poll) -> bool:
    """Whether the call has run for as long as its tool may. Never while the server's task waits for answers."""
    return taken.ran_seconds >= taken.claim.run_seconds and taken.status != "input_required"


def too_long(taken: Poll) -> str:
    """The message of a call that ran for too long."""
    return f"The tool ran longer than {taken.claim.run_seconds} s and was stopped"


def next_ms(before_ms: int, wanted_ms: int | None) -> int:
    """Milliseconds until the next poll, if there were `before_ms` before this one and the server wants `wanted_ms`."""
    return min(before_ms * 2, LONGEST_MS if wanted_ms is None else wanted_ms)


async def poll(pool: Pool, taken: Poll, *, say: Callable[[LogLine], None]) -> PollOutcome:
    """Ask the server for its task, send it the answers that it waits for, or ask it to cancel the task. Whatever the
    server does becomes an outcome. Raises only `NeedsAuthorization`, if the grant has lapsed since the poll began.
    `say` gets warnings about the result."""
    outcome = await _outcome(pool, taken, say)
    if not isinstance(outcome, GoesOn | AsksMore | AsksNoMore | Silent):
        await pool.tasks.forget(taken)
    return outcome


async def _outcome(pool: Pool, taken: Poll, say: Callable[[LogLine], None]) -> PollOutcome:
    try:
        async with asyncio.timeout(POLL_SECONDS):
            return await _poll(pool, taken, say)
    except Later as error:  # the client's session is being opened or ended, here or by another worker
        if is_spent(taken):
            return Silent(error.message)
        return GoesOn(taken.status, taken.message, taken.poll_ms, max(LATER_MS, int(error.seconds * 1000)))
    except TimeoutError:
        return Silent(f"no answer within {POLL_SECONDS:.0f} s")
    except MCPError as error:
        if not gone(error) and refusal(error) is None and error.error.code in _UNKNOWN:
            return _unknown(taken, pool.target, error)
        said = refusal(error)
        return Silent(pool.target.reason(error), scopes=said.scopes if said else "")
    except NeedsAuthorization:
        raise
    except TaskHubError as error:
        return Silent(error.message, scopes=error.scopes if isinstance(error, Unauthorized) else "")
    except ValidationError as error:
        return Ended(broken(f"the server sent something that is no task: {misfit(error)}"), "failed")
    except Exception as error:  # noqa: BLE001 - whatever a server does must not stop the worker
        return Silent(pool.target.reason(error))


async def _poll(pool: Pool, taken: Poll, say: Callable[[LogLine], None]) -> PollOutcome:
    spent = is_spent(taken)
    if taken.ended or taken.cancelling or spent:
        stopped = await _cancel(pool, taken)
        if taken.ended or (taken.cancelling and not stopped and not has_sessions(taken.revision)):
            return Cancelled(confirmed=False)
        if spent and not taken.cancelling:
            return await _ended_late(pool, taken, say)
    body = await _told(pool, taken, say)
    status = body.get("status")
    if status == "completed":
        return await _completed(pool, taken, body, say)
    if status == "failed":
        return Ended(_failed(pool.target, body), "failed")
    if status == "cancelled":
        return Cancelled(confirmed=True)
    if status not in ("working", "input_required"):
        return Ended(broken("its task has a status that the protocol does not know"), "failed")
    if taken.cancelling:
        if taken.overdue:
            return Cancelled(confirmed=False)
        return GoesOn(status, taken.message, taken.poll_ms, CANCELLING_MS)
    if status == "input_required":
        return await _input_required(pool, taken, body)
    message = pool.target.shown(status_message(body))
    if taken.open_keys:
        return AsksNoMore(message)
    delay_ms = next_ms(taken.poll_ms, poll_ms(body, taken.revision))
    return GoesOn(status, message, delay_ms, delay_ms)


async def _ended_late(pool: Pool, taken: Poll, say: Callable[[LogLine], None]) -> PollOutcome:
    """The outcome of a call that has run for too long and whose task the server was asked to cancel. The outcome is the
    result if the task had completed since the last poll."""
    with contextlib.suppress(MCPError, TaskHubError, ValidationError):
        body = await _told(pool, taken, say)
        if body.get("status") == "completed":
            return await _completed(pool, taken, body, say)
    return Ended(Faulted({"code": types.INTERNAL_ERROR, "message": too_long(taken)}), "cancelled")


async def _told(pool: Pool, taken: Poll, say: Callable[[LogLine], None]) -> dict[str, Any]:
    """The server's answer to `tasks/get`, in the form of 2026-07-28."""
    body = await _ask(pool, "tasks/get", taken)
    if has_sessions(taken.revision):
        return await pool.tasks.told(lambda: _shared(pool, taken), taken, profile_of(taken.claim), body, say)
    return body


def _shared(pool: Pool, taken: Poll) -> AbstractAsyncContextManager[Connection]:
    roots = profile_of(taken.claim).roots
    return pool.of_task(taken.claim.context_id, taken.revision, taken.session, roots=roots)


async def _completed(pool: Pool, taken: Poll, body: dict[str, Any], say: Callable[[LogLine], None]) -> PollOutcome:
    result = body.get("result")
    if not isinstance(result, dict):
        return Ended(broken("its task is completed and has no result"), "failed")
    outcome = await finished(pool, lambda: _shared(pool, taken), taken.claim, result, say)
    return outcome if isinstance(outcome, Finished) else _ended(outcome)


def _ended(outcome: Any) -> PollOutcome:
    return Ended(outcome if isinstance(outcome, Faulted) else broken("its task ended with another task"), "failed")


def _failed(target: Target, body: dict[str, Any]) -> Faulted:
    try:
        error = types.ErrorData.model_validate(body.get("error"))
    except ValidationError:
        return broken(target.shown(status_message(body)) or "its task failed, and it does not say why")
    return passed_on(target, MCPError(error.code, error.message, error.data))


async def _input_required(pool: Pool, taken: Poll, body: dict[str, Any]) -> PollOutcome:
    requests = body.get("inputRequests")
    if requests == {} and has_sessions(taken.revision):
        if taken.session and (taken.answers or taken.errors):
            await pool.tasks.respond(lambda: _shared(pool, taken), taken)
        return _not_heard(taken)
    if not isinstance(requests, dict) or not requests:
        return Ended(broken("its task asked for input without a question"), "failed")
    if taken.open_keys.isdisjoint(requests) and taken.open_keys and has_sessions(taken.revision):
        return AsksNoMore(taken.message)  # the stream was lost; the server asks again on the next stream
    given = {key: taken.answers[key] for key in requests if key in taken.answers}
    errors = {key: taken.errors[key] for key in requests if key in taken.errors}
    if given or errors:
        if has_sessions(taken.revision):
            pool.tasks.give(taken, given, errors)
        else:
            await _ask(pool, "tasks/update", taken, inputResponses=given)
        # A server that repeats the question has not accepted the answer; it is polled less often.
        delay_ms = FIRST_MS if taken.status == "input_required" else next_ms(taken.poll_ms, None)
        return GoesOn("working", taken.message, delay_ms, delay_ms)
    further = {key: request for key, request in requests.items() if key not in taken.open_keys}
    if not further:
        return GoesOn("input_required", taken.message, taken.poll_ms, max(taken.poll_ms, ASKING_MS))
    wanted = {"resultType": "input_required", "inputRequests": further}
    types.InputRequiredResult.model_validate(wanted, by_name=False)
    outcome = asked(taken.claim, wanted, taken.used_keys)
    if not isinstance(outcome, Asked):
        return _ended(outcome)
    return AsksMore(outcome.questions, max(taken.poll_ms, ASKING_MS))


def _not_heard(taken: Poll) -> PollOutcome:
    """The outcome of a poll if the task is waiting for an answer, but its question did not arrive or was answered just
    now."""
    if taken.open_keys:
        return GoesOn("input_required", taken.message, taken.poll_ms, max(taken.poll_ms, ASKING_MS))
    delay_ms = next_ms(taken.poll_ms, None)
    return GoesOn("working", taken.message, delay_ms, delay_ms)


async def _cancel(pool: Pool, taken: Poll) -> bool:
    """Ask the server to cancel its task. Returns `False` if it does not know the task or cannot cancel it."""
    try:
        await _ask(pool, "tasks/cancel", taken)
    except MCPError as error:
        if gone(error) or refusal(error) is not None:
            raise
        logger.info("task %s was not cancelled: %s", taken.claim.public_id, pool.target.reason(error))
        return False
    return True


async def _ask(pool: Pool, method: str, taken: Poll, **more: Any) -> dict[str, Any]:
    params = {"taskId": taken.upstream_id, **more}
    if pool.asks is not None and not has_sessions(taken.revision):
        with contextlib.suppress(OtherwiseError):
            return await pool.asks.ask(method, params, taken.upstream_id)
    lost_before = pool.session_lost(taken.session)
    try:
        return await _asked(pool, taken, _TaskRequest(method=method, params=params))
    except MCPError:
        if lost_before or not pool.session_lost(taken.session):
            raise
    # The server no longer knows the session in which it made the task, but may find the task in another session.
    return await _asked(pool, taken, _TaskRequest(method=method, params=params))


async def _asked(pool: Pool, taken: Poll, request: _TaskRequest) -> dict[str, Any]:
    async with _shared(pool, taken) as connection:
        assert connection.client is not None
        body = (await connection.client.session.send_request(request, Verbatim)).root
        if pool.asks is not None and connection.modern:
            pool.asks.declared = connection.declared
        return body


def _unknown(taken: Poll, target: Target, error: MCPError) -> PollOutcome:
    if taken.cancelling:
        return Cancelled(confirmed=False)
    return Lost(words("upstream_unknown", taken.claim.server_name, target.shown(error.error.message)[:300]))
