"""`resources/read`, `prompts/get` and `completion/complete` in 2026-07-28: the outcomes of `protocol.relays` as results
and errors."""

from __future__ import annotations

from typing import Any

from taskhub.core.names import META_SERVER
from taskhub.domain.questions.kinds import BY_METHOD, KINDS, can_answer
from taskhub.domain.relays.outcomes import Answered, Failed, Missing, NeedsInput, RelayOutcome
from taskhub.lib import jsonx
from taskhub.protocol import calls, relays
from taskhub.protocol.envelope import result_reply
from taskhub.protocol.errors import INVALID_PARAMS, WireError, of_server
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply
from taskhub.protocol.stateless.request import Request, input_responses, missing_capability
from taskhub.protocol.stateless.shapes import head


async def read_resource(hub: Hub, request: Request) -> Reply:
    """The resource from its server, with `ttlMs` and `cacheScope` for caches (B26-44, B26-50)."""
    outcome = await relays.read_resource(hub, request.incoming, request.params, _round(request))
    ttl = outcome.ttl_ms if isinstance(outcome, Answered) else None
    # Servers of earlier revisions send no `ttlMs`, so their resources may not be cached.
    return _shown(hub, request, outcome, {"ttlMs": ttl or 0, "cacheScope": "private"})


async def get_prompt(hub: Hub, request: Request) -> Reply:
    """The prompt, filled in by its server."""
    return _shown(hub, request, await relays.get_prompt(hub, request.incoming, request.params, _round(request)), {})


async def complete(hub: Hub, request: Request) -> Reply:
    """Suggestions for an argument (B26-51)."""
    return _shown(hub, request, await relays.complete(hub, request.incoming, request.params), {})


def _round(request: Request) -> relays.Round:
    return relays.Round(
        capabilities=request.capabilities,
        responses=input_responses(request),
        state=request.params.get("requestState"),
        trace=calls.trace_of(request.meta),
    )


def _shown(hub: Hub, request: Request, outcome: RelayOutcome, cacheable: dict[str, Any]) -> Reply:
    match outcome:
        case Answered(result):
            meta = {**(result.get("_meta") or {}), META_SERVER: hub.server_info}
            body = {"resultType": "complete", **result, **cacheable, "_meta": meta}
        case NeedsInput(requests, state):
            body = {**head(hub, "input_required"), "requestState": state}
            if requests:
                body["inputRequests"] = _for_client(request.capabilities, requests)
        case Missing(uri):
            raise WireError(INVALID_PARAMS, "Resource not found", {"uri": uri})
        case Failed(code, message, data):
            raise of_server(code, message, data)
    return result_reply(request.id, jsonx.encode(body))


def _for_client(capabilities: dict[str, Any], requests: dict[str, Any]) -> dict[str, Any]:
    """The questions that this client declared it can answer. Raises -32021 if it can answer none: only the client is
    asked about a read or a prompt (B26-62)."""
    found: dict[str, Any] = {}
    needed: dict[str, dict[str, Any]] = {}
    for key, asked in requests.items():
        kind, params = BY_METHOD[asked["method"]], asked["params"]
        if can_answer(capabilities, kind, params):
            found[key] = asked
        else:
            for capability, details in KINDS[kind].needs(params).items():
                needed.setdefault(capability, {}).update(details)
    if not found:
        raise missing_capability(needed)
    return found
