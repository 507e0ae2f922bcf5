"""Hands messages to services by Apprise. Apprise's calls block, so each has a thread of its own, for which nobody waits
longer than `SECONDS`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from taskhub.lib import apprises
from taskhub.notify.apprise.writing import Written

SECONDS: Final = 20.0
"""Seconds in which a service has to take a message."""
AT_ONE_SERVICE: Final = 4
"""The most threads of one worker that send to one service. Threads for which nobody waits any more count too."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of sending a message. `problem` says in words why the message was not taken; empty if it was. It has
    no text of the service or of Apprise, which could contain a token. `status` is `None` if the service did not answer.
    `forever`: no later attempt would help."""

    status: int | None = None
    problem: str = ""
    forever: bool = False


class Sender:
    """Sends messages to services. For one event loop."""

    def __init__(self) -> None:
        self._threads: Counter[str] = Counter()

    async def send(self, service: str, url: str, written: Written) -> Answer:
        """Send a message by the service of this name. Never raises: an error of the service is in the answer. If the
        time is over, the service may have taken the message nevertheless."""
        if self._threads[service] >= AT_ONE_SERVICE:
            return Answer(problem="Not tried: the service still keeps earlier messages waiting")
        loop = asyncio.get_running_loop()
        came: asyncio.Future[Answer] = loop.create_future()

        def ended(answer: Answer) -> None:
            self._threads[service] -= 1
            if not came.done():
                came.set_result(answer)

        def run() -> None:
            answer = _sent(url, written)
            with contextlib.suppress(RuntimeError):  # the worker has ended meanwhile
                loop.call_soon_threadsafe(ended, answer)

        self._threads[service] += 1
        # Not an executor, for whose threads the process would wait before it ends.
        threading.Thread(target=run, name=f"apprise-{service}", daemon=True).start()
        try:
            async with asyncio.timeout(SECONDS):
                return await came
        except TimeoutError:
            return Answer(problem=f"No answer within {SECONDS:g} s")


def _sent(url: str, written: Written) -> Answer:
    try:
        service = apprises.service_of(url)
        if service is None or len(service) != 1:
            return Answer(problem="Apprise makes no receiver of this address: check it", forever=True)
        sent = apprises.deliver(service, written.title, written.body)
    except Exception as error:  # noqa: BLE001 - a hundred plugins; its text may have a token
        return Answer(problem=f"Sending failed ({type(error).__name__})")
    if sent.ok:
        return Answer(HTTPStatus.OK)
    if sent.status is None:
        return Answer(problem="The service cannot be reached, or did not take it")
    return Answer(sent.status, f"The service answered {sent.status}")
