"""Real processes, really killed while a tool runs that may not run twice: its outcome is unknown, people rule, and it
has run just as often as they said."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from tests.support.client import Client
from tests.support.gateway import Gateway
from tests.support.hasty import HASTY
from tests.support.hub import ROOT, RunningHub, wait_until
from tests.support.person import Person
from tests.support.proxy import DatabaseDoor

pytestmark = pytest.mark.processes

SERVER = ROOT / "tests" / "support" / "shipping.py"
QUESTION = (
    "SELECT q.id, q.params ->> 'why' FROM question q JOIN task t ON t.id = q.task_id"
    " WHERE t.public_id = %s AND q.kind = 'outcome' AND q.state = 'open'"
)


class Shop:
    """A hub with one server in four ways: as a command, over HTTP, and over HTTP through a door that can be shut, and
    through a gateway that can lose patience."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.port = _free_port()
        self.process = self.start()
        self.door = DatabaseDoor(lambda: socket.create_connection(("127.0.0.1", self.port)))
        self.gateway = Gateway(self.port)
        self.hub = RunningHub(
            servers=(
                f"command=stdio:{sys.executable} {SERVER} {place / 'command'}",
                f"http=http://127.0.0.1:{self.port}/mcp",
                f"door=http://127.0.0.1:{self.door.port}/mcp",
                f"gateway=http://127.0.0.1:{self.gateway.port}/mcp",
            ),
            # Web processes run none of these calls: what they lose is in test_in_place.py.
            **{**HASTY, "TASKHUB_WEB_SLOTS": "0"},
        )

    def start(self) -> subprocess.Popen[bytes]:
        """The HTTP server."""
        log = (self.place / "http.log").open("ab")
        with log:
            process = subprocess.Popen(
                [sys.executable, str(SERVER), str(self.place / "http"), str(self.port)], stdout=log, stderr=log
            )
        wait_until(lambda: _listens(self.port), "the server")
        return process

    def stop(self) -> None:
        self.door.shut()
        try:
            self.hub.stop()
        finally:
            self.gateway.close()
            self.process.kill()
            self.process.wait()

    def ledger(self, order: str) -> int:
        """How often the tool began to run for the order."""
        files = (self.place / "command", self.place / "http")
        return sum(file.read_text().split().count(order) for file in files if file.exists())

    def let_go(self, on: bool) -> None:
        """Whether runs end."""
        for name in ("command", "http"):
            go = (self.place / name).with_suffix(".go")
            go.touch() if on else go.unlink(missing_ok=True)

    # ways to lose a run

    def kill_worker(self) -> None:
        self.hub.part("worker").kill()

    def stop_worker(self) -> None:
        self.hub.part("worker").send_signal(signal.SIGTERM)

    def kill_command(self) -> None:
        # That of the client, and the one by which the worker lists the server.
        processes = [p for p in self.hub.part("worker").children(recursive=True) if str(SERVER) in p.cmdline()]
        assert processes
        for process in processes:
            process.kill()

    def kill_server(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self.start()

    def cut(self) -> None:
        self.door.shut()
        self.door.open()

    def give_up(self) -> None:
        self.gateway.give_up()


WAYS: dict[str, tuple[str, Callable[[Shop], None], str]] = {
    "the worker is killed": ("command", Shop.kill_worker, "worker_lost"),
    "the worker is killed, the server goes on": ("http", Shop.kill_worker, "worker_lost"),
    "the worker is stopped": ("http", Shop.stop_worker, "worker_stopped"),
    "the command is killed": ("command", Shop.kill_command, "server_lost"),
    "the server is killed": ("http", Shop.kill_server, "server_lost"),
    "the connection breaks": ("door", Shop.cut, "server_lost"),
    "a gateway gives up": ("gateway", Shop.give_up, "server_lost"),
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    made = Shop(tmp_path_factory.mktemp("shop"))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def client(shop: Shop) -> Iterator[Client]:
    with Client(shop.hub.base, shop.hub.tokens["agent-a"]) as made:
        yield made


def tool(shop: Shop, server: str) -> str:
    """The name under which the hub offers the server's tool."""
    select = (
        "SELECT o.exposed_name FROM tool o JOIN server s ON s.id = o.server_id WHERE s.name = %s AND o.name = 'ship'"
    )
    return str(shop.hub.sql(select, [server])[0][0])


def lost(shop: Shop, client: Client, way: str, order: str) -> tuple[str, int]:
    """A task whose run began and was lost, and the question about it."""
    server, lose, why = WAYS[way]
    shop.let_go(False)
    wait_until(lambda: ready(shop, server), "a worker that has listed it", 60)
    task = client.create(tool(shop, server), {"order": order})
    wait_until(lambda: shop.ledger(order) == 1, "the tool to run", 30)
    lose(shop)
    wait_until(lambda: shop.hub.sql(QUESTION, [task]), "the question", 45)
    ((question, found),) = shop.hub.sql(QUESTION, [task])
    assert found == why
    return task, int(question)


def ready(shop: Shop, server: str) -> bool:
    select = (
        "SELECT s.state = 'ready' AND s.open_since IS NULL AND EXISTS (SELECT FROM worker"
        " WHERE stopped_at IS NULL AND heartbeat_at > now() - interval '3 seconds') FROM server s WHERE s.name = %s"
    )
    return bool(shop.hub.sql(select, [server])[0][0])


def attempts(shop: Shop, task: str) -> list[str]:
    select = "SELECT outcome FROM attempt a JOIN task t ON t.id = a.task_id WHERE t.public_id = %s ORDER BY number"
    return [row[0] for row in shop.hub.sql(select, [task])]


def says(shop: Shop, task: str) -> list[tuple[Any, ...]]:
    return shop.hub.sql(
        "SELECT e.action, e.actor, e.reason FROM event e JOIN task t ON t.id = e.task_id"
        " WHERE t.public_id = %s AND e.action LIKE 'question.%%' AND e.action <> 'question.asked' ORDER BY e.id",
        [task],
    )


@pytest.mark.parametrize("way", WAYS)
def test_it_ran(shop: Shop, client: Client, way: str) -> None:
    order = f"ran-{list(WAYS).index(way)}"
    task, question = lost(shop, client, way, order)
    now = client.get(task).result
    assert now["status"] == "working"
    assert now["statusMessage"].endswith("outcome unknown. Waiting for a person who says whether the tool ran")
    with Person(shop.hub, "operator") as operator:
        operator.rule(question, "ran", "the carrier has it", "shipped by hand")
    done = client.until(task, "completed", "failed")
    assert done["status"] == "completed"
    assert done["result"]["content"] == [{"type": "text", "text": "shipped by hand"}]
    assert says(shop, task) == [("question.ran", "operator", "the carrier has it")]
    assert (attempts(shop, task), shop.ledger(order)) == (["lost"], 1)


@pytest.mark.parametrize("way", WAYS)
def test_it_did_not_run_and_runs_once_more(shop: Shop, client: Client, way: str) -> None:
    order = f"unrun-{list(WAYS).index(way)}"
    task, question = lost(shop, client, way, order)
    assert shop.ledger(order) == 1, "not run again before the ruling"
    shop.let_go(True)
    with Person(shop.hub, "approver") as approver:
        approver.rule(question, "unrun", "the carrier knows nothing of it")
    done = client.until(task, "completed", "failed", seconds=60)
    assert done["status"] == "completed"
    assert done["result"]["content"] == [{"type": "text", "text": f"shipped {order}"}]
    assert says(shop, task) == [("question.unrun", "approver", "the carrier knows nothing of it")]
    assert (attempts(shop, task)[0], attempts(shop, task)[-1], shop.ledger(order)) == ("lost", "finished", 2)


def test_of_two_people_who_rule_at_once_one_counts(shop: Shop, client: Client) -> None:
    task, question = lost(shop, client, "the connection breaks", "both")
    shop.let_go(True)
    start = threading.Barrier(2)

    def rule(role: str, verdict: str) -> None:
        with Person(shop.hub, role) as person:
            start.wait(30)
            person.rule(question, verdict, "seen")

    both = [threading.Thread(target=rule, args=each) for each in (("operator", "ran"), ("admin", "unrun"))]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(60)
    client.until(task, "completed", seconds=60)
    ((action, _, _),) = says(shop, task)
    assert shop.ledger("both") == (1 if action == "question.ran" else 2)


def held_up(shop: Shop, client: Client, order: str) -> tuple[str, int, psutil.Process]:
    """A task whose run has its result in a worker that is stopped for longer than its lease: its outcome is unknown.
    With the question and the worker."""
    shop.let_go(False)
    wait_until(lambda: ready(shop, "http"), "a worker that has listed it", 60)
    task = client.create(tool(shop, "http"), {"order": order})
    wait_until(lambda: shop.ledger(order) == 1, "the tool to run", 30)
    worker = psutil.Process(shop.hub.part("worker").pid)
    worker.suspend()
    shop.let_go(True)
    # Its own sweep is what would find that its lease is over; another's would be a second worker's.
    shop.hub.sql("UPDATE task SET lease_until = now() - interval '1 second' WHERE public_id = %s", [task])
    who = json.dumps({"name": "sweep", "door": "policy"})
    assert shop.hub.sql("SELECT sweep(10, 10, 3600, %s)", [who]) == [(1,)]
    ((question, _),) = shop.hub.sql(QUESTION, [task])
    return task, int(question), worker


def too_late() -> contextlib.AbstractContextManager[None]:
    """A person finds the question closed: without its form, or by the answer to it."""
    return contextlib.suppress(StopIteration, httpx2.HTTPStatusError)


def ended(client: Client, task: str) -> str:
    done = client.until(task, "completed", "failed", seconds=60)
    assert done["status"] == "completed"
    return str(done["result"]["content"][0]["text"])


def test_a_worker_that_was_only_held_up_brings_its_result(shop: Shop, client: Client) -> None:
    """Stopped for longer than its lease, while its result came: it counts, unless somebody has ruled."""
    task, _, worker = held_up(shop, client, "late")
    worker.resume()
    wait_until(
        lambda: (
            shop.hub.sql("SELECT 1 FROM task WHERE public_id = %s AND state = 'finished'", [task])
            or shop.hub.sql(QUESTION, [task])
        ),
        "an end or a question",
        30,
    )
    assert shop.ledger("late") == 1, "whether its result came or not, it does not run again by itself"


@pytest.mark.parametrize("verdict", ["ran", "unrun"])
def test_a_ruling_before_a_late_result_counts(shop: Shop, client: Client, verdict: str) -> None:
    order = f"ruled-{verdict}"
    task, question, worker = held_up(shop, client, order)
    with Person(shop.hub, "operator") as operator:
        operator.rule(question, verdict, "seen", "by hand" if verdict == "ran" else "")
    worker.resume()
    assert ended(client, task) == ("by hand" if verdict == "ran" else f"shipped {order}")
    assert shop.ledger(order) == (1 if verdict == "ran" else 2)
    assert [action for action, _, _ in says(shop, task)] == [f"question.{verdict}"]


@pytest.mark.parametrize("verdict", ["ran", "unrun"])
def test_of_a_ruling_and_a_late_result_at_once_one_counts(shop: Shop, client: Client, verdict: str) -> None:
    order = f"race-{verdict}"
    task, question, worker = held_up(shop, client, order)

    def rule() -> None:
        with Person(shop.hub, "operator") as operator, too_late():
            operator.rule(question, verdict, "seen", "by hand" if verdict == "ran" else "")

    ruling = threading.Thread(target=rule)
    ruling.start()
    worker.resume()
    ruling.join(60)
    text = ended(client, task)
    ruled = [action for action, _, _ in says(shop, task) if action == f"question.{verdict}"]
    again = 2 if ruled and verdict == "unrun" else 1
    assert text == ("by hand" if ruled and verdict == "ran" else f"shipped {order}")
    assert (len(ruled) <= 1, shop.ledger(order)) == (True, again)
    ((state,),) = shop.hub.sql("SELECT state FROM question WHERE id = %s", [question])
    assert state != "open"


def test_of_a_shell_and_a_person_who_rule_at_once_one_counts(shop: Shop, client: Client) -> None:
    task, question = lost(shop, client, "a gateway gives up", "shell")
    shop.let_go(True)
    said: list[str] = []

    def shell() -> None:
        with contextlib.suppress(AssertionError):  # it was too late
            said.append(shop.hub.manage("outcome", "rule", task, "--did-not-run", "--reason", "seen"))

    ruling = threading.Thread(target=shell)
    with Person(shop.hub, "operator") as operator, too_late():
        ruling.start()
        operator.rule(question, "ran", "seen", "by hand")
    ruling.join(60)
    text = ended(client, task)
    ((action, actor, _),) = says(shop, task)
    assert (action, actor) == (("question.unrun", "manage.py") if said else ("question.ran", "operator"))
    assert text == ("shipped shell" if said else "by hand")
    assert shop.ledger("shell") == (2 if said else 1)
