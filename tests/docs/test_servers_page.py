"""The page of servers that were tried has the servers and the versions of the script that tries them."""

from __future__ import annotations

from tests.servers.listing import SERVERS
from tests.servers.run import MARKS, PAGE, name_of


def test_the_matrix_is_of_the_pinned_versions() -> None:
    matrix = PAGE.read_text().partition(MARKS[0])[2].partition(MARKS[1])[0]
    shown = [line.split("|")[1].strip() for line in matrix.splitlines() if line.startswith("|")][2:]
    assert [name for name in shown if name] == [name_of(server) for server in SERVERS]
    assert "**differs**" not in matrix
