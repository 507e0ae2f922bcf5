"""Messages to webhooks: signed as the published library verifies them, bounded whatever a receiver does."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from taskhub.notify.webhooks import sending
from taskhub.notify.webhooks.sending import MAX_ANSWER, Answer, Message, Sender
from tests.support.receiver import Receiver

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
BODY = '{"type":"task.finished","timestamp":"2026-11-26T20:00:00+00:00","data":{"tool":"déploie"}}'


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def send(url: str, *secrets: str, number: int = 1) -> Answer:
    async def work() -> Answer:
        sender = Sender("TaskHub/test")
        try:
            return await sender.send(Message("msg_1", BODY, number, url, secrets or (SECRET,)))
        finally:
            await sender.close()

    return asyncio.run(work())


def test_the_published_library_verifies_it(receiver: Receiver) -> None:
    receiver.secret = SECRET
    assert send(receiver.url, number=3) == Answer(200, "thanks")
    (message,) = receiver.received
    assert receiver.problems == []
    assert (message.id, message.attempt, message.raw.decode()) == ("msg_1", 3, BODY)
    assert message.headers["content-type"] == "application/json"
    assert message.headers["user-agent"] == "TaskHub/test"


def test_while_a_secret_is_replaced_either_verifies_it(receiver: Receiver) -> None:
    send(receiver.url, OTHER, SECRET)
    (message,) = receiver.received
    for secret in (SECRET, OTHER):
        Webhook(secret).verify(message.raw, message.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "A" * 32).verify(message.raw, message.headers)


@pytest.mark.parametrize(
    ("status", "headers", "answer"),
    [
        (204, {}, Answer(204, "")),
        (
            302,
            {"location": "http://127.0.0.1:1/elsewhere"},
            Answer(302, "", "The receiver answered 302 (redirects are not followed)"),
        ),
        (500, {}, Answer(500, "", "The receiver answered 500")),
        (503, {"retry-after": "120"}, Answer(503, "", "The receiver answered 503", 120.0)),
        (429, {"retry-after": "9" * 9}, Answer(429, "", "The receiver answered 429", 86_400.0)),
        (410, {}, Answer(410, "", "The receiver answered 410")),
    ],
)
def test_what_is_no_success_is_said(receiver: Receiver, status: int, headers: dict[str, str], answer: Answer) -> None:
    receiver.status, receiver.extra, receiver.said = status, headers, b""
    assert send(receiver.url) == answer
    assert answer.gone is (status == 410)
    assert len(receiver.received) == 1


def test_of_an_answer_only_the_first_bytes_are_read(receiver: Receiver) -> None:
    receiver.said = b"x" * 5_000_000
    answer = send(receiver.url)
    assert answer == Answer(200, "x" * MAX_ANSWER)


def test_who_does_not_answer_in_time_is_left(monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> None:
    monkeypatch.setattr(sending, "SECONDS", 0.2)
    done = threading.Event()
    receiver.before_answer = lambda message: done.wait(10) and None
    try:
        assert send(receiver.url) == Answer(problem="No answer within 0.2 s")
    finally:
        done.set()


def test_where_nobody_is_and_what_is_no_http_is_said_and_nothing_is_raised() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        assert send(f"http://127.0.0.1:{port}/") == Answer(problem="Cannot connect: Connection refused")
        unused.listen()

        def talk() -> None:
            peer, _ = unused.accept()
            peer.recv(10)
            peer.sendall(b"SSH-2.0-OpenSSH\r\n")
            peer.close()

        thread = threading.Thread(target=talk)
        thread.start()
        assert send(f"http://127.0.0.1:{port}/").problem
        thread.join()
