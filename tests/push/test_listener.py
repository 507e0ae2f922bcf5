"""The one LISTEN connection of a process: what it passes on, and how it comes back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connection

from taskhub.domain.tasks.cancel import request_cancel
from taskhub.store import listener
from tests.domain import kit as lifecycle
from tests.domain.kit import World
from tests.push.kit import Heard, background, end_listeners, listeners, listening, notify, until
from tests.store import raw as sql

pytestmark = pytest.mark.usefixtures("transactional_db")


async def test_being_connected_is_announced_as_a_gap_and_hints_follow() -> None:
    async with listening() as heard:
        notify("one", "two")
        await until(lambda: len(heard.all) == 3)
        assert heard.all == [Heard.GAP, "one", "two"]


async def test_several_hints_of_one_notification_are_passed_on_one_by_one_in_order() -> None:
    async with listening() as heard:
        notify("a 1;b 2;c", "d", ";".join(map(str, range(50))))
        await until(lambda: "49" in heard.hints)
        assert heard.hints == ["a 1", "b 2", "c", "d", *map(str, range(50))]


async def test_a_process_is_known_to_live_while_it_listens_and_no_longer() -> None:
    def gone(waiter: str) -> bool:
        with sql.connect() as other:
            return bool(other.execute("SELECT th_web_gone(%s)", [waiter]).fetchall()[0][0])

    async with listening(alive="one"), listening(alive="one"):
        assert not gone("one.caller")
        assert gone("another.caller")
        assert not gone("of no process")
    await until(lambda: gone("one.caller"))


async def test_other_channels_are_not_heard() -> None:
    async with listening(channel="some Channel") as heard:
        notify("for all")
        notify("for me", channel="some Channel")
        await until(lambda: heard.hints != [])
        assert heard.hints == ["for me"]


async def test_what_is_rolled_back_is_never_heard_and_what_commits_is_heard_then() -> None:
    async with listening() as heard:
        with sql.connect() as other:
            other.execute("SELECT pg_notify('taskhub', 'never')")
            other.rollback()
            other.execute("SELECT pg_notify('taskhub', 'in time')")
            notify("first")
            await until(lambda: heard.hints != [])
            assert heard.hints == ["first"]
            other.commit()
        await until(lambda: len(heard.hints) == 2)
        assert heard.hints == ["first", "in time"]


async def test_hints_that_come_during_a_sign_of_life_are_heard_once_like_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "PROBE_SECONDS", 0.2)
    async with listening() as heard:
        sent: list[str] = []
        began = time.monotonic()
        with sql.connect(autocommit=True) as other:
            while time.monotonic() - began < 0.5:  # two signs of life, with hints all the while
                sent.append(str(len(sent)))
                other.execute("SELECT pg_notify('taskhub', %s)", (sent[-1],))
                await asyncio.sleep(0.0005)
        await until(lambda: len(heard.hints) >= len(sent))
        assert heard.hints == sent
        assert heard.gaps == 1


async def test_a_terminated_backend_is_replaced_and_the_gap_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as heard:
        for round_ in range(2):
            assert end_listeners() == 1
            notify(f"lost {round_}")
            await until(partial(heard.holds, Heard.GAP, round_ + 2))
            notify(f"heard {round_}")
            await until(partial(heard.holds, f"heard {round_}", 1))
        assert heard.all == [Heard.GAP, Heard.GAP, "heard 0", Heard.GAP, "heard 1"]
        assert listeners() == 1
    told = [record.getMessage() for record in caplog.records if record.name == listener.__name__]
    away = "hints are away, and asked for again until they are back"
    assert [message.split(": ")[0] for message in told] == [away, "hints are back"] * 2


@contextmanager
def closed_database() -> Iterator[None]:
    """Nobody gets a new connection to the test's database."""
    settings = connection.settings_dict
    name = str(settings["NAME"])
    with psycopg.connect(
        host=str(settings["HOST"]), user=str(settings["USER"]), dbname="postgres", autocommit=True
    ) as other:
        other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s AND application_name = 'taskhub-hints'",
                (name,),
            )
            yield
        finally:
            other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


async def test_a_database_that_is_away_is_asked_for_ever_less_often_and_found_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, listener.__name__)

    def pauses() -> list[str]:
        told = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
        return [message.split(" in ")[1].split(" s")[0] for message in told if " in " in message]

    async with listening() as heard:
        with closed_database():
            await until(lambda: len(pauses()) == 2)
            assert pauses() == ["0.2", "0.4"]
            assert heard.gaps == 1
        await until(lambda: heard.gaps == 2)
        notify("hello again")
        await until(lambda: heard.hints == ["hello again"])


async def test_a_listener_that_is_ended_leaves_no_connection_behind() -> None:
    async with listening():
        assert listeners() == 1
    await until(lambda: listeners() == 0)


async def test_a_listener_that_is_ended_while_it_connects_or_waits_ends_at_once() -> None:
    heard = Heard()
    async with asyncio.timeout(2), background(listener.listen(heard.all.append, heard.gap)):
        await asyncio.sleep(0)
    async with listening():
        end_listeners()
    await until(lambda: listeners() == 0)


async def test_two_processes_hear_the_same() -> None:
    async with listening() as one, listening() as two:
        notify("a", "b;c")
        await until(lambda: len(one.hints) == len(two.hints) == 3)
        assert one.hints == two.hints == ["a", "b", "c"]


@pytest.fixture
def world(transactional_db: None) -> World:
    return lifecycle.make_world()


async def test_the_lifecycles_changes_arrive_as_hints_of_ids(world: World) -> None:
    ids = f"{world.context.tenant_id} {world.context.pk}"

    def live() -> Any:
        task = lifecycle.create(world)
        request_cancel(task.id, actor=world.actor)
        connection.close()
        return task

    async with listening() as heard:
        task = await asyncio.to_thread(live)
        await until(lambda: len(heard.hints) == 2)
        assert heard.hints == [f"r {ids} {task.id} {task.public_id}", f"x {ids} {task.id} {task.public_id}"]
