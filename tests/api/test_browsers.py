"""MCP clients that run in a page of another site: their browser lets them read `/mcp`, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
import websockets
from websockets.exceptions import InvalidStatus

from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub
from tests.support.session import SessionClient
from tests.support.web import Web, web

pytestmark = pytest.mark.processes

SITE = "https://inspector.example.com"
LOCAL = "http://localhost:6274"
FOREIGN = [
    "https://evil.example.com",
    "http://inspector.example.com",
    "https://inspector.example.com:8443",
    "https://inspector.example.com.evil.example.com",
    "https://sub.inspector.example.com",
    "http://localhost:6275",
    "null",
]
ELSEWHERE = ["/", "/tasks/", "/accounts/login/", "/oauth/authorize", "/healthz", "/mcpx", "/mcp-x", "/MCP", "/x/mcp"]


@pytest.fixture(scope="module")
def open_web(hub: RunningHub) -> Iterator[Web]:
    """A web process that two sites may call, named as people write addresses."""
    with web(hub, ALLOWED_ORIGINS=f"HTTPS://Inspector.example.com:443/, {LOCAL}") as running:
        yield running


@pytest.fixture
def client(open_web: Web) -> Iterator[Client]:
    with Client(open_web.base, open_web.hub.tokens["agent-a"]) as found:
        yield found


def preflight(
    hub: RunningHub | Web, origin: str, method: str = "POST", path: str = "/mcp", headers: str = ""
) -> httpx2.Response:
    asked = {"Origin": origin, "Access-Control-Request-Method": method}
    if headers:
        asked["Access-Control-Request-Headers"] = headers
    return httpx2.options(f"{hub.base}{path}", headers=asked)


def listed(value: str) -> set[str]:
    return {word.strip().lower() for word in value.split(",")}


def check_readable(headers: httpx2.Headers, origin: str) -> None:
    """A page of that origin may read the answer, with no cookie, and caches keep it for that origin alone."""
    assert headers["access-control-allow-origin"] == origin
    assert listed(headers["access-control-expose-headers"]) == {
        "mcp-session-id",
        "retry-after",
        "taskhub-task",
        "www-authenticate",
    }
    assert "access-control-allow-credentials" not in headers
    assert "origin" in listed(headers["vary"])


@pytest.mark.parametrize("origin", [SITE, LOCAL])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_browser_may_ask_first(open_web: Web, origin: str, method: str) -> None:
    wanted = "authorization, content-type, mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, last-event-id"
    answer = preflight(open_web, origin, method, headers=f"{wanted}, mcp-param-region")
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert method in answer.headers["access-control-allow-methods"]
    assert listed(answer.headers["access-control-allow-headers"]) >= listed(f"{wanted}, mcp-param-region")
    assert "access-control-allow-credentials" not in answer.headers


def test_what_a_page_has_no_business_with_is_refused_beforehand(open_web: Web) -> None:
    for method in ("PUT", "PATCH", "TRACE"):
        assert preflight(open_web, SITE, method).status_code == 400


@pytest.mark.parametrize("origin", [SITE, LOCAL])
def test_a_page_of_an_allowed_site_calls(client: Client, origin: str) -> None:
    answer = client.call("server/discover", headers={"Origin": origin})
    assert answer.status == 200
    check_readable(answer.headers, origin)


def test_a_page_reads_a_stream_as_it_comes(open_web: Web, client: Client) -> None:
    message = client.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, caps=TASKS)
    headers = client.headers(message, {"Origin": SITE})
    with httpx2.stream("POST", f"{open_web.base}/mcp", json=message, headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        check_readable(response.headers, SITE)
        first = next(line for line in response.iter_lines() if line.startswith("data: "))
    assert "notifications/subscriptions/acknowledged" in first


def test_a_page_keeps_a_session_of_2025(open_web: Web) -> None:
    with SessionClient(open_web.base, open_web.hub.tokens["agent-a"], version="") as session:
        session.http.headers["Origin"] = SITE
        session.initialize("2025-11-25", {})
        assert session.session_id
        assert session.tool("greet", {"name": "page"}).text == "Hello, page!"
        assert session.delete() == 204


def test_a_page_may_read_why_it_was_refused(open_web: Web) -> None:
    answers = [
        httpx2.post(f"{open_web.base}/mcp", json={}, headers={"Origin": SITE}),
        httpx2.post(f"{open_web.base}/mcp", json={}, headers={"Origin": SITE, "Authorization": "Bearer x"}),
        httpx2.get(f"{open_web.base}/mcp", headers={"Origin": SITE}),
        httpx2.post(f"{open_web.base}/mcp/nowhere", json={}, headers={"Origin": SITE}),
    ]
    assert [answer.status_code for answer in answers] == [401, 401, 405, 404]
    for answer in answers:
        check_readable(answer.headers, SITE)
    assert answers[0].headers["www-authenticate"].startswith("Bearer ")
    with Client(open_web.base, open_web.hub.token("narrow", "tasks:read")) as narrow:
        refused = narrow.tool("greet", {"name": "x"}, headers={"Origin": SITE})
    assert refused.status == 403
    check_readable(refused.headers, SITE)


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_page_of_any_other_site_is_refused(open_web: Web, client: Client, origin: str) -> None:
    answer = client.call("server/discover", headers={"Origin": origin})
    assert answer.refusal == (403, -32600)
    assert "access-control-allow-origin" not in answer.headers
    asked = preflight(open_web, origin)
    assert asked.status_code == 403
    assert "access-control-allow-origin" not in asked.headers


@pytest.mark.parametrize("path", ELSEWHERE)
def test_an_allowed_site_reaches_nothing_but_the_endpoint(open_web: Web, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        headers = {"Origin": SITE, "Access-Control-Request-Method": "GET"}
        answer = httpx2.request(method, f"{open_web.base}{path}", headers=headers)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


async def test_an_allowed_site_gets_no_socket_of_the_console(open_web: Web) -> None:
    address = f"ws://127.0.0.1:{open_web.port}/ws/hints"
    with pytest.raises(InvalidStatus) as caught:
        async with websockets.connect(address, additional_headers={"Origin": SITE}, proxy=None):
            pass
    assert caught.value.response.status_code == 403


def test_who_is_no_page_is_answered_as_before(client: Client) -> None:
    answer = client.call("server/discover")
    assert answer.status == 200
    assert "access-control-allow-origin" not in answer.headers
    here = client.call("server/discover", headers={"Origin": client.base})
    assert here.status == 200


def test_where_no_site_is_named_none_is_let_in(hub: RunningHub, alice: Client) -> None:
    assert alice.call("server/discover", headers={"Origin": SITE}).refusal == (403, -32600)
    assert preflight(hub, SITE).status_code == 403
