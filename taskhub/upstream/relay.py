"""Makes a relay at a server: a read, a prompt or a completion, for a caller who waits."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import mcp_types as types
from mcp import MCPError
from pydantic import ValidationError

from taskhub.core.errors import TaskHubError
from taskhub.domain.relays.outcomes import (
    COMPLETE,
    READ,
    Answered,
    Failed,
    Missing,
    NeedsInput,
    RelayClaim,
    RelayOutcome,
)
from taskhub.lib import jsonx
from taskhub.upstream.call import MAX_OPEN, MAX_RESULT, usable
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.failures import gone
from taskhub.upstream.offers import Verbatim
from taskhub.upstream.pool import Pool
from taskhub.upstream.refusals import refusal
from taskhub.upstream.sieve import misfit
from taskhub.upstream.target import Target

INTERNAL_ERROR: Final = -32603
INVALID_PARAMS: Final = -32602
NOT_FOUND_BEFORE_2026: Final = -32002

MAX_STATE: Final = 65_536


async def run_relay(pool: Pool, claim: RelayClaim) -> RelayOutcome:
    """Make the request and return the outcome. Whatever the server does becomes an outcome, never an exception. If the
    connection is lost, the request is made once more, because a relay changes nothing."""
    again = claim.params.get("responses") is not None or claim.params.get("state") is not None
    # Answers to questions of an earlier round can only be sent without a session.
    profile = pool.fitted(Profile.of(claim.capabilities, revision="" if again else claim.params.get("revision", "")))
    try:
        async with asyncio.timeout(claim.seconds):
            try:
                return await _through(pool, profile, claim)
            except MCPError:
                return await _through(pool, profile, claim)
    except TimeoutError:
        return Failed(INTERNAL_ERROR, f"Server {claim.server_name} gave no answer in time, or was busy with calls")
    except TaskHubError as error:
        return Failed(INTERNAL_ERROR, f"Server {claim.server_name} cannot be reached: {error.message}")
    except Exception as error:  # noqa: BLE001 - whatever a server does must not stop the worker
        return _broken(claim, f"failed: {pool.target.reason(error)}")


async def _through(pool: Pool, profile: Profile, claim: RelayClaim) -> RelayOutcome:
    # A caller with sessions gets its own session, so that it reads the resources that this session has.
    lend = pool.borrow if profile.sessions else pool.look
    async with lend(profile, claim.context_id) as connection:
        return await _made(pool.target, connection, claim)


async def _made(target: Target, connection: Connection, claim: RelayClaim) -> RelayOutcome:
    assert connection.client is not None
    try:
        found = await connection.client.session.send_request(_request(claim, modern=connection.modern), Verbatim)
    except MCPError as error:
        if gone(error) or not connection.alive:
            raise
        # The error is an ordinary answer, so the connection is kept: a wrong uri must not end a command.
        return _refused(target, claim, error)
    except ValidationError as error:
        return _broken(claim, f"sent something that is no result of {claim.method}: {misfit(error)}")
    body = dict(found.root)
    if body.get("resultType") == "input_required":
        return _asked(claim, body)
    ttl, _, _ = body.pop("ttlMs", None), body.pop("cacheScope", None), body.pop("resultType", None)
    if len(jsonx.encode(jsonx.repaired(body))) > MAX_RESULT:
        return _broken(claim, f"sent more than {MAX_RESULT} bytes")
    return Answered(body, ttl if isinstance(ttl, int) and ttl >= 0 else None)


def _request(claim: RelayClaim, *, modern: bool) -> Any:
    params = claim.params
    # `Any`, because the SDK's types are narrower than the protocol's. The request is validated when it is built.
    round_: dict[str, Any] = {"_meta": params.get("trace") or None}
    if modern:
        round_ |= {"input_responses": usable(params.get("responses")), "request_state": params.get("state")}
    match claim.method:
        case "resources/read":
            return types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=params["uri"], **round_))
        case "prompts/get":
            return types.GetPromptRequest(
                params=types.GetPromptRequestParams(name=params["name"], arguments=params["arguments"], **round_)
            )
        case _:
            return types.CompleteRequest.model_validate(
                {
                    "method": COMPLETE,
                    "params": {key: params[key] for key in ("ref", "argument", "context") if key in params},
                }
            )


def _asked(claim: RelayClaim, body: dict[str, Any]) -> RelayOutcome:
    if claim.method == COMPLETE:
        return _broken(claim, "asked for input, which a completion cannot have")
    requests: dict[str, dict[str, Any]] = {}
    for key, request in (body.get("inputRequests") or {}).items():
        params = {name: value for name, value in (request.get("params") or {}).items() if name != "_meta"}
        requests[key] = {"method": request["method"], "params": params}
    state = body.get("requestState")
    if len(requests) > MAX_OPEN:
        return _broken(claim, f"asked {len(requests)} questions at once; at most {MAX_OPEN} are allowed")
    if state is not None and len(state) > MAX_STATE:
        return _broken(claim, f"sent a requestState of more than {MAX_STATE} characters")
    if not requests and state is None:
        return _broken(claim, "asked for input without a question")
    return NeedsInput(requests, state)


def _refused(target: Target, claim: RelayClaim, error: MCPError) -> RelayOutcome:
    if said := refusal(error):
        return _broken(claim, f"failed: {said.words()}")
    code, data = error.error.code, error.error.data
    named = isinstance(data, dict) and "uri" in data
    if claim.method == READ and (code == NOT_FOUND_BEFORE_2026 or (code == INVALID_PARAMS and named)):
        return Missing(claim.params["uri"])
    return Failed(code, target.shown(error.error.message), jsonx.with_strings(data, target.shown))


def _broken(claim: RelayClaim, why: str) -> Failed:
    return Failed(INTERNAL_ERROR, f"Server {claim.server_name} {why}")
