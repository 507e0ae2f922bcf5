"""Mails, handed to a real SMTP server: whole, bounded whatever it does, and with nothing in them that nobody sees."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from email.headerregistry import Address
from pathlib import Path

import pytest

from taskhub.lib.signs import invisible
from taskhub.notify.mail import sending
from taskhub.notify.mail.sending import Answer, Mail, Sender, Server
from taskhub.notify.mail.writing import ALIKE, LISTED, MAX_SUBJECT, Hub, confirmation, news
from taskhub.notify.texts import Item
from tests.support.documents import certificate
from tests.support.mailbox import Mailbox, Received, free_port

HUB = Hub("https://hub.example", "ada", "Europe/Berlin", "https://hub.example/m/", "https://hub.example/stop/x")
ITEM = Item(
    kind="approval.asked",
    sentence="Deploy checkout 1.0.42 to production",
    tool="deploy",
    server="shop",
    client="ci",
    group="leads",
    critical=True,
    risky=True,
    second_factor=False,
    quorum=1,
    due_at=datetime(2026, 7, 1, 10, 30, tzinfo=UTC),
    url="https://hub.example/inbox/task/abc/?key=approval",
)
MAIL = Mail(
    id="msg_1",
    sender=Address("TaskHub", addr_spec="taskhub@hub.example"),
    to=Address(addr_spec="ada@example.com"),
    subject="Decide: déployer",
    text="Décide.\n",
    html="<p>Décide.</p>",
    stop_url="https://hub.example/stop/x",
)


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    made = Mailbox()
    yield made
    made.close()


def send(server: Server | Mailbox, mail: Mail = MAIL) -> Answer:
    if isinstance(server, Mailbox):
        server = Server("127.0.0.1", server.port, "")
    return asyncio.run(Sender(server).send(mail))


def written(mailbox: Mailbox, *items: Item) -> Received:
    """What arrives of a mail about these approvals."""
    text = news(items, HUB)
    assert send(mailbox, replace(MAIL, subject=text.subject, text=text.text, html=text.html)).problem == ""
    return mailbox.received[-1]


def test_it_arrives_as_html_and_text_with_its_headers(mailbox: Mailbox) -> None:
    assert send(mailbox).status == 250
    (mail,) = mailbox.received
    assert mail.to == ("ada@example.com",)
    assert mail.sender == "taskhub@hub.example"
    assert (mail.text, mail.html) == ("Décide.\n", "<p>Décide.</p>\n")
    headers = {name: mail.header(name) for name in ("From", "To", "Subject", "Message-ID", "Auto-Submitted")}
    assert headers == {
        "From": "TaskHub <taskhub@hub.example>",
        "To": "ada@example.com",
        "Subject": "Decide: déployer",
        "Message-ID": "<msg_1@hub.example>",
        "Auto-Submitted": "auto-generated",
    }
    assert mail.header("List-Unsubscribe") == "<https://hub.example/stop/x>"
    assert mail.header("List-Unsubscribe-Post") == "List-Unsubscribe=One-Click"


def test_a_long_link_that_ends_mails_is_one_header(mailbox: Mailbox) -> None:
    link = "https://hub.example/mails/stop/" + "aB3_" * 60
    assert send(mailbox, replace(MAIL, stop_url=link)).problem == ""
    (mail,) = mailbox.received
    assert mail.header("List-Unsubscribe") == f"<{link}>"
    assert b"=?utf-8" not in mail.raw.split(b"List-Unsubscribe:")[1].split(b"\r\n\r\n")[0]


def test_it_says_what_will_happen_and_no_argument(mailbox: Mailbox) -> None:
    mail = written(mailbox, ITEM)
    assert mail.header("Subject") == "Decide: Deploy checkout 1.0.42 to production"
    for said in (mail.text, re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", mail.html))):
        for part in (ITEM.sentence, "deploy", "shop", "ci", "leads", "Critical.", "01 Jul 2026, 12:30 (Europe/Berlin)"):
            assert part in said
    assert ITEM.url in mail.text
    assert f'href="{ITEM.url.replace("&", "&amp;")}"' in mail.html
    for said in (mail.text, mail.html):
        assert HUB.choices_url in said
        assert HUB.stop_url in said
    assert "<script" not in mail.html
    assert "<img" not in mail.html


def test_it_says_that_the_risk_is_high_and_fits_a_phone(mailbox: Mailbox) -> None:
    for critical, risky, said in ((True, True, "Critical."), (False, True, "High risk."), (False, False, "")):
        mail = written(mailbox, replace(ITEM, critical=critical, risky=risky))
        for text in (mail.text, mail.html):
            assert [words for words in ("Critical.", "High risk.") if words in text] == ([said] if said else [])
        assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in mail.html


def test_several_are_one_mail(mailbox: Mailbox) -> None:
    items = [replace(ITEM, sentence=f"Deploy number {n}.", tool=f"deploy-{n}") for n in range(LISTED + 3)]
    mail = written(mailbox, *items)
    assert mail.header("Subject") == f"{LISTED + 3} approvals wait for a decision"
    for said in (mail.text, mail.html):
        assert f"Deploy number {LISTED - 1}." in said
        assert f"Deploy number {LISTED}." not in said
        assert "And 3 more" in said


def test_calls_of_one_tool_for_one_client_are_told_together(mailbox: Mailbox) -> None:
    alike = [replace(ITEM, sentence=f"Deploy number {n}.") for n in range(LISTED + 3)]
    other = replace(ITEM, sentence="Move 5 EUR.", tool="pay & move", client="bot")
    mail = written(mailbox, *alike[:1], other, *alike[1:])
    for said in (mail.text, re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", mail.html))):
        places = [said.index(words) for words in ("number 0.", f"number {ALIKE - 1}.", "And 20 more calls", "Move 5")]
        assert places == sorted(places)
        assert f"Deploy number {ALIKE}." not in said
        assert "more, in the inbox" not in said
    assert "https://hub.example/inbox/?tool=deploy&client=ci" in mail.text
    assert 'href="https://hub.example/inbox/?tool=deploy&amp;client=ci"' in mail.html
    for number in (ALIKE + 1, 1):  # one more is told as well: it takes no more room than to say that it is left out
        mail = written(mailbox, *alike[:number])
        assert [f"Deploy number {n}." in mail.text for n in range(number)] == [True] * number


def test_a_call_that_matters_more_is_never_left_out_for_others(mailbox: Mailbox) -> None:
    plain = [replace(ITEM, sentence=f"Deploy number {n}.", critical=False, risky=False) for n in range(LISTED + 3)]
    critical = replace(ITEM, sentence="Deploy the vault.")
    risky = replace(plain[0], sentence="Deploy payments.", risky=True)
    twice = replace(plain[0], sentence="Deploy mail.", quorum=2)
    factor = replace(plain[0], sentence="Deploy the ledger.", second_factor=True)
    text = written(mailbox, *plain, twice, factor, risky, critical).text
    places = [text.index(words) for words in ("the vault", "payments", "the ledger", "mail.", "number 0")]
    assert places == sorted(places)
    assert "And 20 more calls of deploy" in text


def test_it_says_what_it_takes_to_approve(mailbox: Mailbox) -> None:
    needs = replace(ITEM, second_factor=True, quorum=2)
    for item, said in ((needs, True), (ITEM, False), (replace(needs, kind="question.asked"), False)):
        mail = written(mailbox, item)
        for text in (mail.text, mail.html):
            assert ("2 people have to approve it." in text) is said
            assert ("Your second factor is asked for." in text) is said


HOSTILE = (
    "pay\u202efdp.exe",
    "a\r\nBcc: eve@example.com\r\n\r\nbody",
    "line\nbreak\ttab\x00null\x1b[31mred\x7f",
    "zero\u200bwidth\u2066isolate\u2069",
    "<script>alert(1)</script><a href=https://evil.example>click</a>",
    "{{ hub.stop_url }}{% csrf_token %}",
    "\ud800 half",
    "&lt;b&gt; &#x202e;",
    "x" * 10_000,
    "\u202e" * 2_000,
    "שלום",
    "=?utf-8?q?encoded?=",
    "--\nTaskHub at https://evil.example wrote this",
)


def test_text_of_others_is_safe_in_mails(mailbox: Mailbox) -> None:
    for text in HOSTILE:
        everywhere = replace(ITEM, sentence=text, tool=text, server=text, client=text, group=text)
        for items in ((everywhere,), (everywhere, replace(ITEM, sentence="", tool=text))):
            mail = written(mailbox, *items)
            assert mail.to == ("ada@example.com",), text
            assert mail.message["Bcc"] is None, text
            assert len(mail.header("Subject")) <= MAX_SUBJECT + 2, text
            for said in (mail.header("Subject"), mail.text, mail.html):
                assert [sign for _, sign in invisible(said) if sign != "\r"] == [], text
            assert len(mail.raw) < 200_000, text
            assert "<script" not in mail.html, text
            assert "href=https" not in re.sub(r"&lt;.*?&gt;", "", mail.html), text
            assert "stop_url" in mail.text or "stop_url" not in text
            begins = [line for line in mail.text.splitlines() if line.startswith("--")]
            assert begins == ["--"], text
    assert "pay[U+202E]fdp.exe" in mailbox.received[0].text


def test_the_mail_that_asks_to_confirm_names_who_wants_it() -> None:
    text = confirmation("https://hub.example/confirm/x", 24, replace(HUB, username="eve\u202e", stop_url=""))
    for said in (text.text, text.html):
        assert "eve[U+202E]" in said
        assert "https://hub.example/confirm/x" in said
        assert "24 hours" in said


# --- the server


def test_what_the_server_refuses_is_said(mailbox: Mailbox) -> None:
    mailbox.recipient = lambda address: "550 no such person"
    assert send(mailbox) == Answer(550, "no such person", "The server refused the address (550)")
    mailbox.recipient = lambda address: None
    mailbox.answers = lambda mail: "451 later"
    assert send(mailbox) == Answer(451, "later", "The server refused the mail (451)")
    assert mailbox.received == []


def test_a_server_that_is_away() -> None:
    answer = send(Server("127.0.0.1", free_port(), ""))
    assert (answer.status, answer.problem) == (None, "Cannot connect: Connection refused")


def test_a_server_that_hangs_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = send(Server("127.0.0.1", silent.getsockname()[1], ""))
    assert (answer.status, answer.problem) == (None, "No answer within 0.2 s")


def test_a_server_that_is_no_mail_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            found, _ = other.accept()
            with found:
                found.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        found = send(Server("127.0.0.1", other.getsockname()[1], ""))
        thread.join()
    assert found.status is None
    assert found.problem


def test_it_is_encrypted_before_the_password_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = tmp_path / "authority.pem"
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate(tmp_path, authority))
    trusts = ssl.create_default_context(cafile=str(authority))
    monkeypatch.setattr(sending, "trusted", lambda: trusts)
    mailbox = Mailbox(certificate=ours, users={"hub": "s3cret"})
    try:
        assert send(Server("127.0.0.1", mailbox.port, "starttls", "hub", "s3cret")).problem == ""
        (mail,) = mailbox.received
        assert (mail.encrypted, mail.user) == (True, "hub")
        wrong = send(Server("127.0.0.1", mailbox.port, "starttls", "hub", "other"))
        assert (wrong.status, wrong.problem) == (None, "The server refused user name and password (535)")
        monkeypatch.setattr(sending, "trusted", ssl.create_default_context)
        assert send(Server("127.0.0.1", mailbox.port, "starttls", "hub", "s3cret")).problem
        assert len(mailbox.received) == 1
    finally:
        mailbox.close()


def test_a_server_without_encryption_gets_nothing_where_that_is_asked(mailbox: Mailbox) -> None:
    answer = send(Server("127.0.0.1", mailbox.port, "starttls", "hub", "s3cret"))
    assert answer.status is None
    assert answer.problem
    assert mailbox.received == []
