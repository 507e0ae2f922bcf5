"""What is wrong with a server is logged when that changes or ends, and stands on its page in words."""

from __future__ import annotations

import pytest

from taskhub.queries.servers import server_detail
from taskhub.store.models import Server
from tests.upstream import kit
from tests.worker.kit import Hall, wait_until

REFUSED = "HTTP 401 Unauthorized. Its token is missing, expired or refused: set a new one on the server's page."
FAILS = "HTTP 503 Service Unavailable. The server, or a proxy before it, fails: its own log says why."


def test_one_line_tells_of_each_problem_and_one_of_its_end(hall: Hall, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "taskhub.worker.servers")

    def tried_again(before: int) -> None:
        worker.servers.look_again(server.pk)
        wait_until(lambda: len(http.requests) > before, "another try")

    def tried_thrice() -> None:
        """Two tries of now: the first may have begun before."""
        for _ in range(3):
            tried_again(len(http.requests))

    def said() -> list[str]:
        lines = [record.getMessage() for record in caplog.records if record.name == "taskhub.worker.servers"]
        return [line.removeprefix(f"server {server.name}: ") for line in lines]

    def state() -> tuple[str, str]:
        row = server_detail(hall.context.tenant_id, server.pk)
        assert row is not None
        return row.state, row.problem

    with kit.HttpServer() as http:
        server = hall.server(http.target)
        http.refuses = (401, "")
        worker = hall.start()
        assert state() == ("unreachable", REFUSED)
        tried_thrice()
        http.refuses = (503, "")
        wait_until(lambda: state() == ("unreachable", FAILS), "the other problem")
        tried_thrice()
        assert said() == [REFUSED, FAILS]
        http.refuses = None
        wait_until(lambda: Server.objects.filter(state="ready").exists(), "its end")
        tried_thrice()
        assert said() == [REFUSED, FAILS, "reached again"]
        # A token that is refused later is noticed at the next look, through the connection there is.
        http.refuses = (401, "")
        worker.servers.look_again(server.pk)
        wait_until(lambda: state() == ("unreachable", REFUSED), "the first problem again")
        hall.stop()
    assert said() == [REFUSED, FAILS, "reached again", REFUSED]
