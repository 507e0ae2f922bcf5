"""A client that sends more than it may is told when to come back, in its own wire's way; others notice nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until
from tests.support.session import SessionClient
from tests.support.web import Web, web

pytestmark = pytest.mark.processes

PER_SECOND, AT_ONCE = 1, 5
KIB = 16


@pytest.fixture(scope="module")
def strict(hub: RunningHub) -> Iterator[Web]:
    """A web process with rates that are soon reached, behind a proxy, which serves callers without a token too."""
    rates = {"TASKHUB_CONTEXT_REQUESTS": str(PER_SECOND), "TASKHUB_CONTEXT_KIB": str(KIB)}
    with web(hub, **rates, TASKHUB_ANONYMOUS="True", TRUSTED_PROXIES="1") as running:
        yield running


@pytest.mark.req("B26-33")
def test_a_client_with_too_many_requests_is_refused_until_it_has_paused(strict: Web) -> None:
    with Client(strict.base, strict.hub.token("hasty")) as hasty, Client(strict.base, strict.hub.token("calm")) as calm:
        answers = [hasty.call("server/discover") for _ in range(AT_ONCE * 3)]
        assert [answer.status for answer in answers[:AT_ONCE]] == [200] * AT_ONCE
        refused = answers[-1]
        assert refused.refusal == (429, 42900)
        assert "requests" in refused.error["message"]
        assert 1 <= int(refused.headers["retry-after"]) <= 5
        assert calm.call("server/discover").status == 200
        wait_until(lambda: hasty.call("server/discover").status == 200, "its next turn", 5)


@pytest.mark.req("B25-10")
def test_a_session_hears_it_as_the_answer_to_its_request(strict: Web) -> None:
    with SessionClient(strict.base, strict.hub.token("session")) as session:
        answers = [session.call("tools/list") for _ in range(AT_ONCE * 3)]
        refused = next(answer for answer in answers if answer.messages and "error" in answer.messages[-1])
        assert (refused.status, refused.error["code"]) == (200, 42900)
        assert int(refused.headers["retry-after"]) >= 1
        wait_until(lambda: "result" in session.call("tools/list").messages[-1], "its next turn", 5)


def test_bytes_are_counted_as_well(strict: Web) -> None:
    with Client(strict.base, strict.hub.token("bulky")) as bulky:
        text = "x" * (KIB * 1_024 * 40)  # what is owed for it takes longer than any machine needs to ask once more
        first = bulky.call("tools/call", {"name": "greet", "arguments": {"name": text}}, name="greet")
        assert first.status == 200
        refused = bulky.call("server/discover")
        assert refused.refusal == (429, 42900)
        assert "bytes" in refused.error["message"]


def test_callers_without_a_token_are_counted_by_their_address(strict: Web) -> None:
    with Client(strict.base, None) as caller:

        def status(address: str) -> int:
            return caller.call("server/discover", headers={"x-forwarded-for": address}).status

        assert [status("192.0.2.7") for _ in range(AT_ONCE * 3)][-1] == 429
        assert status("192.0.2.8") == 200, "another caller"
        # Who has one IPv6 address has a network of 2**64 of them.
        assert [status(f"2001:db8:0:1::{number:x}") for number in range(AT_ONCE * 3)][-1] == 429
        assert status("2001:db8:0:2::1") == 200


def test_the_rates_are_on_where_nobody_has_set_them(hub: RunningHub) -> None:
    with (
        web(hub, TASKHUB_CONTEXT_REQUESTS=None, TASKHUB_CONTEXT_KIB=None) as running,
        Client(running.base, hub.token("flood")) as flood,
        Client(running.base, hub.token("other")) as other,
    ):
        # Bytes, because every machine can send them faster than the rate: a slow one does not serve 1,000 requests/s.
        big = {"com.example/filling": "x" * 4_000_000}
        answers = (flood.call("server/discover", meta=big) for _ in range(40))
        refused = next(answer for answer in answers if answer.status != 200)
        assert refused.refusal == (429, 42900)
        assert "bytes" in refused.error["message"]
        assert other.call("server/discover").status == 200
