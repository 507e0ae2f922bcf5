"""What servers list reaches the store, whatever is wrong with some of it."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
from pathlib import Path
from types import CoroutineType

from django.db import connection

from taskhub.core.versions import Era
from taskhub.domain.catalogue.sync import enabled_servers
from taskhub.lib.lanes import Lanes
from taskhub.lib.loops import run as run_loop
from taskhub.store.models import Offer, Server, Tool
from taskhub.worker.servers import Servers
from tests.upstream.kit import HttpServer
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


def test_a_worker_that_ends_before_the_first_look_at_a_server_begins_leaves_nothing_undone(hall: Hall) -> None:
    """Else Python warns, some time later, of a coroutine that was never awaited."""
    hall.server()
    rows, lanes = enabled_servers(), Lanes(1, name="short")

    async def ends() -> None:
        refreshing = asyncio.create_task(Servers(lanes, "short", lambda server_id: None).refresh(rows))
        others = {asyncio.current_task(), refreshing}
        while not (looking := asyncio.all_tasks() - others):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        for task in looking:  # before its first step, since that comes in the next turn of the loop
            task.cancel()
        await asyncio.gather(refreshing, *looking, return_exceptions=True)
        await lanes.run(lambda: connection.close())  # noqa: PLW0108 - of the lane

    run_loop(ends())
    lanes.close()
    coroutines = [found for found in gc.get_objects() if isinstance(found, CoroutineType)]
    assert [found for found in coroutines if inspect.getcoroutinestate(found) == inspect.CORO_CREATED] == []


def test_the_era_in_which_a_server_answered_is_begun_with_until_it_is_asked_anew(hall: Hall) -> None:
    """Also by the next worker: it is stored with the server."""

    def asked() -> set[str | None]:
        return {headers.get("mcp-method") for headers in http.requests}

    with HttpServer() as http:
        server = hall.server(http.target, era=Era.SESSIONS)
        hall.start()
        assert "server/discover" not in asked()
        hall.stop()
        server.refresh_from_db()
        assert server.era == Era.SESSIONS, "as it was remembered"
        http.requests.clear()
        Server.objects.filter(pk=server.pk).update(state="unknown")  # `start` waits for its first listing
        worker = hall.start()
        assert "server/discover" not in asked()
        worker.servers.ask_anew(server.pk)
        wait_until(lambda: Server.objects.filter(pk=server.pk, era=Era.STATELESS).exists(), "what it speaks")
        hall.stop()
        http.requests.clear()
        Server.objects.filter(pk=server.pk).update(state="unknown")
        hall.start()
        assert "server/discover" in asked()
        assert "initialize" not in asked()
        hall.stop()
