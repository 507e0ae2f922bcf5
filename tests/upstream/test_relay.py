"""One read, prompt or completion at a server, and what becomes of whatever it answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from taskhub.domain.relays.outcomes import (
    Answered,
    Failed,
    Missing,
    NeedsInput,
    RelayClaim,
    RelayOutcome,
    decoded,
    encoded,
)
from taskhub.lib import jsonx
from taskhub.upstream.pool import Pool
from taskhub.upstream.relay import run_relay
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.servers import gates
from tests.upstream.test_offers import BARE, LIBRARY, old


async def ask(pool: Pool, method: str, seconds: float = 20.0, **params: Any) -> RelayOutcome:
    if method == "prompts/get":
        params.setdefault("arguments", None)
    claim = RelayClaim(1, 1, "the-server", method, params, {}, seconds)
    outcome = await pool.run(run_relay(pool, claim))
    # It travels through the database and comes out the same.
    assert decoded(jsonx.decode(jsonx.encode(encoded(outcome)))) == outcome
    return outcome


@pytest.fixture
async def library() -> AsyncIterator[Pool]:
    async with kit.pool_of(LIBRARY) as pool:
        yield pool


async def test_a_resource_is_read_as_it_is(library: Pool) -> None:
    text = {"uri": "lib://note", "mimeType": "text/plain", "text": "a note"}
    blob = {"uri": "lib://bytes", "mimeType": "application/octet-stream", "blob": "AP8="}
    outcome = await ask(library, "resources/read", uri="lib://note")
    assert isinstance(outcome, Answered)
    assert outcome.result["contents"][0].items() >= text.items()
    outcome = await ask(library, "resources/read", uri="lib://bytes")
    assert isinstance(outcome, Answered)
    assert outcome.result["contents"][0].items() >= blob.items()
    assert outcome.result.keys() <= {"contents", "_meta"}


async def test_how_long_it_may_be_kept_is_told_apart() -> None:
    async with kit.pool_of(BARE) as pool:
        outcome = await ask(pool, "resources/read", uri="x://1")
    assert isinstance(outcome, Answered)
    assert outcome.ttl_ms == 1_234
    assert "ttlMs" not in outcome.result


async def test_an_error_is_told_without_the_token_that_it_repeats() -> None:
    target = Target("python", "tests.upstream.library:library", (("Authorization", "Bearer there"),))
    async with kit.pool_of(target) as pool:
        assert await ask(pool, "prompts/get", name="refused") == Failed(-32042, "go ••• first", {"where": "•••"})


async def test_a_resource_that_is_not_there_is_missing_in_either_era(library: Pool, tmp_path: Path) -> None:
    assert await ask(library, "resources/read", uri="lib://nothing") == Missing("lib://nothing")
    async with kit.pool_of(old(tmp_path)) as pool:
        assert await ask(pool, "resources/read", uri="old://nothing") == Missing("old://nothing")
        # And the command lives on: what it holds in memory is not lost over a bad uri.
        before = kit.children()
        assert isinstance(await ask(pool, "resources/read", uri="old://file"), Answered)
        assert kit.children() == before != []


async def test_an_old_server_answers_with_all_it_says(tmp_path: Path) -> None:
    async with kit.pool_of(old(tmp_path)) as pool:
        read = await ask(pool, "resources/read", uri="old://file/1")
        got = await ask(pool, "prompts/get", name="old_prompt", arguments={"who": "Ada"})
        ref = {"type": "ref/prompt", "name": "old_prompt"}
        completed = await ask(pool, "completion/complete", ref=ref, argument={"name": "who", "value": "A"})
    content = {"uri": "old://file/1", "text": "old", "_meta": {"x/y": 1}}
    assert read == Answered({"contents": [content], "x-old": "kept"})
    message = {"role": "user", "content": {"type": "text", "text": "For Ada"}}
    assert got == Answered({"messages": [message], "x-old": "kept"})
    assert completed == Answered({"completion": {"values": ["A!"]}})


async def test_a_prompt_is_filled_in_by_its_server(library: Pool) -> None:
    outcome = await ask(library, "prompts/get", name="greeting", arguments={"name": "Ada"})
    assert isinstance(outcome, Answered)
    (message,) = outcome.result["messages"]
    assert message["content"]["text"] == "Say something warm to Ada."


async def test_a_completion_knows_what_was_chosen_before(library: Pool) -> None:
    ref = {"type": "ref/prompt", "name": "greeting"}
    argument = {"name": "tone", "value": "co"}
    outcome = await ask(
        library, "completion/complete", ref=ref, argument=argument, context={"arguments": {"name": "Ada"}}
    )
    assert isinstance(outcome, Answered)
    assert outcome.result["completion"]["values"] == ["greeting.tone=co", "name"]


async def test_a_question_comes_with_the_servers_state_and_takes_answers(library: Pool) -> None:
    uri = "lib://asked/cats"
    first = await ask(library, "resources/read", uri=uri)
    assert isinstance(first, NeedsInput)
    assert first.requests["word"]["method"] == "elicitation/create"
    assert first.requests["word"]["params"]["message"] == "Which word?"
    answers: dict[str, Any] = {"word": {"action": "accept", "content": {"word": "yes"}}, "bad": {"shape": 1}}
    second = await ask(library, "resources/read", uri=uri, responses=answers, state=first.state)
    assert isinstance(second, Answered)
    assert second.result["contents"][0]["text"] == "yes about cats"


async def test_an_error_of_the_server_is_told_as_it_said_it(library: Pool) -> None:
    assert await ask(library, "prompts/get", name="refused") == Failed(-32042, "go there first", {"where": "there"})


async def test_too_much_is_not_kept(library: Pool) -> None:
    outcome = await ask(library, "resources/read", uri="lib://big")
    assert isinstance(outcome, Failed)
    assert "more than 8388608 bytes" in outcome.message


async def test_a_server_that_cannot_be_reached_is_named() -> None:
    async with kit.pool_of(Target("python", "tests.upstream.library:nothing")) as pool:
        outcome = await ask(pool, "resources/read", uri="x://1")
    assert isinstance(outcome, Failed)
    assert outcome.message.startswith("Server the-server cannot be reached: cannot import")


async def test_a_server_that_stays_silent_is_given_up(library: Pool) -> None:
    outcome = await ask(library, "resources/read", uri="lib://held/x", seconds=0.5)
    assert isinstance(outcome, Failed)
    assert outcome.message == "Server the-server gave no answer in time, or was busy with calls"
    await kit.until(gates.cancelled.is_set, "the server to be told")


async def test_a_command_that_dies_is_an_error_and_starts_anew(tmp_path: Path) -> None:
    async with kit.pool_of(old(tmp_path)) as pool:
        assert isinstance(await ask(pool, "resources/read", uri="old://file"), Answered)
        pipe = max(tmp_path.iterdir(), key=lambda found: found.stat().st_mtime_ns)  # of the process that is spoken to
        await asyncio.to_thread(pipe.write_text, "die\n")
        await kit.until(lambda: kit.children() == [], "the command to die")
        assert isinstance(await ask(pool, "resources/read", uri="old://file"), Answered)


async def test_what_is_no_result_is_told_so() -> None:
    target = Target("stdio", f"{sys.executable} -m tests.upstream.old_server")
    async with kit.pool_of(target) as pool:
        outcome = await ask(pool, "resources/read", uri="x://1")
    assert outcome == Failed(-32601, "Method not found")
