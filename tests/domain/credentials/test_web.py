"""What is asked of strangers, and where: https, public addresses, bounded, no redirects."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from django.conf import LazySettings

from taskhub.domain.credentials import web
from taskhub.domain.credentials.records import Unanswered
from taskhub.domain.credentials.web import Unfit, is_public


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://login.example/token", "without https"),
        ("ftp://login.example/", "no http or https"),
        ("https://user@login.example/", "names a user"),
        ("https://login.example\\@evil.example/", "backslash"),
        ("https://127.0.0.1/token", "is this machine"),
        ("https://localhost/token", "is this machine"),
        ("https://login.example/#x", "fragment"),
    ],
)
def test_an_address_that_is_not_asked(url: str, why: str) -> None:
    with pytest.raises(Unfit, match=why):
        web.checked(url)


def test_this_machine_is_asked_where_a_setting_allows_it(settings: LazySettings) -> None:
    settings.TASKHUB_OAUTH_LOCAL_SERVERS = True
    assert web.checked("http://127.0.0.1:8080/token") == "http://127.0.0.1:8080/token"
    with pytest.raises(Unfit, match="without https"):
        web.checked("http://login.example/token")


@pytest.mark.parametrize(
    ("place", "public"),
    [
        ("93.184.216.34", True),
        ("10.0.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("::ffff:169.254.169.254", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("2002:a9fe:a9fe::", False),
        ("224.0.0.1", False),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
    ],
)
def test_a_public_address(place: str, public: bool) -> None:
    assert is_public(place) is public


def leads_to(monkeypatch: pytest.MonkeyPatch, *places: str) -> None:
    def found(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (place, port)) for place in places]

    monkeypatch.setattr(socket, "getaddrinfo", found)


def test_a_name_of_which_one_address_is_private_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    leads_to(monkeypatch, "93.184.216.34", "10.0.0.1")
    with pytest.raises(Unfit, match=r"it leads to 10\.0\.0\.1"):
        web.get("https://login.example/")


def test_a_private_address_is_asked_where_an_admin_named_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    leads_to(monkeypatch, "127.0.0.9")
    with pytest.raises(Unanswered, match="cannot be reached"):
        web.get("https://login.example:9/", given={"login.example:9"})
