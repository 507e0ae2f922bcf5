"""Makes one tool call at a server, and translates the answer into plain records."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Final

import mcp_types as types
from mcp import MCPError
from pydantic import TypeAdapter, ValidationError

from taskhub.core.errors import TaskHubError, Unavailable
from taskhub.core.records import Audience, Claim, LogLine, NewQuestion, UpstreamTask
from taskhub.core.states import QuestionKind
from taskhub.core.versions import Era, Version, has_sessions
from taskhub.core.words import words
from taskhub.domain.credentials.records import NeedsAuthorization
from taskhub.domain.questions.kinds import BY_METHOD, audience_for, can_answer, modes_of, question_problem
from taskhub.lib import jsonx
from taskhub.lib.schemas import Checked
from taskhub.upstream.calls import FORMS_AND_LINKS, Ask, Bound
from taskhub.upstream.catalogue import list_tools, outputs
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.failures import failure, gone, lost, reason
from taskhub.upstream.offers import Verbatim
from taskhub.upstream.outcomes import Asked, CallOutcome, Deferred, Faulted, Finished, Postponed, broken
from taskhub.upstream.pool import Pool
from taskhub.upstream.posts import Posts, RefusedError, UnconnectedError
from taskhub.upstream.refusals import HttpRefusal, Unauthorized, refusal
from taskhub.upstream.session_tasks import made_of, only_as_tasks, task_of
from taskhub.upstream.sessions import Later
from taskhub.upstream.sieve import misfit
from taskhub.upstream.target import Target
from taskhub.upstream.task_news import token_of

logger = logging.getLogger(__name__)

MAX_RESULT = 8 * 1_048_576
"""The most bytes of a result as JSON: of calls in this module, of reads, prompts and completions in `relay`."""
MAX_ERROR_MESSAGE = 4_000
"""The most characters of an error's message."""
MAX_ERROR_DATA = 65_536
MAX_CODE = 2**31 - 1
MAX_OPEN = 16
MAX_KEY = 256
"""The most characters of the key of a tool's question."""
MAX_TASK_ID = 256
"""The most characters of the id of a server's task."""
MAX_PAGES = 1_000
MAX_TRIES = 3
"""The most tries of a call that the server refuses to run because it no longer knows the session."""
MAX_CLAIMS = 20
"""How often a task may be claimed before its server can no longer postpone the call by `Retry-After`."""
PAUSES = (1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0, 10.0)
"""Seconds before each repetition of a call, if the tool answers with a `requestState` and no question."""

_ANSWER: TypeAdapter[Any] = TypeAdapter(types.InputResponse)


Mirrored = frozenset[tuple[str, str]]
Lend = Callable[[], AbstractAsyncContextManager[Connection]]


@dataclass(frozen=True, slots=True)
class _Round:
    """The answers and the `requestState` that a call sends besides the arguments."""

    answers: dict[str, Any] | None
    state: str | None


_NO_SESSIONS_RESULT: Final = (types.INTERNAL_ERROR, "Handler returned an invalid result")
"""Code and message with which a server made with the SDK answers a call if its tool returns questions
(`InputRequiredResult`) and the version of MCP has no such result. The error means nothing else, because such a server
converts everything else that a tool returns. The call can be repeated: a tool that asks questions expects it."""


@dataclass(frozen=True, slots=True)
class _Again:
    """The tool is to be called again with `state`, without answers. `None`: call it again at once, in another way that
    is known now: without a session, in which the server could not send the tool's questions, or as a task."""

    state: str | None


async def call_tool(
    pool: Pool, claim: Claim, *, say: Callable[[LogLine], None], ask: Ask, begin: Callable[[], bool] = lambda: True
) -> CallOutcome:
    """Call the tool, and return the outcome. A tool that only asks to be called again is called again after a pause
    (B26-60). Whatever the server does becomes an outcome, never an exception. Raises `NeedsAuthorization`, before the
    call is made, if the grant has lapsed since it was last read. `say` gets log lines and progress as they come; `ask`
    answers a request that an older server makes during the call. `begin` is called when there is a connection for the
    call; if it returns `False`, the call is not made."""
    profile = profile_of(claim)

    async def asked(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        async with pool.aside():
            return await ask(kind, params)

    bound = Bound(
        ask=asked,
        say=lambda level, text: say(LogLine(level, text)),
        begin=begin,
        roots=profile.roots,
        sampling=profile.sampling,
        elicitation=modes_of(claim.client_capabilities) if claim.only_caller else FORMS_AND_LINKS,
        context_id=claim.context_id,
    )
    first = _Round(usable(claim.answers), claim.upstream_state)
    outcome = await _round(pool, claim, first, bound, say)
    if isinstance(outcome, _Again) and outcome.state is None:
        outcome = await _round(pool, claim, first, bound, say)
    for pause in PAUSES:
        if not isinstance(outcome, _Again):
            break
        await asyncio.sleep(pause)  # without a connection, so that a command can serve other calls
        outcome = await _round(pool, claim, _Round(None, outcome.state), bound, say)
    if isinstance(outcome, _Again):
        return broken(f"the tool asked for nothing but another call, {len(PAUSES) + 1} times")
    return outcome


def profile_of(claim: Claim, *, stateless: bool = False) -> Profile:
    """What the caller of this call can be asked. `stateless`: the call needs no session, whatever the caller's
    revision."""
    people = claim.question_audience in (Audience.OPERATOR, Audience.EITHER)
    able = claim.client_capabilities
    elicitation = not claim.only_caller or modes_of(able) is not None
    return Profile.of(able, people=people, elicitation=elicitation, revision="" if stateless else claim.revision)


async def _round(
    pool: Pool, claim: Claim, given: _Round, bound: Bound, say: Callable[[LogLine], None], *, tries: int = 1
) -> CallOutcome | _Again:
    stateless = claim.tool_name in pool.interim or given.answers is not None or given.state is not None
    profile = pool.fitted(profile_of(claim, stateless=stateless))
    reached = False
    bound.refused, bound.unconnected = False, ""
    try:
        if posts := pool.posts_for(profile, claim.tool_name):
            with contextlib.suppress(RefusedError):
                return await _posted(pool, posts, profile, claim, given, bound, say)
        async with _lent(pool, profile, claim) as connection:
            reached = True
            if not bound.begin():
                return broken("its call was withdrawn")
            return await _carried(pool, connection, claim, given, bound, say)
    except UnconnectedError as error:
        return _unreached(claim, str(error))
    except MCPError as error:
        # The server was restarted and does not know the session, so it has not run the call.
        if bound.refused and tries < MAX_TRIES:
            return await _round(pool, claim, given, bound, say, tries=tries + 1)
        return _without_answer(pool.target, claim, error, bound)
    except Later as error:
        return Postponed(error.message, error.seconds)
    except NeedsAuthorization:
        raise
    except TaskHubError as error:
        if isinstance(error, Unauthorized) and error.scopes:
            return replace(broken(error.message), scopes=error.scopes)
        if not reached:
            return _unreached(claim, error.message)
        return broken(error.message)
    except Exception as error:  # noqa: BLE001 - whatever a server does must not stop the worker
        return broken(pool.target.reason(error))


def _without_answer(target: Target, claim: Claim, error: MCPError, bound: Bound) -> Faulted | Postponed:
    """The outcome of a call that the tool did not answer."""
    if why := failure(error):
        return broken(why)
    said = refusal(error)
    if said and said.unrun:
        return _unhandled(claim, said)
    if said and said.unknown:
        return _unknown(words("server_unanswered", said.told, claim.server_name))
    if not lost(error):
        return passed_on(target, error)
    if bound.unconnected:
        return _unreached(claim, bound.unconnected)
    return _unknown(words("server_lost", claim.server_name))


@contextlib.asynccontextmanager
async def _lent(pool: Pool, profile: Profile, claim: Claim) -> AsyncIterator[Connection]:
    """A connection for the call. If the server will run it as a task of 2025-11-25: the connection by which that task
    is polled."""
    if not _as_task(pool, claim):
        async with pool.borrow(profile, claim.context_id) as connection:
            yield connection
        return
    roots = profile.roots
    async with pool.turn(), pool.shared(claim.context_id, Version.MCP_2025_11_25, roots=roots) as connection:
        yield connection


async def _carried(
    pool: Pool, connection: Connection, claim: Claim, given: _Round, bound: Bound, say: Callable[[LogLine], None]
) -> CallOutcome | _Again:
    """The outcome of the call, made through this connection. Raises only if the connection cannot be used any more."""
    if why := connection.lost_before:
        connection.lost_before = ""
        say(LogLine("warning", words("state_lost", claim.server_name, why)))
    if pool.only_as_tasks is None and not connection.modern:
        await _learn_tasks(pool, connection)
        if _as_task(pool, claim):
            return _Again(None)
    with connection.calls.serving(bound):
        await connection.greeted()
        return await _answer(pool, connection, claim, given, say)


def _as_task(pool: Pool, claim: Claim) -> bool:
    """Whether the tool belongs to a 2025-11-25 server and can only be called as a task."""
    return claim.tool_name in (pool.only_as_tasks or ())


async def _posted(
    pool: Pool,
    posts: Posts,
    profile: Profile,
    claim: Claim,
    given: _Round,
    bound: Bound,
    say: Callable[[LogLine], None],
) -> CallOutcome | _Again:
    """The outcome of the call by a single request. Raises what `Posts.call` raises, except `ValidationError`."""
    params: dict[str, Any] = {"name": claim.tool_name, "arguments": claim.arguments}
    if given.answers is not None:
        params["inputResponses"] = given.answers
    if given.state is not None:
        params["requestState"] = given.state
    if claim.trace:
        params["_meta"] = claim.trace
    try:
        async with pool.turn():
            if not bound.begin():
                return broken("its call was withdrawn")
            body = await posts.call(profile, params, bound, say)
        return await _translated(pool, lambda: pool.borrow(profile, claim.context_id), claim, body, say)
    except ValidationError as error:
        return _no_result(error)


async def _answer(
    pool: Pool, connection: Connection, claim: Claim, given: _Round, say: Callable[[LogLine], None]
) -> CallOutcome | _Again:
    """The outcome of one request. Errors and invalid answers become outcomes too, so that they do not close the
    connection, which would end a command and lose its state. Raises only if the connection cannot be used any more."""
    mirrored = pool.mirrored
    try:
        if connection.modern and connection.learnt != mirrored and any(name == claim.tool_name for name, _ in mirrored):
            await _learn_headers(connection, mirrored)
        as_task = not connection.modern and _as_task(pool, claim)
        body = await _call(connection, claim, given, say, mirrored, as_task=as_task)
        if as_task and (made := made_of(body)) is not None:
            here = pool.target.transport != "http" or connection.has_session
            return _deferred(pool.target, made, Version.MCP_2025_11_25, here=here, session=connection.session.id)
        return await _translated(pool, lambda: contextlib.nullcontext(connection), claim, body, say)
    except MCPError as error:
        if gone(error) or not connection.alive:
            raise
        if (error.error.code, error.error.message) == _NO_SESSIONS_RESULT and _by_choice(pool, connection):
            logger.info("server %s: tool %s is called without a session", claim.server_name, claim.tool_name)
            pool.interim.add(claim.tool_name)
            return _Again(None)
        return passed_on(pool.target, error)
    except ValidationError as error:
        return _no_result(error)


def _by_choice(pool: Pool, connection: Connection) -> bool:
    """Whether the connection has a session only because the caller's revision has sessions: the server also speaks
    without."""
    if pool.target.transport == "stdio" and not pool.sessions.shared:
        return False  # a client's process speaks one era only
    return connection.profile.sessions and not connection.modern and pool.eras.last is Era.STATELESS


async def _translated(
    pool: Pool, lend: Lend, claim: Claim, body: dict[str, Any], say: Callable[[LogLine], None]
) -> CallOutcome | _Again:
    """The result `body`, translated into an outcome. `lend` lends a connection if the tools must be listed. Raises
    `ValidationError` if `body` is not a result of a tool."""
    if body.get("resultType") == "input_required":
        types.InputRequiredResult.model_validate(body, by_name=False)
        return asked(claim, body)
    if body.get("resultType") == "task":
        return _deferred(pool.target, body, Version.MCP_2026_07_28, here=pool.target.transport != "http")
    return await finished(pool, lend, claim, body, say)


async def _call(
    connection: Connection,
    claim: Claim,
    given: _Round,
    say: Callable[[LogLine], None],
    mirrored: Mirrored,
    *,
    as_task: bool,
) -> dict[str, Any]:
    async def note(progress: float, total: float | None, message: str | None) -> None:
        say(LogLine("progress", connection.hide(message or ""), progress=progress, total=total))

    assert connection.client is not None
    # `Any`, because the SDK's types of answers and `_meta` are narrower than the protocol's. The request is validated
    # when it is built.
    answers: Any = given.answers if connection.modern else None
    meta: Any = {**claim.trace, "progressToken": token_of(claim)} if as_task else claim.trace or None
    session = connection.client.session
    request = types.CallToolRequest(
        params=types.CallToolRequestParams(
            name=claim.tool_name,
            arguments=claim.arguments,
            task=task_of(claim.run_seconds) if as_task else None,
            input_responses=answers,
            request_state=given.state,
            _meta=meta,
        )
    )

    if as_task:  # progress comes after the answer too, which the SDK's client does not expect
        with connection.news.during(token_of(claim), say):
            return (await session.send_request(request, Verbatim)).root

    async def call() -> dict[str, Any]:
        # Without a timeout: the worker limits the running time, and does not count the time while people answer.
        return (await session.send_request(request, Verbatim, progress_callback=note)).root

    try:
        return await call()
    except MCPError as error:
        if error.error.code != types.HEADER_MISMATCH:
            raise
        # The watcher's list of tools is out of date. The server refused the call before it ran, so it can be repeated.
        await _learn_headers(connection, mirrored)
        return await call()


async def finished(
    pool: Pool, lend: Lend, claim: Claim, body: dict[str, Any], say: Callable[[LogLine], None]
) -> CallOutcome:
    """The outcome for the result `body` of a call. `lend` as for `_translated`. Raises `ValidationError` if `body` is
    no result of a tool."""
    result = types.CallToolResult.model_validate(body, by_name=False)
    body = {name: value for name, value in body.items() if name != "resultType"}
    clean = jsonx.repaired(body)
    if len(jsonx.encode(clean)) > MAX_RESULT:
        text = f"The tool's result is larger than {MAX_RESULT} bytes and was not kept."
        return Finished({"content": [{"type": "text", "text": text}], "isError": True}, too_large=True)
    if not result.is_error:
        checked = await _misfit_of_output(pool, lend, claim.tool_name, clean)
        if checked.problem:
            return broken(checked.problem)
        if checked.unchecked:
            words = f"The result was not checked against the tool's output schema: {checked.unchecked}"
            say(LogLine("warning", words))
    return Finished(body)


async def _misfit_of_output(pool: Pool, lend: Lend, tool: str, body: dict[str, Any]) -> Checked:
    """Check the result against the tool's output schema. A result that cannot be checked is accepted, because the tool
    has run and must not run twice."""
    known = tool in pool.outputs
    if not known:
        await _learn_outputs(pool, lend, tool)
    checked = await _checked(pool, tool, body)
    if checked.problem and known:  # the schema may have changed since it was read
        await _learn_outputs(pool, lend, tool)
        checked = await _checked(pool, tool, body)
    return checked


async def _checked(pool: Pool, tool: str, body: dict[str, Any]) -> Checked:
    schema = pool.outputs.get(tool)
    if schema is None:
        return Checked()
    if "structuredContent" not in body:
        return Checked(problem=f"tool {tool} has an output schema and sent no structured content")
    checked = await pool.checker.check(schema, body["structuredContent"])
    if checked.problem:
        return Checked(
            problem=f"the structured content is not what the output schema of {tool} says: {checked.problem}"
        )
    return checked


async def _learn_outputs(pool: Pool, lend: Lend, tool: str) -> None:
    try:
        async with lend() as connection:
            assert connection.client is not None
            tools = await list_tools(connection.client.session, declared=True, modern=connection.modern)
    except (MCPError, ValidationError, Unavailable) as error:
        logger.info("output schemas could not be learnt: %s", reason(error))  # the result is accepted unchecked
        return
    pool.outputs = {tool: None, **outputs(tools)}


async def _learn_tasks(pool: Pool, connection: Connection) -> None:
    """Note which tools can only be called as tasks, because the server may answer a plain call of such a tool with an
    error that looks like the tool's own."""
    assert connection.client is not None
    client = connection.client
    told = client.server_capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)
    tools = {}
    if "tasks" in told and client.protocol_version == Version.MCP_2025_11_25:
        listed = await list_tools(client.session, declared=True, modern=False)
        tools = {tool.name: tool.definition for tool in listed if not tool.rejected}
    if pool.only_as_tasks is None:
        pool.only_as_tasks = only_as_tasks(client.protocol_version, told, tools)


async def _learn_headers(connection: Connection, mirrored: Mirrored) -> None:
    """List the tools on this connection, because the SDK sends arguments in headers (B26-26) only for tools that it has
    listed on the same connection."""
    assert connection.client is not None
    cursor = None
    try:
        for _ in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            page = await connection.client.session.list_tools(params=params)
            cursor = page.next_cursor
            if cursor is None:
                break
    except (MCPError, ValidationError) as error:
        if gone(error):
            raise
        # Go on with the call: a server that needs the headers refuses it without running it.
        logger.info("the headers of tools could not be learnt: %s", reason(error))
    connection.learnt = mirrored


def usable(answers: dict[str, Any] | None) -> dict[str, Any] | None:
    """The answers that the SDK accepts, by key. Others are left out, so that the tool asks again (B26-65)."""
    if not answers:
        return answers
    found = {}
    for key, answer in answers.items():
        with contextlib.suppress(ValidationError):
            _ANSWER.validate_python(answer)
            found[key] = answer
    return found


def _deferred(target: Target, body: Any, revision: str, *, here: bool, session: str = "") -> CallOutcome:
    if not isinstance(body, dict):
        return broken("it made a task of the wrong form")
    task_id = body.get("taskId")
    if not isinstance(task_id, str) or not 0 < len(task_id) <= MAX_TASK_ID or not task_id.isprintable():
        return broken(f"the id of its task is not 1 to {MAX_TASK_ID} printable characters")
    message, wanted = target.shown(status_message(body)), poll_ms(body, revision)
    return Deferred(UpstreamTask(task_id, revision, str(body.get("status", ""))[:16], message, wanted, here), session)


def status_message(body: dict[str, Any]) -> str:
    """The message of a task of a server; empty if there is none."""
    message = body.get("statusMessage")
    return message[:MAX_ERROR_MESSAGE] if isinstance(message, str) else ""


def poll_ms(body: dict[str, Any], revision: str) -> int | None:
    """The milliseconds between two polls that a server asks for; `None` if it does not say."""
    found = body.get("pollInterval" if has_sessions(revision) else "pollIntervalMs")
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not found > 0:
        return None
    return int(min(found, MAX_CODE))


def asked(claim: Claim, body: dict[str, Any], used: Collection[str] = ()) -> CallOutcome | _Again:
    """The outcome for a valid `InputRequiredResult`. `used`: keys that questions of the task already have."""
    requests: dict[str, Any] = body.get("inputRequests") or {}
    if len(requests) > MAX_OPEN:
        return broken(f"the tool asked {len(requests)} questions at once; at most {MAX_OPEN} are allowed")
    questions: list[NewQuestion] = []
    keys = set(used)
    for upstream_key, request in requests.items():
        if len(upstream_key) > MAX_KEY or jsonx.has_nul(upstream_key):
            return broken(f"the tool asked under a key that holds U+0000 or is longer than {MAX_KEY} characters")
        key = _key(upstream_key, claim)
        while key in keys:  # a short key of the tool may equal the digest of a long one
            key += "~"
        keys.add(key)
        kind = BY_METHOD[request["method"]]
        params = {name: value for name, value in (request.get("params") or {}).items() if name != "_meta"}
        problem = question_problem(kind, params)
        if claim.only_caller and not can_answer(claim.client_capabilities, kind, params):
            problem = f"it made a request, {request['method']}, that its caller cannot serve"
        if problem:
            return broken(problem)
        questions.append(
            NewQuestion(
                key=key,
                upstream_key=upstream_key,
                kind=kind,
                params=params,
                audience=audience_for(claim.client_capabilities, kind, params, claim.question_audience),
            )
        )
    state = body.get("requestState")
    if not questions:
        return broken("the tool asked for input without a question") if state is None else _Again(state)
    return Asked(tuple(questions), state)


def _key(upstream_key: str, claim: Claim) -> str:
    """The question's key, which must be unique in the task (T26-30): the tool's own key, changed if it is long, was
    used before, or begins like a key of the hub's."""
    key = upstream_key if len(upstream_key) <= 48 else hashlib.sha256(upstream_key.encode()).hexdigest()[:32]
    ours = key.startswith(("approval", "authorization", "live-", "outcome-", "page-"))
    return f"{key}~{claim.epoch}" if ours or upstream_key in (claim.answers or {}) else key


def waiting_message(questions: Sequence[NewQuestion]) -> str:
    """The status message of a task that waits for answers to these questions."""
    if all(question.audience is Audience.OPERATOR for question in questions):
        return words("waiting_operator")
    if len(questions) == 1:
        return str(questions[0].params.get("message") or words("waiting_answer"))[:200]
    return words("waiting_answers", len(questions))


def passed_on(target: Target, error: MCPError) -> Faulted:
    """The server's own error, with bounded size, a code that may be passed on, and without the server's secrets."""
    if said := refusal(error):
        return replace(broken(said.words()), scopes=said.scopes)
    code, message = error.error.code, target.shown(error.error.message)
    data = jsonx.with_strings(error.error.data, target.shown)
    body: dict[str, Any] = {"code": code if abs(code) <= MAX_CODE else types.INTERNAL_ERROR, "message": message}
    if len(message) > MAX_ERROR_MESSAGE:
        body["message"] = f"{message[:MAX_ERROR_MESSAGE]}…"
    if data is not None:
        size = len(jsonx.encode(jsonx.repaired(data)))
        body["data"] = data if size <= MAX_ERROR_DATA else f"{size} bytes, which were not kept"
    return Faulted(body)


def _unreached(claim: Claim, problem: str) -> Faulted:
    why = f"Server {claim.server_name} cannot be reached: {problem}"
    return Faulted({"code": -32603, "message": why}, unreached=True, problem=problem)


def _unhandled(claim: Claim, said: HttpRefusal) -> Faulted | Postponed:
    """The outcome of a call that an HTTP server refused to handle: postponed if the server names a time."""
    if said.later is not None and claim.epoch <= MAX_CLAIMS:
        return Postponed(words("server_later", claim.server_name, said.told), said.later)
    return _unreached(claim, said.words())


def _unknown(message: str) -> Faulted:
    return Faulted({"code": types.INTERNAL_ERROR, "message": message}, lost=True)


def _no_result(error: ValidationError) -> Faulted:
    return broken(f"the server sent something that is no tool result: {misfit(error)}")
