"""What the scripts here share: a stand-in for a model, which is shown what a framework would show one, and does what
it says; and the steps that it takes.

It knows nothing of tasks. What it goes by is the text of results and errors alone: a result that says "call X with Y"
is followed, what one asks the model is answered with the tool that it names, and after an error that is not the tool's
it makes the same call again, as models do.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: one of the frameworks is called "agents" too
from expect import expect_true, run

Arguments = dict[str, Any]
Call = Callable[[str, Arguments], Awaitable[str]]
"""Calls a tool by the framework's own means. Returns what a model is shown; raises where the framework does."""

ANSWERS: Arguments = {"color": "red", "confirm": True}
"""What is answered, by a person at the program where it has means to ask one, else by the model: the tools' forms each
take what is theirs."""
MOST_CALLS = 60
THINKS_SECONDS = 5.0
"""How long it thinks after a call that was given up."""
CALL = re.compile(r"For the result call (\w+) with (\{.*?\})\.", re.DOTALL)
ASKS = re.compile(
    r"It asks you \(elicitation, key \w+\): (\{.*\})\nTo answer, call (\w+) with (\{.*?\}) and as answer "
)
SAME = re.compile(r"For the result call (\w+) again with exactly the same arguments")
LOST = re.compile(r"time[ds]?[ _-]?out|timeout|terminated|closed", re.IGNORECASE)
"""What frameworks say when they have given a call up."""


@dataclass
class Model:
    """One conversation with the tools of one client."""

    call: Call
    given_up: int = 0
    """Calls that the framework gave up."""
    interim: int = 0
    """Results that said how to go on."""
    answers: int = 0
    """Questions that it answered."""
    longest: float = 0.0
    """Seconds of the longest call that was answered."""
    said: list[str] = field(default_factory=list)

    async def once(self, tool: str, arguments: Arguments) -> tuple[str, bool]:
        """What is shown for one call, and whether the framework gave it up."""
        began = time.monotonic()
        try:
            text = await self.call(tool, arguments)
        except Exception as error:  # noqa: BLE001 - each framework has its own; a model is shown its words
            text = f"{type(error).__name__}: {error}"
        self.said.append(text)
        seconds = time.monotonic() - began
        print(f"{seconds:5.1f} s  {tool}: {text[:120]!r}", flush=True)
        lost = next_of(text) is None and len(text) < 1_000 and LOST.search(text) is not None
        self.given_up += lost
        if not lost:
            self.longest = max(self.longest, seconds)
        return text, lost

    async def result(self, tool: str, arguments: Arguments, *, until: Callable[[str], bool] | None = None) -> str:
        """Call a tool and do what is said until there is its result, or something that `until` takes."""
        calling = (tool, arguments)
        for _ in range(MOST_CALLS):
            text, lost = await self.once(*calling)
            if lost:
                await asyncio.sleep(THINKS_SECONDS)
                continue
            if until is not None and until(text):
                return text
            after = next_of(text)
            if after is None:
                return text
            self.interim += 1
            if (asked := asked_in(text)) is not None:
                answering, given, form = asked
                answer = {"action": "accept", "content": {name: ANSWERS[name] for name in form["properties"]}}
                await self.once(answering, {**given, "answer": answer})
                self.answers += 1
            calling = after[0], after[1] or arguments
        raise AssertionError(f"{tool} has no result after {MOST_CALLS} calls")


def next_of(text: str) -> tuple[str, Arguments] | None:
    """The call that a text names for the result: in its words, or in its JSON where that is all that is shown. No
    arguments: the same as before."""
    if found := CALL.search(text):
        return found[1], json.loads(found[2])
    if found := SAME.search(text):
        return found[1], {}
    try:
        about = json.loads(text)
    except ValueError:
        return None
    about = about.get("taskhub", about) if isinstance(about, dict) else {}
    after = about.get("next")
    if not isinstance(after, dict):
        return None
    return after["call"], after["arguments"] if isinstance(after["arguments"], dict) else {}


def asked_in(text: str) -> tuple[str, Arguments, Arguments] | None:
    """What the text asks the model: the tool to answer with, its arguments but for the answer, and the form."""
    if found := ASKS.search(text):
        return found[2], json.loads(found[3]), json.loads(found[1])["requestedSchema"]
    try:
        about = json.loads(text)
    except ValueError:
        return None
    about = about.get("taskhub", about) if isinstance(about, dict) else {}
    for asked in about.get("waits_for", ()):
        if asked["from"] == "you" and asked["kind"] == "elicitation":
            answer = asked["answer"]
            return answer["call"], answer["arguments"], asked["question"]["requestedSchema"]
    return None


async def steps(name: str, names: Iterable[str], call: Call, *, seconds: float, elicits: bool = False) -> None:
    """All that is tried with one framework. `seconds`: how long the long call takes; `elicits`: the program has means
    to ask its user, and answers a question about a colour with "red"."""
    tools = set(names)
    for tool in ("echo", "countdown", "deploy", "taskhub_wait_for_task", "taskhub_cancel_task"):
        expect_true(f"{tool} is listed", tool in tools)
    model = Model(call)

    expect_true("echo", "hé" in await model.result("echo", {"text": "hé"}))
    counted = await model.result("word_count", {"text": "a b a"})  # it has an output schema
    expect_true(f"word_count: {counted!r}", re.search(r'"words":\s*3\b', counted))

    began = time.monotonic()
    ended = await model.result("countdown", {"seconds": seconds, "steps": 20})
    expect_true(f"countdown: {ended!r}", re.search(r'"steps":\s*20\b', ended) and '"seconds"' in ended)
    took = time.monotonic() - began
    expect_true("there was an interim result, or the program waited to the end", model.interim or not model.given_up)
    counting = f"{seconds:g} s took {took:.0f} s: given up {model.given_up}, interim {model.interim}"

    # Approved by a person meanwhile (run.py).
    given_up = model.given_up  # from here on its patience should be known
    done = await model.result("deploy", {"service": f"agents-{name}", "version": "1", "environment": "production"})
    expect_true(f"deploy: {done!r}", re.search(r'"deployed":\s*true', done))

    stopped = await model.result(
        "countdown", {"seconds": 300, "steps": 300}, until=lambda text: next_of(text) is not None
    )
    after = next_of(stopped)
    assert after is not None
    task_id = after[1]["task_id"]
    cancelled, _ = await model.once("taskhub_cancel_task", {"task_id": task_id})
    expect_true(f"cancel: {cancelled!r}", "cancel" in cancelled.lower())
    over = await model.result("taskhub_wait_for_task", {"task_id": task_id})
    expect_true(f"what came of it: {over!r}", "cancelled" in over.lower())

    # Where the program has no means to ask, the hub asks a person (run.py); but for a question that is for the client
    # alone, the model.
    expect_true("pick", "red" in await model.result("pick", {}))
    expect_true("a model is not asked what a person can be", model.answers == 0)
    expect_true("paint", "red" in await model.result("paint", {}))
    expect_true(f"the model answered {model.answers} questions", model.answers == (0 if elicits else 1))
    later = f"later {model.given_up - given_up}"
    print(f"{counting}, {later}; longest answered call {model.longest:.1f} s; {answered_by(elicits)}")


def answered_by(elicits: bool) -> str:
    """Who answers what tools ask; compared with what is on record (run.py)."""
    if elicits:
        return "questions answered by its program"
    return "questions answered by a person, and for the client alone by its model"


async def task_steps(
    name: str,
    names: Iterable[str],
    call: Call,
    begin: Callable[[str, Arguments], Awaitable[Any]],
    *,
    seconds: float,
    declares: bool,
) -> None:
    """As `steps` with a framework that speaks tasks and answers what it is asked: each call is made once, and brings
    the result. `begin` makes a call and returns its handle; `declares`: the program says that it speaks tasks."""
    tools = set(names)
    expect_true("the tools are listed", {"echo", "countdown", "deploy"} <= tools)
    ours = any(tool.startswith("taskhub_") for tool in tools)
    expect_true("the hub's own are, where it does not know that the program speaks tasks", ours is not declares)

    async def once(tool: str, arguments: Arguments) -> str:
        began = time.monotonic()
        text = await call(tool, arguments)
        print(f"{time.monotonic() - began:5.1f} s  {tool}: {text[:120]!r}", flush=True)
        return text

    expect_true("echo", "hé" in await once("echo", {"text": "hé"}))
    counted = await once("word_count", {"text": "a b a"})
    expect_true(f"word_count: {counted!r}", re.search(r'"words":\s*3\b', counted))

    began = time.monotonic()
    ended = await once("countdown", {"seconds": seconds, "steps": 20})
    expect_true(f"countdown: {ended!r}", re.search(r'"steps":\s*20\b', ended) and '"seconds"' in ended)
    counting = f"{seconds:g} s took {time.monotonic() - began:.0f} s in one call"

    done = await once("deploy", {"service": f"agents-{name}", "version": "1", "environment": "production"})
    expect_true(f"deploy: {done!r}", re.search(r'"deployed":\s*true', done))

    task = await begin("countdown", {"seconds": 300, "steps": 300})
    await asyncio.sleep(THINKS_SECONDS)  # a worker has it by then
    await task.cancel()
    try:
        over = str(await task.result())
    except Exception as error:  # noqa: BLE001 - each framework has its own
        over = str(error)
    expect_true(f"what came of it: {over!r}", "cancelled" in over.lower())

    for tool in ("pick", "paint"):
        expect_true(tool, "red" in await once(tool, {}))
    print(f"{counting}; {answered_by(True)}")


def script(name: str, steps_of: Callable[[str, str, float], Awaitable[None]]) -> None:
    """`SCRIPT URL TOKEN SECONDS`."""
    seconds = float(sys.argv.pop(3))

    async def main(url: str, tokens: list[str]) -> None:
        await steps_of(url, tokens[0], seconds)

    run(name, main)
