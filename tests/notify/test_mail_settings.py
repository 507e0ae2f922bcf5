"""The settings of mails: which addresses of a server are right, and what a wrong one is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from taskhub.config import env

NAMES = ("EMAIL_HOST", "EMAIL_PORT", "EMAIL_HOST_USER", "EMAIL_HOST_PASSWORD", "EMAIL_USE_SSL", "EMAIL_USE_TLS")
GOOD = (
    ("smtp://mail.example.com", ("mail.example.com", 587, "", "", False, True)),
    ("smtps://a%40b:p%2F@mail.example.com", ("mail.example.com", 465, "a@b", "p/", True, False)),
    ("smtp://u:p@mail.example.com:2525/", ("mail.example.com", 2525, "u", "p", False, True)),
    ("smtp+plain://[::1]:1025", ("::1", 1025, "", "", False, False)),
)
BAD = (
    "mail.example.com",
    "https://mail.example.com",
    "smtp://",
    "smtp://mail.example.com:port",
    "smtp://mail.example.com/path",
    "smtp://mail.example.com?a=b",
    "smtp://only-a-user@mail.example.com",
    "smtp+plain://u:s3cret-word@mail.example.com",
)


def test_the_address_of_a_server() -> None:
    for url, wanted in GOOD:
        assert env.smtp("X", url) == dict(zip(NAMES, wanted, strict=True)), url
    for url in BAD:
        with pytest.raises(ImproperlyConfigured) as refused:
            env.smtp("TASKHUB_SMTP_URL", url)
        assert str(refused.value).startswith("TASKHUB_SMTP_URL "), url
        assert "s3cret-word" not in str(refused.value)


def test_the_sender() -> None:
    for text in ("a@b.example", "TaskHub <hub@b.example>", '"Hub, the" <hub@b.example>'):
        assert env.sender("X", text) == text
    for text in ("", "a", "a@b.example, c@d.example", "a@b.example\nBcc: c@d.example", "Höb <a@b.example>", "<a@>"):
        with pytest.raises(ImproperlyConfigured, match="one address"):
            env.sender("X", text)


def started(directory: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """A process that reads the settings, and prints two of them."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import json; from taskhub.config import settings as s;"
            "print(json.dumps([s.EMAIL_HOST, getattr(s, 'DEFAULT_FROM_EMAIL', '')]))",
        ],
        env={**os.environ, "SECRET_KEY": "k" * 32, "TASKHUB_DATA_DIR": str(directory), "PUBLIC_URL": "", **given},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_slack_needs_both_tokens_and_an_address_for_its_links(tmp_path: Path) -> None:
    both = {
        "TASKHUB_SLACK_BOT_TOKEN": "xoxb-1-a",
        "TASKHUB_SLACK_APP_TOKEN": "xapp-1-b",
        "PUBLIC_URL": "https://h.example",
    }
    refused = (
        ({"TASKHUB_SLACK_APP_TOKEN": ""}, "TASKHUB_SLACK_APP_TOKEN is not set"),
        ({"TASKHUB_SLACK_BOT_TOKEN": ""}, "TASKHUB_SLACK_BOT_TOKEN is not set"),
        ({"TASKHUB_SLACK_BOT_TOKEN": "xapp-1-b"}, "TASKHUB_SLACK_BOT_TOKEN is no such token of Slack"),
        ({"TASKHUB_SLACK_API_URL": "http://slack.example/api/"}, "must be an address that begins with https://"),
        ({"PUBLIC_URL": ""}, "TASKHUB_SLACK_BOT_TOKEN needs PUBLIC_URL"),
    )
    assert started(tmp_path, **both).returncode == 0
    for change, why in refused:
        told = started(tmp_path, **{**both, **change})
        assert why in told.stderr, change
        assert "-1-a" not in told.stderr, "a token"


def test_services_of_apprise_have_a_name_and_a_place_for_a_person(tmp_path: Path) -> None:
    good = {
        "TASKHUB_APPRISE_URLS": "phone=ntfys://ntfy.example/{to}\n chat=tgram://123:TOKEN/{to}",
        "PUBLIC_URL": "https://h.example",
    }
    assert started(tmp_path, **good).returncode == 0
    for value, why in (
        ("ntfys://ntfy.example/TOKEN/{to}", "number 1 is none"),
        ("a=json://h/{to} Big=json://TOKEN/{to}", "number 2 is none"),
        ("a=json://h/{to} a=json://TOKEN/{to}", "two services with the name a"),
        ("a=json://TOKEN/", "must have {to} once"),
        ("a=json://TOKEN/{to}/{to}", "must have {to} once"),
        ("a=json://[TOKEN/{to}", "the URL of a has a bad host"),
    ):
        told = started(tmp_path, **{**good, "TASKHUB_APPRISE_URLS": value})
        assert why in told.stderr, value
        assert "TOKEN" not in told.stderr, value
    assert "needs PUBLIC_URL" in started(tmp_path, **{**good, "PUBLIC_URL": ""}).stderr


def test_mails_need_an_address_for_their_links(tmp_path: Path) -> None:
    assert json.loads(started(tmp_path).stdout) == ["", ""]
    file = tmp_path / "smtp"
    file.write_text("smtp://u:p@mail.example.com\n")
    refused = started(tmp_path, TASKHUB_SMTP_URL_FILE=str(file))
    assert "TASKHUB_SMTP_URL needs PUBLIC_URL: mails have links" in refused.stderr
    found = started(tmp_path, TASKHUB_SMTP_URL_FILE=str(file), PUBLIC_URL="https://hub.example:8443")
    assert json.loads(found.stdout) == ["mail.example.com", "TaskHub <taskhub@hub.example>"]
