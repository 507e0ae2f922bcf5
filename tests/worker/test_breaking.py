"""A server that cannot be reached: its calls wait in the queue, without a slot, and one of them tries it again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from taskhub.core.states import State
from taskhub.core.words import words as sentence
from taskhub.domain.catalogue import breakers
from taskhub.domain.catalogue.breakers import OPENS_AFTER, request_probe, take_probe
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.store.models import Event, Server
from taskhub.upstream import catalogue
from taskhub.upstream.target import Target
from taskhub.worker import breakers as known
from taskhub.worker import running
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER
from tests.upstream import kit as upstream
from tests.upstream.servers import gates
from tests.worker.kit import Hall, attempts, call, ended, hint, in_state, wait_until
from tests.worker.test_running import fault_of, words

NOWHERE = Target("python", "tests.upstream.nowhere:server")


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but calls finds out that a server is back."""
    monkeypatch.setattr(catalogue, "FIRST_PAUSE", 600.0)
    monkeypatch.setattr(catalogue.Watcher, "refresh", lambda self: None)


@pytest.fixture
def silence() -> Iterator[Target]:
    """A port that takes connections and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        yield Target("http", f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")


def opened(tool: World) -> Server:
    """So many calls fail, one after the other."""
    for _ in range(OPENS_AFTER):
        assert "cannot be reached" in fault_of(call(tool, text="fails"))
    return Server.objects.get(pk=tool.tool.server_id, open_since__isnull=False)


def is_open(server: Server) -> bool:
    return Server.objects.filter(pk=server.pk, open_since__isnull=False).exists()


def told(server: Server) -> list[str]:
    found = Event.objects.filter(target=server.name, action__startswith="server.breaker.")
    return [action.rpartition(".")[2] for action in found.order_by("id").values_list("action", flat=True)]


def test_calls_of_a_server_that_is_gone_cost_nothing_until_it_is_back(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breakers, "FIRST_SECONDS", 600.0)
    monkeypatch.setattr(breakers, "LONGEST_SECONDS", 600.0)
    gone, echo = hall.tool(hall.server(NOWHERE), "echo"), hall.tool(hall.server(), "echo")
    worker = hall.start(slots=4)
    server = opened(gone)
    waiting = [call(gone, text=str(number)) for number in range(20)]
    for number in range(5):
        assert words(call(echo, text=f"beside {number}")) == f"beside {number}"
    assert not [held for held in worker.slots.running.values() if held.claim.server_id == server.pk]
    assert {(kit.look(task).state, kit.column(task, "lease_epoch")) for task in waiting} == {(State.QUEUED, 0)}
    Server.objects.filter(pk=server.pk).update(target=upstream.WORKSHOP.target)
    hint("c")
    assert [words(task) for task in waiting] == [str(number) for number in range(20)]
    assert not is_open(server)
    assert told(server) == ["opened", "closed"]


@pytest.mark.usefixtures("blind")
def test_one_call_tries_it_and_waits_on_where_that_fails_and_lets_the_others_in_where_not(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breakers, "FIRST_SECONDS", 0.3)
    monkeypatch.setattr(breakers, "LONGEST_SECONDS", 0.6)
    remote = upstream.HttpServer()
    tool = hall.tool(hall.server(remote.target), "echo")
    hall.start(slots=8)
    server = opened(tool)
    waiting = [call(tool, text=str(number)) for number in range(6)]
    wait_until(lambda: sum(len(attempts(task)) for task in waiting) >= 4, "some tries")
    assert {outcome for task in waiting for outcome in attempts(task)} <= {"released", ""}
    tried = next(task for task in waiting if attempts(task) == ["released"])
    assert (kit.look(tried).state, kit.look(tried).message) == (State.QUEUED, sentence("waiting_server"))
    assert is_open(server)
    with remote:
        assert [words(task) for task in waiting] == [str(number) for number in range(6)]
        wait_until(lambda: not is_open(server), "it to be closed")
        hall.stop()
    assert told(server) == ["opened", "closed"]


@pytest.mark.usefixtures("blind")
def test_a_person_need_not_wait_and_a_try_that_was_nobodys_yet_is_the_next_calls(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breakers, "FIRST_SECONDS", 600.0)
    monkeypatch.setattr(breakers, "LONGEST_SECONDS", 600.0)
    remote = upstream.HttpServer()
    tool = hall.tool(hall.server(remote.target), "echo")
    hall.start(slots=8)
    server = opened(tool)
    assert request_probe(tenant_id=server.tenant_id, server_id=server.pk, actor=WORKER)
    wait_until(lambda: Server.objects.filter(pk=server.pk, probe_until__isnull=False).exists(), "the worker to hear it")
    with remote:
        assert words(call(tool, text="at once")) == "at once"
        wait_until(lambda: not is_open(server), "it to be closed")
        hall.stop()


@pytest.mark.usefixtures("blind")
def test_a_worker_that_stops_leaves_the_try_it_has_not_used_to_others(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breakers, "FIRST_SECONDS", 0.1)
    tool = hall.tool(hall.server(NOWHERE), "echo")
    hall.start()
    server = opened(tool)
    wait_until(lambda: Server.objects.filter(pk=server.pk, probe_until__isnull=False).exists(), "it to take the try")
    assert not take_probe(server.pk)
    hall.stop()
    assert take_probe(server.pk)


@pytest.mark.usefixtures("blind")
def test_a_try_that_is_cancelled_before_it_knows_is_anothers(
    hall: Hall, monkeypatch: pytest.MonkeyPatch, silence: Target
) -> None:
    monkeypatch.setattr(breakers, "FIRST_SECONDS", 600.0)
    monkeypatch.setattr(breakers, "LONGEST_SECONDS", 600.0)
    tool = hall.tool(hall.server(NOWHERE), "echo")
    worker = hall.start(slots=8)
    server = opened(tool)
    Server.objects.filter(pk=server.pk).update(transport="http", target=silence.target)
    hint("c")
    held = worker.servers._held  # for a moment without it, while it changes
    wait_until(lambda: server.pk in held and held[server.pk].row.target == silence.target, "the other address")
    request_probe(tenant_id=server.tenant_id, server_id=server.pk, actor=WORKER)
    task = call(tool, text="tries")
    in_state(task, State.WORKING)
    assert not take_probe(server.pk)
    request_cancel(task, actor=tool.actor)
    assert ended(task).state is State.CANCELLED
    next_one = call(tool, text="tries too")
    in_state(next_one, State.WORKING)
    request_cancel(next_one, actor=tool.actor)
    assert ended(next_one).state is State.CANCELLED
    assert is_open(server)


def test_a_command_that_ends_at_once_is_not_started_for_every_call(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breakers, "FIRST_SECONDS", 600.0)
    monkeypatch.setattr(breakers, "LONGEST_SECONDS", 600.0)
    broken, echo = hall.tool(hall.server(Target("stdio", "false")), "echo"), hall.tool(hall.server(), "echo")
    worker = hall.start(slots=4)
    server = opened(broken)
    waiting = [call(broken, text="x") for _ in range(10)]
    assert words(call(echo, text="beside")) == "beside"
    assert not [held for held in worker.slots.running.values() if held.claim.server_id == server.pk]
    assert {attempt for task in waiting for attempt in attempts(task)} == set()


def test_a_call_that_a_late_worker_takes_all_the_same_waits_with_the_others(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not heard yet, or its hint was lost: then it looks by itself."""
    monkeypatch.setattr(breakers, "FIRST_SECONDS", 600.0)
    monkeypatch.setattr(breakers, "LONGEST_SECONDS", 600.0)
    deaf = threading.Event()

    def failing(server_id: int, problem: str, *, probing: bool) -> bool:
        deaf.clear()
        return breakers.store_failure(server_id, problem, probing=probing)

    monkeypatch.setattr(known, "troubled_servers", lambda: [] if deaf.is_set() else breakers.troubled_servers())
    monkeypatch.setattr(known, "store_failure", failing)
    tool = hall.tool(hall.server(NOWHERE), "echo")
    worker = hall.start(slots=4)
    server = opened(tool)
    wait_until(lambda: server.pk in worker.breakers._open, "the worker to know")
    deaf.set()
    hint("c")
    wait_until(lambda: not worker.breakers._open, "the worker to know nothing")
    task = call(tool, text="x")
    wait_until(lambda: attempts(task) == ["released"], "it to be given back")
    assert (kit.look(task).state, kit.look(task).message) == (State.QUEUED, sentence("waiting_server"))
    wait_until(lambda: server.pk in worker.breakers._open, "the worker to know again")


@pytest.mark.usefixtures("looks_often")
def test_a_server_that_lets_nobody_in_keeps_one_slot_for_whoever_asks_first(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "WAIT_SECONDS", 1.0)
    monkeypatch.setattr(running, "TURN_SECONDS", 1.0)
    shut = hall.server()
    echo = hall.tool(shut, "echo")
    open_ = hall.tool(hall.server(), "echo")
    worker = hall.start(slots=8)
    assert words(call(echo, text="before")) == "before"
    blocking = call(hall.tool(shut, "block"))
    wait_until(gates.entered.is_set, "its thread to be blocked")
    waiting = [call(echo, text=str(number)) for number in range(5)]

    def queued() -> list[int]:
        return [task for task in waiting if kit.look(task).state is State.QUEUED]

    wait_until(lambda: len(queued()) == 4, "all but one to give their slots up")
    assert {kit.look(task).message for task in queued()} <= {"Waiting for its server", ""}
    later = call(echo, text="later")
    assert words(call(open_, text="passes")) == "passes"
    held = {blocking, *waiting} - {*queued()}
    wait_until(
        # What was answered leaves its slot right after.
        lambda: {each.claim.task_id for each in worker.slots.running.values()} == held,
        "nobody else to hold a slot",
    )
    assert kit.look(later).state is State.QUEUED
    gates.opened.set()
    assert [words(task) for task in [blocking, *waiting, later]] == ["let go", *"01234", "later"]
    assert "task.faulted" not in [action for task in waiting for action in kit.actions(task)]
