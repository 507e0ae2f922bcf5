"""A request that a worker makes at a server for a waiting caller, and its possible outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

READ: Final = "resources/read"
GET_PROMPT: Final = "prompts/get"
COMPLETE: Final = "completion/complete"


@dataclass(frozen=True, slots=True)
class NewRelay:
    """A request for `domain.relays.writes.add_relay`. `params`: the params of the MCP method as the server gets them,
    with the server's own names. `capabilities`: what the caller declared."""

    id: int
    context_id: int
    server_id: int
    method: str
    params: dict[str, Any]
    capabilities: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RelayClaim:
    """A request that a worker has taken; its caller waits for `seconds` more."""

    id: int
    server_id: int
    server_name: str
    method: str
    params: dict[str, Any]
    capabilities: dict[str, Any]
    seconds: float
    context_id: int = 0


@dataclass(frozen=True, slots=True)
class Answered:
    """The server's result as it came, without `resultType`, `ttlMs` and `cacheScope`, which depend on the revision.
    `ttl_ms`: the milliseconds for which the server lets the result be cached; `None` if it did not say."""

    result: dict[str, Any]
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NeedsInput:
    """The server needs answers first. `requests`: by key, a method with its params. The client answers them, and then
    makes the same request again, with the answers and `state`."""

    requests: dict[str, dict[str, Any]]
    state: str | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The server's JSON-RPC error as it came, or an error of the hub if there was no answer."""

    code: int
    message: str
    data: Any = None


@dataclass(frozen=True, slots=True)
class Missing:
    """The server has no such resource."""

    uri: str


RelayOutcome = Answered | NeedsInput | Failed | Missing

_KINDS: Final[dict[str, type[Answered] | type[NeedsInput] | type[Failed] | type[Missing]]] = {
    "answered": Answered,
    "asked": NeedsInput,
    "failed": Failed,
    "missing": Missing,
}


def encoded(outcome: RelayOutcome) -> dict[str, Any]:
    """The outcome as a JSON object."""
    (kind,) = (word for word, shape in _KINDS.items() if isinstance(outcome, shape))
    return {"kind": kind, **{name: getattr(outcome, name) for name in outcome.__dataclass_fields__}}


def decoded(body: dict[str, Any]) -> RelayOutcome:
    """The outcome that `encoded` made this JSON object of."""
    parts = dict(body)
    return _KINDS[parts.pop("kind")](**parts)
