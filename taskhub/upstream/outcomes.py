"""The outcomes of a call, or of a poll of the task that a server made of the call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from taskhub.core.records import NewQuestion, UpstreamTask


@dataclass(frozen=True, slots=True)
class Finished:
    """A `CallToolResult` as the server sent it, but without `resultType`. `too_large`: what the server sent was not
    kept, and the result says so."""

    result: dict[str, Any]
    too_large: bool = False


@dataclass(frozen=True, slots=True)
class Faulted:
    """The call ended with the JSON-RPC error `error`. `unreached`: the call never got to the server; `problem` says
    why. `lost`: the connection was lost while the tool ran, so the outcome is unknown. `scopes`: the server refused to
    run the call because the token lacks these scopes."""

    error: dict[str, Any]
    unreached: bool = False
    problem: str = ""
    lost: bool = False
    scopes: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """The tool asked questions. It is to be called again with the answers and `state` (its `requestState`)."""

    questions: tuple[NewQuestion, ...]
    state: str | None


@dataclass(frozen=True, slots=True)
class Postponed:
    """The call did not run, and is to be claimed again after `seconds`."""

    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Deferred:
    """The server runs the call as a task of its own, which is to be polled (`upstream.deferred`)."""

    task: UpstreamTask
    session: str = field(default="", repr=False)
    """The id of the session at an HTTP server to which the task belongs; empty if it belongs to none."""


CallOutcome = Finished | Faulted | Asked | Postponed | Deferred


def broken(why: str) -> Faulted:
    """The outcome of a call that fails with the sentence `why`, for example because its server broke the protocol."""
    return Faulted({"code": -32603, "message": f"The tool's server failed: {why}"})
