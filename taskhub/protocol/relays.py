"""Reading a resource, getting a prompt, completing an argument, for any revision. A worker asks the server; the
caller's request waits here for the outcome, from which each revision makes its answer."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from dataclasses import dataclass, replace
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.core.hints import relay_topic
from taskhub.core.names import MAX_URI
from taskhub.core.records import OfferRecord, Upstream
from taskhub.domain.catalogue.view import Catalogue
from taskhub.domain.questions.kinds import BY_METHOD, can_answer, checked_response
from taskhub.domain.relays.outcomes import (
    COMPLETE,
    GET_PROMPT,
    READ,
    Answered,
    Failed,
    Missing,
    NeedsInput,
    NewRelay,
    RelayOutcome,
)
from taskhub.domain.relays.writes import RELAY_SECONDS, add_relay, drop_relay, take_outcome
from taskhub.lib import jsonx
from taskhub.lib.signing import InvalidToken
from taskhub.lib.uritemplates import matches
from taskhub.protocol import calls
from taskhub.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming

SCOPE: Final = "tasks:call"
"""The scope that a token needs for tool calls and for these methods."""

STATE_SECONDS = 86_400
MAX_SERVERS_ASKED = 3
"""The most servers that are asked in turn for one resource."""

MAX_VALUES = 100
"""Values that a completion may have (B26-51)."""


@dataclass(frozen=True, slots=True)
class Round:
    """The parts of a request that the server may answer with questions. `capabilities` are declared by the caller and
    say which questions it can answer; `responses` and `state` belong to an earlier `NeedsInput`. `revision`: the
    caller's, if that may matter to the server."""

    capabilities: dict[str, Any]
    responses: dict[str, Any] | None = None
    state: Any = None
    trace: dict[str, Any] | None = None
    revision: str = ""


async def get_prompt(hub: Hub, incoming: Incoming, params: dict[str, Any], round_: Round) -> RelayOutcome:
    """The prompt as its server fills it in. If the server asks something, the outcome is a `NeedsInput` with a signed
    state: send both to the caller, and pass the state in `round_` when the caller sends it back with the answers.
    Raises `WireError` for a mistake of the caller, `ScopeMissing`, `LimitReached`, and `Unavailable` if no worker is
    running."""
    calls.need_scope(incoming.principal, SCOPE)
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise WireError(INVALID_PARAMS, "name must be a string")
    if arguments is not None and not _texts(arguments):
        raise WireError(INVALID_PARAMS, "arguments must be an object of strings")
    prompt = (await hub.catalogue(incoming.principal)).prompt(name)
    if prompt is None:
        raise WireError(INVALID_PARAMS, f"Unknown prompt: {name[:128]}")
    if missing := _missing(prompt.definition, arguments or {}):
        raise WireError(INVALID_PARAMS, f"Missing required arguments: {', '.join(missing)}"[:500])
    request = [GET_PROMPT, name, arguments]
    asked = _opened(hub, incoming, request, round_.state)
    if asked is not None and asked.server_id != prompt.server_id:
        raise WireError(INVALID_PARAMS, "Invalid requestState: it belongs to another server")
    own = {"name": prompt.key, "arguments": arguments, **_of_round(incoming, round_, asked)}
    outcome = await _relayed(hub, incoming, _server_of(prompt), GET_PROMPT, own, round_.capabilities)
    return _signed(hub, incoming, request, prompt.server_id, outcome)


def _missing(definition: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    """The arguments that the prompt requires and that were not given."""
    declared = definition.get("arguments")
    wanted = [one for one in declared if isinstance(one, dict)] if isinstance(declared, list) else []
    return [str(one.get("name")) for one in wanted if one.get("required") is True and one.get("name") not in arguments]


async def read_resource(hub: Hub, incoming: Incoming, params: dict[str, Any], round_: Round) -> RelayOutcome:
    """The resource, from the first of `servers_of` that has it; `Missing` if none has. For rounds and errors see
    `get_prompt`."""
    calls.need_scope(incoming.principal, SCOPE)
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise WireError(INVALID_PARAMS, "uri must be a string")
    if len(uri) > 2 * MAX_URI or "\0" in uri:
        return Missing(uri)
    found = await hub.catalogue(incoming.principal)
    request = [READ, uri]
    asked = _opened(hub, incoming, request, round_.state)
    servers = servers_of(found, uri)
    if asked is not None:
        asked_before = found.upstream(asked.server_id)
        servers = (asked_before,) if asked_before is not None else ()
    own = {"uri": uri, **_of_round(incoming, round_, asked)}
    outcome: RelayOutcome = Missing(uri)
    for server in servers:
        outcome = await _relayed(hub, incoming, server, READ, own, round_.capabilities)
        if not isinstance(outcome, Missing):
            return _signed(hub, incoming, request, server.id, outcome)
    return outcome


async def complete(hub: Hub, incoming: Incoming, params: dict[str, Any]) -> Answered | Failed:
    """Suggestions for an argument of a prompt or a template: at most `MAX_VALUES`, and none if its server has no
    completions. Raises what `get_prompt` raises."""
    calls.need_scope(incoming.principal, SCOPE)
    argument, context = params.get("argument"), params.get("context")
    if not isinstance(argument, dict) or not all(isinstance(argument.get(part), str) for part in ("name", "value")):
        raise WireError(INVALID_PARAMS, "argument must be an object with name and value, both strings")
    given = context.get("arguments") if isinstance(context, dict) else None
    if context is not None and not (isinstance(context, dict) and (given is None or _texts(given))):
        raise WireError(INVALID_PARAMS, "context.arguments must be an object of strings")
    found = await hub.catalogue(incoming.principal)
    offer, ref = _referred(found, params.get("ref"))
    server = found.upstream(offer.server_id)
    if server is None or not server.can("completions"):
        return Answered({"completion": {"values": []}})
    own: dict[str, Any] = {"ref": ref, "argument": {"name": argument["name"], "value": argument["value"]}}
    if given is not None:
        own["context"] = {"arguments": given}
    outcome = await _relayed(hub, incoming, server, COMPLETE, own, {})
    if isinstance(outcome, Answered):
        completion = dict(outcome.result.get("completion") or {"values": []})
        if len(completion["values"]) > MAX_VALUES:
            completion |= {"values": completion["values"][:MAX_VALUES], "hasMore": True}
        return Answered({**outcome.result, "completion": completion})
    assert isinstance(outcome, Failed)  # a completion has no other outcome
    return outcome


def servers_of(found: Catalogue, uri: str) -> tuple[Upstream, ...]:
    """The servers that may have the resource, most likely first: the one that lists it, else those with a template that
    matches. A URI that no server lists may still be valid, because tools return links to such resources: then the
    servers with resources of the same scheme, or the only server with resources. No other server is asked, because a
    URI may contain a secret of the server that made it. Empty for a resource of a disabled server."""
    listed = found.resource(uri)
    if listed is not None:
        ids = [listed.server_id]
    elif any(uri == hidden or matches(hidden, uri) for hidden in found.hidden_uris):
        return ()
    else:
        ids = [offer.server_id for offer in found.templates if matches(offer.key, uri)]
    able = [server for server in found.upstreams if server.can("resources")]
    if not ids:
        scheme = uri.partition(":")[0].lower() if ":" in uri else ""
        ids = [
            offer.server_id
            for offer in (*found.resources, *found.templates)
            if scheme and offer.key.lower().startswith(f"{scheme}:")
        ]
    if not ids and len(able) == 1 and not found.hidden_uris:
        ids = [able[0].id]
    wanted = [found.upstream(server_id) for server_id in dict.fromkeys(ids)]
    return tuple(server for server in wanted if server is not None)[:MAX_SERVERS_ASKED]


def _referred(found: Catalogue, ref: Any) -> tuple[OfferRecord, dict[str, str]]:
    """The prompt or template of a completion, and the `ref` to send to its server, which has the server's own name for
    it. Raises -32602 if it is unknown."""
    kind = ref.get("type") if isinstance(ref, dict) else None
    name = ref.get("name" if kind == "ref/prompt" else "uri") if isinstance(ref, dict) else None
    if kind not in ("ref/prompt", "ref/resource") or not isinstance(name, str):
        raise WireError(INVALID_PARAMS, "ref must be a ref/prompt with a name or a ref/resource with a uri")
    if kind == "ref/prompt":
        prompt = found.prompt(name)
        if prompt is None:
            raise WireError(INVALID_PARAMS, f"Unknown prompt: {name[:128]}")
        return prompt, {"type": kind, "name": prompt.key}
    offer = found.template(name) or found.resource(name)
    if offer is None:
        raise WireError(INVALID_PARAMS, "Unknown resource template", {"uri": name})
    return offer, {"type": kind, "uri": offer.key}


def _texts(value: Any) -> bool:
    return (
        isinstance(value, dict) and all(isinstance(item, str) for item in value.values()) and not jsonx.has_nul(value)
    )


def _server_of(offer: OfferRecord) -> Upstream:
    return Upstream(offer.server_id, offer.server_name, {})


@dataclass(frozen=True, slots=True)
class _Continued:
    """An earlier round, read from its signed state: the server that asked, the server's own state, and its questions by
    key."""

    server_id: int
    state: str | None
    requests: dict[str, Any]


def _of_round(incoming: Incoming, round_: Round, asked: _Continued | None) -> dict[str, Any]:
    """The answers and the state that are sent to the server. Raises `ScopeMissing` for answers that the token may not
    give."""
    if round_.responses:
        calls.need_scope(incoming.principal, "tasks:answer")
    given = {} if asked is None else _counting(round_, asked.requests)
    return {
        "responses": given or None,
        "state": None if asked is None else asked.state,
        "trace": round_.trace,
        "revision": round_.revision,
    }


def _counting(round_: Round, requests: dict[str, Any]) -> dict[str, Any]:
    """The answers that are passed on to the server: those that fit a question of the earlier round and that this client
    may give, without members that were not asked for. For the others, the server asks again (B26-65)."""
    found: dict[str, Any] = {}
    for key, response in (round_.responses or {}).items():
        request = requests.get(key)
        if request is None:
            continue
        kind, params = BY_METHOD[request["method"]], request["params"]
        if can_answer(round_.capabilities, kind, params):
            with contextlib.suppress(Invalid):
                found[key] = checked_response(kind, params, response)
    return found


def _digest(request: list[Any]) -> str:
    return hashlib.sha256(jsonx.canonical(request)).hexdigest()[:32]


def _signed(hub: Hub, incoming: Incoming, request: list[Any], server_id: int, outcome: RelayOutcome) -> RelayOutcome:
    """The outcome; the state of a `NeedsInput` is replaced by one that the hub signs, bound to the caller and the
    request (B26-64). It contains the server's own state, which the caller can read unless the server encrypts it."""
    if not isinstance(outcome, NeedsInput):
        return outcome
    bound = [incoming.principal.context_id, _digest(request), server_id, outcome.state, outcome.requests]
    return replace(outcome, state=hub.signer.sign("relayState", bound, seconds=STATE_SECONDS))


def _opened(hub: Hub, incoming: Incoming, request: list[Any], state: Any) -> _Continued | None:
    """The earlier round that `state` names. Raises -32602 for a state of another caller or request."""
    if state is None:
        return None
    try:
        signed = hub.signer.verify("relayState", state) if isinstance(state, str) else None
    except InvalidToken as error:
        raise WireError(INVALID_PARAMS, f"Invalid requestState: {error}") from None
    if not isinstance(signed, list) or signed[:2] != [incoming.principal.context_id, _digest(request)]:
        raise WireError(INVALID_PARAMS, "Invalid requestState: it belongs to another request")
    _, _, server_id, own, requests = signed
    return _Continued(int(server_id), own, requests)


async def _relayed(
    hub: Hub, incoming: Incoming, server: Upstream, method: str, params: dict[str, Any], capabilities: dict[str, Any]
) -> RelayOutcome:
    """Have a worker make the request, and wait for the outcome. If the caller leaves, the request is withdrawn."""
    relay_id = secrets.randbits(62)
    new = NewRelay(relay_id, incoming.principal.context_id, server.id, method, params, capabilities)
    outcome: RelayOutcome | None = None
    with hub.hints.watch(relay_topic(relay_id)) as bell:
        await hub.lanes.run(add_relay, new)
        try:
            outcome = await calls.unless_gone(incoming, _outcome(hub, relay_id, bell), lambda: asyncio.sleep(0))
        finally:
            if outcome is None:
                await asyncio.shield(hub.lanes.run(drop_relay, relay_id))
    if outcome is None:
        return Failed(INTERNAL_ERROR, f"Server {server.name} gave no answer within {RELAY_SECONDS:.0f} s")
    return outcome


async def _outcome(hub: Hub, relay_id: int, bell: asyncio.Event) -> RelayOutcome | None:
    """The outcome as soon as there is one; `None` if there is none within `RELAY_SECONDS` and a second."""
    loop = asyncio.get_running_loop()
    # The worker gives up a second earlier, and its error can say why.
    deadline = loop.time() + RELAY_SECONDS + 1.0
    while (left := deadline - loop.time()) > 0:
        await calls.rung(bell, min(calls.RECHECK_SECONDS, left))
        known, outcome = await hub.lanes.run(take_outcome, relay_id)
        if outcome is not None:
            return outcome
        if not known:
            return Failed(INTERNAL_ERROR, "The request was lost when the database restarted; try again")
    return None
