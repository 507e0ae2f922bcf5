"""What is said of a call whose server was lost, was not there, or answered with an error of any size."""

from __future__ import annotations

import json

from taskhub.upstream.outcomes import Faulted
from tests.upstream import kit
from tests.upstream.kit import call, text


async def test_of_a_call_whose_server_died_nobody_says_that_it_did_nothing() -> None:
    async with kit.pool_of(kit.OLD) as pool:
        outcome = await call(pool, "die")
        assert isinstance(outcome, Faulted)
        assert outcome.error == {
            "code": -32603,
            "message": "The connection to server the-server was lost while the tool ran: outcome unknown",
        }
        assert outcome.lost is True


async def test_a_server_that_stopped_listening_was_not_reached() -> None:
    """Also by the first call after it, whose connection was good before."""
    server = kit.HttpServer()
    with server:
        async with kit.pool_of(server.target) as pool:
            assert text(await call(pool, "echo", {"text": "hello"})) == "hello"
            server.__exit__(None, None, None)
            outcome = await call(pool, "echo", {"text": "hello"})
            assert isinstance(outcome, Faulted)
            assert outcome.unreached is True
            assert outcome.error["message"].startswith("Server the-server cannot be reached: ")
            assert "ConnectError" in outcome.problem
            with server:
                assert text(await call(pool, "echo", {"text": "again"})) == "again"


async def test_an_error_is_kept_up_to_a_size_and_its_code_if_it_is_one() -> None:
    def answer(code: int, words: int, data: int) -> str:
        error = {"code": code, "message": "m" * words, "data": "d" * data}
        return f'{{"jsonrpc":"2.0","id":ID,"error":{json.dumps(error)}}}'

    async with kit.pool_of(kit.OLD) as pool:
        whole = await call(pool, "say", {"lines": [answer(-7, 4_000, 60_000)]})
        cut = await call(pool, "say", {"lines": [answer(10**400, 3_000_000, 3_000_000)]})
    assert isinstance(whole, Faulted)
    assert whole.error == {"code": -7, "message": "m" * 4_000, "data": "d" * 60_000}
    assert isinstance(cut, Faulted)
    assert cut.error == {"code": -32603, "message": "m" * 4_000 + "…", "data": "3000002 bytes, which were not kept"}
