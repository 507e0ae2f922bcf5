"""Programs that give a call up without a word: its stream stays open, and the same request comes again."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from taskhub.domain.clients.patience import CallerSettings, Patience, caller_settings, forget_settings, learn
from taskhub.protocol.plain.callers import Caller
from tests.factories import make_context, make_tenant
from tests.support.hub import RunningHub, wait_until
from tests.support.session import SessionClient

SDK = {"name": "mcp", "version": "0.1.0"}


@pytest.fixture
def client(hub: RunningHub) -> str:
    return f"silent-{secrets.token_hex(4)}"


@pytest.fixture
def session(hub: RunningHub, client: str) -> Iterator[SessionClient]:
    with SessionClient(hub.base, hub.token(client)) as made:
        yield made


def learned(hub: RunningHub, client: str) -> list[tuple[int, int]]:
    return hub.sql(
        "SELECT l.patience_ms / 1000, l.leaves FROM learned_patience l JOIN auth_context a ON a.id = l.context_id"
        " WHERE a.name = %s",
        [client],
    )


@pytest.fixture(params=["tools/call", "taskhub_wait_for_task"])
def again(
    request: pytest.FixtureRequest, hub: RunningHub, session: SessionClient, client: str, tmp_path: Path
) -> Callable[[float], None]:
    """Make a call, and when its stream is so many seconds old, the same call or the wait for it."""

    def made(seconds: float) -> None:
        file = tmp_path / "there"
        params: dict[str, Any] = {"name": "await_file", "arguments": {"path": str(file)}}
        mine = " FROM task t JOIN auth_context a ON a.id = t.context_id WHERE a.name = %s"
        with session.open("tools/call", params):
            task, public_id = wait_until(lambda: hub.sql("SELECT t.id, t.public_id" + mine, [client]), "the task")[0]
            aged = "UPDATE stream SET opened_at = opened_at - make_interval(secs => %s) WHERE task_id = %s RETURNING id"
            wait_until(lambda: hub.sql(aged, [seconds, task]), "its stream")
            if request.param != "tools/call":
                params.update(name=request.param, arguments={"task_id": public_id})
            with session.open("tools/call", params):
                file.touch()
                wait_until(lambda: hub.sql("SELECT t.ended_at" + mine, [client])[-1][0], "the end")

    return made


def test_the_same_request_again_tells_how_patient_a_program_is(
    hub: RunningHub, client: str, again: Callable[[float], None]
) -> None:
    again(10)
    assert learned(hub, client) == [(6, 2)]


@pytest.mark.parametrize("seconds", [1, 30])
def test_nothing_is_told_by_two_at_the_same_time_or_after_an_interim_result(
    hub: RunningHub, client: str, again: Callable[[float], None], seconds: float
) -> None:
    again(seconds)
    assert learned(hub, client) == []


# How much less is waited ---------------------------------------------------------------------


class _Lanes:
    async def run(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return call(*args, **named)


def finished(work: Coroutine[Any, Any, Caller]) -> Caller:
    """What it returns; it waits for nothing, since the lanes are here."""
    with pytest.raises(StopIteration) as end:
        work.send(None)
    found: Caller = end.value.value
    return found


def caller(context_id: int, settings: CallerSettings | None = None) -> Caller:
    hub: Any = SimpleNamespace(lanes=_Lanes())
    incoming: Any = SimpleNamespace(principal=SimpleNamespace(context_id=context_id, anonymous=False))
    return Caller(hub, incoming, SDK, settings or caller_settings(context_id), began=0.0)


@pytest.fixture
def context_id() -> Iterator[int]:
    yield make_context(make_tenant()).pk
    forget_settings()


@pytest.mark.django_db
def test_a_program_that_hears_no_interim_result_is_given_it_sooner_down_to_four_seconds(context_id: int) -> None:
    found = []
    now = caller(context_id)
    for _ in range(5):
        now = finished(now.unheard())
        found.append(now.settings.patience(SDK).seconds)
    assert found == [15.0, 9.0, 5.4, 4.0, 4.0]


@pytest.mark.django_db
def test_where_the_same_call_again_is_the_way_to_go_on_it_tells_nothing(context_id: int) -> None:
    without_tools = caller(context_id, CallerSettings(context_id, None, hub_tools=False))
    assert finished(without_tools.unheard()) is without_tools


@pytest.mark.django_db
def test_what_an_admin_set_stays(context_id: int) -> None:
    as_set = caller(context_id, CallerSettings(context_id, 20_000, None))
    assert finished(as_set.unheard()) is as_set
    assert finished(as_set.again(10.0)) is as_set


@pytest.mark.django_db
def test_what_was_learned_is_not_made_longer(context_id: int) -> None:
    learn(context_id, SDK, 5_000, certain=True)
    assert finished(caller(context_id).again(3.5)).settings.patience(SDK) == Patience(2.1, "learned")
