"""Bearer tokens on `/mcp`: who gets in, and how far."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from typing import Any

import pytest

from tests.support.client import EVERYTHING, PREFIX, TASKS, Client
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.processes

UNKNOWN = "A" * 32


@pytest.fixture(scope="module")
def narrow(hub: RunningHub) -> dict[str, str]:
    """Tokens of one client, each with one scope."""
    client = f"narrow-{secrets.token_hex(4)}"
    return {scope: hub.token(client, scope) for scope in ("tasks:call", "tasks:read")}


def _challenge(header: str) -> dict[str, str]:
    scheme, _, rest = header.partition(" ")
    assert scheme == "Bearer"
    return dict(re.findall(r'(\w+)="([^"]*)"', rest))


EVERY_SCOPE = "tasks:call tasks:read tasks:answer tasks:cancel"


@pytest.mark.req("AU-02", "AU-03", "AU-15")
def test_without_a_token_the_challenge_names_no_error(hub: RunningHub, nobody: Client) -> None:
    answer = nobody.tool("greet", {"name": "x"})
    assert answer.status == 401
    assert _challenge(answer.headers["www-authenticate"]) == {
        "scope": EVERY_SCOPE,
        "resource_metadata": f"{hub.base}/.well-known/oauth-protected-resource/mcp",
    }
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("authorization", "status", "error"),
    [
        ("Bearer thub_" + "x" * 43, 401, "invalid_token"),
        ("Bearer thua_" + "x" * 43, 401, "invalid_token"),
        ("Bearer x", 401, "invalid_token"),
        ("Bearer x.y.z", 401, "invalid_token"),
        ("Bearer " + "x" * 8_193, 401, "invalid_token"),
        ("Bearer {token}x", 401, "invalid_token"),
        ("Bearer {TOKEN}", 401, "invalid_token"),
        # Nobody tried a bearer token here, so nothing is wrong with one (RFC 6750, 3.1).
        ("Basic YWRtaW46YWRtaW4=", 401, None),
        ("", 401, None),
        ("Token {token}", 401, None),
        ("{token}", 401, None),
        ("Bearer", 400, "invalid_request"),
        ("Bearer ' OR 1=1 --xxxxxxxxxxxxxxxxxxxx", 400, "invalid_request"),
        ("Bearer {token} {token}", 400, "invalid_request"),
        ("Bearer a=b", 400, "invalid_request"),
        ("Bearer {token},Bearer {token}", 400, "invalid_request"),
    ],
)
@pytest.mark.req("AU-03", "AU-05", "AU-07")
def test_no_token_a_bad_one_and_a_header_that_makes_no_sense_are_told_apart(
    hub: RunningHub, nobody: Client, authorization: str, status: int, error: str | None
) -> None:
    token = hub.tokens["agent-a"]
    sent = authorization.replace("{token}", token).replace("{TOKEN}", token.upper())
    answer = nobody.call("server/discover", headers={"Authorization": sent})
    challenge = _challenge(answer.headers["www-authenticate"])
    assert (answer.status, challenge.get("error")) == (status, error)
    assert challenge["resource_metadata"].endswith("/.well-known/oauth-protected-resource/mcp")
    assert token not in answer.body.decode()


@pytest.mark.req("AU-03", "AU-15", "B26-32")
def test_a_missing_token_is_found_before_anything_in_the_body(nobody: Client) -> None:
    for body in (b"{", b"[]", b'{"jsonrpc":"2.0","method":"notifications/cancelled"}', b""):
        assert nobody.post(body, {"content-type": "text/plain"}).status == 401


@pytest.mark.req("AU-06")
def test_a_token_in_the_address_opens_nothing(hub: RunningHub, nobody: Client) -> None:
    message = nobody.message("server/discover")
    for name in ("access_token", "token", "authorization"):
        response = nobody._http.post(
            f"{hub.base}/mcp?{name}={hub.tokens['agent-a']}", json=message, headers=nobody.headers(message)
        )
        assert response.status_code == 401


@pytest.mark.req("AU-06", "AU-17")
def test_a_session_of_the_console_opens_nothing_here(hub: RunningHub, nobody: Client) -> None:
    page = nobody._http.get(f"{hub.base}/accounts/login/")
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found is not None
    admin = json.loads((hub.data / "credentials.json").read_text())["users"]["admin"]
    done = nobody._http.post(
        f"{hub.base}/accounts/login/",
        data={"csrfmiddlewaretoken": found[1], "login": admin["username"], "password": admin["password"]},
        headers={"Referer": f"{hub.base}/accounts/login/", "Origin": hub.base},
    )
    assert done.status_code == 302, done.text[:500]
    assert "sessionid" in nobody._http.cookies
    assert nobody.tool("greet", {"name": "x"}).status == 401


@pytest.mark.req("AU-06")
def test_the_scheme_is_read_in_any_case(alice: Client) -> None:
    for scheme in ("bearer", "BEARER"):
        answer = alice.call("server/discover", headers={"Authorization": f"{scheme} {alice.token}"})
        assert answer.status == 200


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("tools/call", {"name": "greet", "arguments": {"name": "x"}}, "tasks:call"),
    ("tasks/get", {"taskId": UNKNOWN}, "tasks:read"),
    ("tasks/update", {"taskId": UNKNOWN, "inputResponses": {}}, "tasks:answer"),
    ("tasks/cancel", {"taskId": UNKNOWN}, "tasks:cancel"),
    ("subscriptions/listen", {"notifications": {"taskIds": [UNKNOWN]}}, "tasks:read"),
]


@pytest.mark.parametrize(("method", "params", "scope"), CALLS, ids=[call[0] for call in CALLS])
@pytest.mark.req("AU-04", "AU-10", "AU-15", "B26-14")
def test_a_token_that_is_too_narrow_learns_which_scope_is_missing(
    hub: RunningHub, narrow: dict[str, str], method: str, params: dict[str, Any], scope: str
) -> None:
    token = narrow["tasks:read" if scope != "tasks:read" else "tasks:call"]
    with Client(hub.base, token) as client:
        answer = client.call(method, params, caps=TASKS, id="mine")
        assert (answer.status, answer.streamed) == (403, False)
        challenge = _challenge(answer.headers["www-authenticate"])
        assert (challenge["error"], challenge["scope"]) == ("insufficient_scope", scope)
        assert challenge["resource_metadata"] == f"{hub.base}/.well-known/oauth-protected-resource/mcp"
        assert answer.messages[-1]["id"] == "mine"
        # Also where the extension is missing: how far a token reaches does not depend on that.
        assert client.call(method, params).status in (403, 400)


@pytest.mark.req("AU-04")
def test_a_narrow_token_does_what_it_may(hub: RunningHub, narrow: dict[str, str]) -> None:
    with Client(hub.base, narrow["tasks:call"]) as caller, Client(hub.base, narrow["tasks:read"]) as reader:
        task_id = caller.create("failing_job", caps=EVERYTHING)
        assert reader.until(task_id, "completed")["result"]["isError"] is True
        for client in (caller, reader):
            assert client.call("tools/list").status == 200
            assert client.call("server/discover").status == 200


@pytest.mark.req("AU-14", "T26-20")
def test_a_new_token_of_the_same_client_keeps_its_tasks(hub: RunningHub) -> None:
    name = f"again-{secrets.token_hex(4)}"
    with Client(hub.base, hub.token(name)) as first, Client(hub.base, hub.token(name)) as second:
        task_id = first.create("confirm_delete", {"filename": "x"})
        assert second.get(task_id).result["taskId"] == task_id
        second.cancel(task_id)
        assert first.until(task_id, "cancelled")["status"] == "cancelled"


def _end(hub: RunningHub, token: str, change: str) -> None:
    """As `domain.clients.tokens.revoke_token` does it: the change and its hint in one transaction."""
    hub.sql(
        f"WITH changed AS (UPDATE access_token SET {change} WHERE digest = %s RETURNING id)"
        " SELECT pg_notify('taskhub', 'p') FROM changed",
        [hashlib.sha256(token.encode()).digest()],
    )


@pytest.mark.req("AU-03", "AU-07")
def test_a_revoked_or_expired_token_is_refused_at_once(hub: RunningHub) -> None:
    for change in ("revoked_at = now()", "expires_at = now() - interval '1 second'"):
        token = hub.token(f"gone-{secrets.token_hex(4)}")
        with Client(hub.base, token) as client:
            assert client.tool("greet", {"name": "x"}).status == 200
            _end(hub, token, change)
            wait_until(lambda: client.call("server/discover").status == 401, "the token to be refused", 2.0)
            answer = client.tool("greet", {"name": "x"})
            assert answer.status == 401
            assert _challenge(answer.headers["www-authenticate"])["error"] == "invalid_token"


@pytest.mark.req("AU-16", "B26-74")
def test_a_stream_ends_with_its_token(hub: RunningHub) -> None:
    token = hub.token(f"brief-{secrets.token_hex(4)}")
    hub.sql(
        "UPDATE access_token SET expires_at = now() + interval '2 seconds' WHERE digest = %s",
        [hashlib.sha256(token.encode()).digest()],
    )
    with (
        Client(hub.base, token) as client,
        client.stream("subscriptions/listen", {"notifications": {"toolsListChanged": True}}) as stream,
    ):
        stream.next()
        (last,) = stream.rest()
        assert last["result"]["resultType"] == "complete"
        assert client.call("server/discover").status == 401


@pytest.mark.req("AU-03", "AU-16", "B26-74")
def test_a_stream_of_a_revoked_token_tells_nothing_more(hub: RunningHub) -> None:
    name = f"cut-{secrets.token_hex(4)}"
    token = hub.token(name)
    with Client(hub.base, token) as client, Client(hub.base, hub.token(name)) as other:
        task_id = other.create("confirm_delete", {"filename": "x"})
        other.until(task_id, "input_required")
        with client.stream("subscriptions/listen", {"notifications": {"taskIds": [task_id]}}, caps=TASKS) as stream:
            assert stream.next()["params"]["notifications"] == {"taskIds": [task_id]}
            assert stream.next()["params"]["status"] == "input_required"
            _end(hub, token, "revoked_at = now()")
            wait_until(lambda: client.call("server/discover").status == 401, "the token to be refused", 2.0)
            other.cancel(task_id)
            (last,) = stream.rest()
            assert last["result"]["resultType"] == "complete"


@pytest.mark.req("AU-08")
def test_no_token_reaches_the_tools_or_the_tables(hub: RunningHub, alice: Client) -> None:
    answer = alice.tool("greet", {"name": "x"}, meta={PREFIX + "clientInfo": {"name": "who", "version": "1"}})
    assert answer.status == 200
    rows = hub.sql("SELECT row_to_json(t)::text FROM task t UNION ALL SELECT row_to_json(a)::text FROM access_token a")
    assert rows
    assert not any(str(alice.token) in row[0] for row in rows)
