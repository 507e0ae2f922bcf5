"""What servers list reaches the store, whatever is wrong with some of it."""

from __future__ import annotations

import json
from pathlib import Path

from taskhub.store.models import Offer, Server, Tool
from tests.upstream.test_sieve import clumsy, tool
from tests.worker.kit import Hall, call, ended, wait_until


def test_wrong_repeated_and_overlong_tools_are_stored_as_rejected_and_the_others_can_be_called(
    hall: Hall, tmp_path: Path
) -> None:
    overlong = [tool("x" * 500), tool("y " * 60), tool("z" * 128)]
    tools = [tool("a"), tool("a", description="again"), {"name": "wrong"}, *overlong]
    server = hall.server(clumsy(tmp_path, tools=tools, prompts=[{"name": "p"}]))
    Server.objects.filter(pk=server.pk).update(name="s" * 64, prefix="p" * 63)
    hall.start()
    server.refresh_from_db()
    assert (server.state, server.problem, server.incomplete) == ("ready", "", "")
    rows = {row.name: row for row in Tool.objects.filter(server=server)}
    assert [name for name, row in rows.items() if not row.rejected] == ["a", "z" * 128]
    assert len(rows) == 6
    assert max(len(row.exposed_name) for row in rows.values()) == 60
    assert Offer.objects.filter(server=server, key="p").exists()
    assert ended(call(hall.tool(server, "a"))).result_json is not None


def test_tools_that_cannot_be_listed_for_a_while_stay(hall: Hall, tmp_path: Path) -> None:
    server = hall.server(clumsy(tmp_path, tools=[tool("a")], prompts=[{"name": "p"}]))
    worker = hall.start()
    (tmp_path / "lists.json").write_text(json.dumps({"tools": "at lunch", "prompts": [{"name": "q"}]}))
    worker.servers.look_again(server.pk)
    wait_until(lambda: Offer.objects.filter(server=server, key="q").exists(), "the other look")
    server.refresh_from_db()
    assert (server.state, server.incomplete) == ("ready", "tools: MCPError: at lunch")
    assert Tool.objects.get(server=server, name="a").gone_at is None
