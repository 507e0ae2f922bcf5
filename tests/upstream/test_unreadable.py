"""Lines of a command that are no messages: an answer that cannot be read ends its call, noise does not."""

from __future__ import annotations

import asyncio

import pytest

from taskhub.upstream.outcomes import Faulted
from tests.upstream import kit
from tests.upstream.kit import call, text

PATIENCE = 20.0
"""The call itself may run for as long as it likes, so a test that waits longer than this has found the fault."""

ANSWER = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"here"}]}}'

UNREADABLE = {
    "cut short": '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","te',
    "cut before its result": '{"jsonrpc":"2.0","id":ID,"resu',
    "cut within its id": '{"jsonrpc":"2.0","i',
    "a value that JSON does not have": '{"jsonrpc":"2.0","id":ID,"result":{"content":undefined}}',
    "half a character": '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\\ud800"}]}}',
    "two answers in a line": '{"jsonrpc":"2.0","id":ID,"result":{}}{"jsonrpc":"2.0","id":ID,"result":{}}',
    "nested too deep": '{"jsonrpc":"2.0","id":ID,"result":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}",
    "a result that is no object": '{"jsonrpc":"2.0","id":ID,"result":5}',
    "neither result nor error": '{"jsonrpc":"2.0","id":ID}',
    "no version": '{"id":ID,"result":{}}',
    "another version": '{"jsonrpc":"1.0","id":ID,"result":{},"error":null}',
    "an error without a code": '{"jsonrpc":"2.0","id":ID,"error":{"message":"no"}}',
    "an id that is no integer": '{"jsonrpc":"2.0","id":ID.0,"result":{}}',
    "no id": '{"jsonrpc":"2.0","result":{}}',
    "more digits than are read": '{"jsonrpc":"2.0","id":ID,"result":{"content":[],"n":' + "1" * 5_000 + "}}",
    "a batch": '[{"jsonrpc":"2.0","id":ID,"result":{}}]',
}

NOISE = [
    "",
    "Listening on stdio",
    "CafBYTE is open",
    "[INFO] ready",
    "[1, 2]",
    "5",
    "{",
    "{'jsonrpc': '2.0', 'id': ID, 'result': {}}",
    '{"level":"error","id":ID,"error":"no such row"}',
    '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"in',
    '{"jsonrpc":"2.0","id":ID,"method":7,"params":{}}',
    '{"jsonrpc":"2.0","id":90210,"result":5}',
    'DEBUG got {"jsonrpc":"2.0","id":ID,"method":"tools/call"}',
]


@pytest.mark.parametrize("what", UNREADABLE)
async def test_an_answer_that_cannot_be_read_ends_its_call_and_not_its_command(what: str) -> None:
    async with kit.pool_of(kit.OLD) as pool:
        before = text(await call(pool, "pid"))
        async with asyncio.timeout(PATIENCE):
            outcome = await call(pool, "say", {"lines": [UNREADABLE[what]]})
        assert isinstance(outcome, Faulted)
        assert outcome.unreached is False
        assert outcome.error["code"] == -32603
        assert "answered with a line that is no JSON-RPC message" in outcome.error["message"]
        assert text(await call(pool, "pid")) == before


@pytest.mark.parametrize("answer", ['"result":{"content":[]}', '"error":{"code":-32000,"message":"no"}'])
@pytest.mark.parametrize("number", ["90210", '"other"'])
async def test_an_answer_to_what_nobody_asked_ends_the_call(answer: str, number: str) -> None:
    """It can be meant for nothing else; and the call's own will not come."""
    async with kit.pool_of(kit.OLD) as pool:
        before = text(await call(pool, "pid"))
        async with asyncio.timeout(PATIENCE):
            outcome = await call(pool, "say", {"lines": [f'{{"jsonrpc":"2.0","id":{number},{answer}}}']})
        assert isinstance(outcome, Faulted)
        assert outcome.error["message"] == "The tool's server failed: it answered a request that nobody made"
        assert text(await call(pool, "pid")) == before


async def test_an_error_about_nobodys_request_is_about_what_is_under_way() -> None:
    async with kit.pool_of(kit.OLD) as pool, asyncio.timeout(PATIENCE):
        line = '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
        outcome = await call(pool, "say", {"lines": [line]})
        assert isinstance(outcome, Faulted)
        assert outcome.error == {"code": -32700, "message": "Parse error"}
        assert text(await call(pool, "echo", {"text": "next"})) == "next"


async def test_what_a_sloppy_server_prints_beside_its_answer_ends_nothing() -> None:
    async with kit.pool_of(kit.OLD) as pool, asyncio.timeout(PATIENCE):
        assert text(await call(pool, "say", {"lines": [*NOISE, ANSWER]})) == "here"


async def test_an_answer_may_come_after_one_that_could_not_be_read() -> None:
    async with kit.pool_of(kit.OLD) as pool, asyncio.timeout(PATIENCE):
        lines = [UNREADABLE["cut short"], UNREADABLE["neither result nor error"], ANSWER]
        assert isinstance(await call(pool, "say", {"lines": lines}), Faulted)
        assert text(await call(pool, "echo", {"text": "next"})) == "next"


async def test_bytes_that_are_no_text_are_shown_as_such_in_an_answer() -> None:
    async with kit.pool_of(kit.OLD) as pool, asyncio.timeout(PATIENCE):
        assert text(await call(pool, "say", {"lines": [ANSWER.replace("here", "cafBYTE")]})) == "caf\ufffd"
