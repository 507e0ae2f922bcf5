"""What a server is given: it gets it, and nobody else reads its secrets."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from taskhub.core.errors import Unavailable
from taskhub.core.records import LogLine
from taskhub.core.secrets import given_secrets
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.diagnosis import diagnosed
from taskhub.upstream.outcomes import Faulted
from taskhub.upstream.target import Target
from tests.upstream import kit

VALUE = "sw0rdfish-and-chips"
ROOT = Path(__file__).parents[2]
TELLTALE = Target(
    "stdio",
    f"env PYTHONPATH={ROOT} {sys.executable} -m tests.upstream.telltale_server",
    name="telltale",
    environment=(("GIVEN_KEY", VALUE),),
)


async def test_a_command_has_its_variables_and_its_directory(tmp_path: Path) -> None:
    target = replace(TELLTALE, directory=str(tmp_path))
    assert VALUE not in repr(target)
    async with kit.pool_of(target) as pool:
        assert kit.text(await kit.call(pool, "given", {})) == f"{tmp_path} {len(VALUE)}"


async def test_what_it_repeats_of_them_is_hidden(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    said: list[LogLine] = []
    async with kit.pool_of(TELLTALE) as pool:
        assert kit.text(await kit.call(pool, "given", {}, said=said)).endswith(str(len(VALUE)))
        failed = await kit.call(pool, "fail", {})
        assert failed == Faulted({"code": -32001, "message": "refused •••", "data": {"key": "•••"}})
        await kit.until(lambda: any("my key is" in message for message in caplog.messages), "what it said")
    assert {(line.level, line.text) for line in said} == {("info", "my key is •••"), ("progress", "my key is •••")}
    assert "server telltale: my key is •••" in caplog.messages
    assert not any(VALUE in message for message in caplog.messages)


async def test_every_request_has_the_headers_and_a_refusal_does_not_repeat_them() -> None:
    with kit.HttpServer() as server:
        target = replace(server.target, headers=(("X-Api-Key", VALUE), ("X-Org", "acme")))
        async with kit.pool_of(target) as pool:
            assert kit.text(await kit.call(pool, "echo", {"text": "there"})) == "there"
        assert server.requests
        assert {(sent.get("x-api-key"), sent.get("x-org")) for sent in server.requests} == {(VALUE, "acme")}
    assert target.shown(f"no entry for {VALUE} of acme") == "no entry for ••• of •••"


async def test_the_time_to_connect_is_the_servers_own() -> None:
    target = Target("stdio", f"{sys.executable} -c 'import sys; sys.stdin.read()'", connect_seconds=1)
    with pytest.raises(Unavailable, match="no answer within 1 s"):
        await Connection(target, Profile()).start()


async def test_a_directory_that_is_not_there_is_told() -> None:
    target = replace(TELLTALE, directory="/nowhere/at/all")
    with pytest.raises(Unavailable, match="/nowhere/at/all"):
        await Connection(target, Profile()).start()


def test_the_test_of_a_connection_uses_them(tmp_path: Path) -> None:
    steps = list(diagnosed(replace(TELLTALE, directory=str(tmp_path))))
    assert [step.name for step in steps if step.ok] == ["Program", "Start", "MCP", "Tools"]
    (step,) = diagnosed(replace(TELLTALE, directory="/nowhere/at/all"))
    assert step.says == "there is no directory /nowhere/at/all here, or it may not be read"


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("LEVEL", "debug", set()),
        ("PIN", "1234", set()),
        ("API_KEY", "1234", {"1234"}),
        ("PASSPHRASE", "x" * 12, {"x" * 12}),
        ("DATABASE_URL", "postgres://ada:pa55w@db.example/notes", {"pa55w", "postgres://ada:pa55w@db.example/notes"}),
        ("PEM", "-----BEGIN-----\nMIIEvQIBADANBgkq\n-----END-----", {"MIIEvQIBADANBgkq"}),
    ],
)
def test_what_a_message_must_not_repeat_of_a_variable(name: str, value: str, hidden: set[str]) -> None:
    found = given_secrets((), [(name, value)])
    assert hidden <= found
    assert bool(hidden) == (value in found)


def test_what_a_message_must_not_repeat_of_a_header() -> None:
    given = [("Authorization", "Bearer abcd"), ("Proxy-Authorization", "efgh"), ("X-A", "b c")]
    assert given_secrets(given) == {"abcd", "efgh", "b c"}
