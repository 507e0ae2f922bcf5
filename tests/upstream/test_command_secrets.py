"""A secret that a command is given: it gets it, and nobody else reads it."""

from __future__ import annotations

import logging
import sys

import psutil
import pytest

from taskhub.core.errors import Unavailable
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.outcomes import Faulted
from taskhub.upstream.target import Target
from tests.upstream import kit

VALUE = "sw0rdfish-and-chips"


def words(process: psutil.Process) -> list[str]:
    """Its command line; none where it has ended: other tests leave processes that nobody has collected yet."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


async def test_env_sets_the_environment_and_no_argument_of_any_process_has_the_value() -> None:
    target = Target("stdio", f"env API_TOKEN={VALUE} LEVEL=x=y {kit.COMMAND.target}")
    assert VALUE not in repr(target)
    async with kit.pool_of(target) as pool:
        assert kit.text(await kit.call(pool, "echo", {"text": "there"})) == "there"
        family = psutil.Process().children(recursive=True)
        (server,) = [process for process in family if "tests.upstream.command_server" in words(process)]
        assert server.cmdline() == [sys.executable, "-m", "tests.upstream.command_server"]
        assert server.environ()["API_TOKEN"] == VALUE
        assert server.environ()["LEVEL"] == "x=y"
        assert all(VALUE not in word for process in family for word in words(process))


async def test_an_error_of_a_call_is_told_without_it() -> None:
    async with kit.pool_of(Target("stdio", f"env API_TOKEN={VALUE} {kit.COMMAND.target}")) as pool:
        outcome = await kit.call(pool, "protocol_error", {"quoted": VALUE})
    assert outcome == Faulted({"code": -32042, "message": "no luck with •••", "data": {"•••": ["not •••", 1]}})


@pytest.mark.parametrize("target", [f"/nowhere/{VALUE}/at/all --token {VALUE}", f"env API_TOKEN={VALUE} /nowhere"])
async def test_no_reason_says_it(target: str) -> None:
    connection = Connection(Target("stdio", target), Profile())
    with pytest.raises(Unavailable, match="there is no program") as away:
        await connection.start()
    assert VALUE not in away.value.message


async def test_a_command_that_says_it_is_not_repeated_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    says = "import os, sys; print('started with', os.environ['API_TOKEN'], file=sys.stderr)"
    target = Target("stdio", f'env API_TOKEN={VALUE} {sys.executable} -c "{says}"', name="chatty")
    with caplog.at_level(logging.INFO):
        with pytest.raises(Unavailable):
            await Connection(target, Profile()).start()
        await kit.until(lambda: any("started with" in message for message in caplog.messages), "what it said")
    assert "server chatty: started with •••" in caplog.messages
    assert not any(VALUE in message for message in caplog.messages)
