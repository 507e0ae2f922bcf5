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
    """A web process with rates."""
    with web(hub, TASKHUB_CONTEXT_REQUESTS=str(PER_SECOND), TASKHUB_CONTEXT_KIB=str(KIB)) as running:
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
