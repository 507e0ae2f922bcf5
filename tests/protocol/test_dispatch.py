"""What the one door answers when something goes wrong behind it: no server, no database."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, cast

import pytest

from taskhub.core import errors as domain
from taskhub.core.names import SCOPES
from taskhub.core.records import Principal
from taskhub.lib.lanes import Lanes
from taskhub.lib.signing import Signer
from taskhub.protocol.calls import ScopeMissing
from taskhub.protocol.dispatch import handle, wire_error
from taskhub.protocol.errors import http_status
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply
from tests.protocol import schema
from tests.support.client import TASKS, VERSION, Client

TASK_ID = "A" * 32


class _Broken:
    """Lanes in which everything ends with one error."""

    most = patience = math.inf

    def __init__(self, error: Exception) -> None:
        self.error = error

    def vain(self, asked: float) -> None:
        """Nobody waits in vain."""

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise self.error


async def _never() -> None:
    raise AssertionError("nobody leaves in here")


async def _answer(
    error: Exception, method: str = "tasks/get", scopes: frozenset[str] = frozenset(SCOPES), **params: Any
) -> Reply:
    hub = Hub(
        lanes=cast("Lanes", _Broken(error)),
        signer=Signer(b"k"),
        server_info={"name": "t", "version": "1"},
        inline_wait_seconds=0.1,
        versions=(VERSION,),
    )
    client = Client("http://unused", None)
    message = client.message(method, {"taskId": TASK_ID, **params}, caps=TASKS, id="mine")
    principal = Principal(tenant_id=-1, context_id=-1, name="c", issuer="i", subject="s", client_id="c", scopes=scopes)
    incoming = Incoming(
        body=json.dumps(message).encode(),
        headers=client.headers(message),
        repeated=frozenset(),
        principal=principal,
        address="",
        gone=_never,
    )
    client.close()
    found = await handle(hub, incoming)
    assert isinstance(found, Reply)
    schema.check_message(method, "mine", json.loads(found.body), streamed=False)
    return found


@pytest.mark.parametrize(
    ("method", "params"),
    [("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {}), ("tools/list", {})],
)
@pytest.mark.req("T26-44", "B26-14")
async def test_a_bug_behind_the_door_is_an_internal_error_without_details(method: str, params: dict[str, Any]) -> None:
    found = await _answer(RuntimeError("password=hunter2"), method, **params)
    error = json.loads(found.body)["error"]
    assert (found.status, error["code"]) == (500, -32603)
    assert "hunter2" not in found.body.decode()


@pytest.mark.req("T26-44", "B26-33")
async def test_a_database_that_is_away_asks_for_another_try() -> None:
    found = await _answer(domain.Unavailable("The database is away"))
    assert (found.status, json.loads(found.body)["error"]["code"]) == (503, 50300)
    assert int(found.headers["Retry-After"]) > 0


@pytest.mark.req("AU-04", "B26-14")
async def test_a_missing_scope_leaves_with_the_id_of_its_request() -> None:
    with pytest.raises(ScopeMissing) as caught:
        await _answer(RuntimeError(), scopes=frozenset({"tasks:call"}))
    assert (caught.value.status, caught.value.scope, caught.value.id) == (403, "tasks:read", "mine")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (domain.NotFound("x"), 200, -32602),
        (domain.Invalid("x", pointer="/a"), 200, -32602),
        (domain.Refused("x"), 200, -32602),
        (domain.KeyReused("x"), 409, 40900),
        (domain.LimitReached("x", retry_after=3), 429, 42900),
        (domain.Unavailable("x"), 503, 50300),
        (domain.Forbidden("x"), 403, -32600),
        (domain.TaskHubError("x"), 500, -32603),
    ],
)
@pytest.mark.req("T26-44", "T26-46", "B26-33")
def test_every_domain_error_has_one_answer(error: domain.TaskHubError, status: int, code: int) -> None:
    found = wire_error(error)
    assert (found.status or http_status(found.code), found.code) == (status, code)
    schema.check("error", found.body())


@pytest.mark.req("B26-29", "B25-02")
async def test_a_client_of_an_era_that_is_switched_off_learns_which_there_is() -> None:
    hub = Hub(
        lanes=cast("Lanes", None),
        signer=Signer(b"k"),
        server_info={"name": "t", "version": "1"},
        inline_wait_seconds=0.1,
        versions=(VERSION,),
    )
    principal = Principal(
        tenant_id=-1, context_id=-1, name="c", issuer="i", subject="s", client_id="c", scopes=frozenset(SCOPES)
    )
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    for method, code, status in (("initialize", -32022, 400), ("tools/list", -32602, 400)):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        headers = {"content-type": "application/json", "accept": "*/*"}
        reply = await handle(hub, Incoming(body, headers, frozenset(), principal, "", _never))
        assert isinstance(reply, Reply)
        error = json.loads(reply.body)["error"]
        assert (reply.status, error["code"]) == (status, code)
        if code == -32022:
            assert error["data"] == {"supported": [VERSION], "requested": "2025-11-25"}
    gone = await handle(hub, Incoming(b"", {"mcp-session-id": "x"}, frozenset(), principal, "", _never, verb="GET"))
    assert isinstance(gone, Reply)
    assert (gone.status, gone.headers["Allow"]) == (405, "POST")


@pytest.mark.req("T26-44")
def test_no_domain_error_is_forgotten() -> None:
    named = {cls.__name__ for cls in domain.TaskHubError.__subclasses__()}
    assert named == {"NotFound", "Invalid", "Refused", "KeyReused", "LimitReached", "Unavailable", "Forbidden"}
