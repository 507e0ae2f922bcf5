"""The addresses in the configuration: one spelling, and a start that stops at anything else."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from taskhub.config import env
from tests.support.hub import ROOT


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://hub.example.com", "https://hub.example.com"),
        ("https://hub.example.com/", "https://hub.example.com"),
        ("https://hub.example.com//", "https://hub.example.com"),
        ("HTTPS://Hub.Example.COM", "https://hub.example.com"),
        ("https://hub.example.com:443", "https://hub.example.com"),
        ("http://hub.example.com:80/", "http://hub.example.com"),
        ("http://hub.example.com:443", "http://hub.example.com:443"),
        ("https://hub.example.com:80", "https://hub.example.com:80"),
        ("https://hub.example.com:8443", "https://hub.example.com:8443"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://[FE80::1]", "http://[fe80::1]"),
    ],
)
def test_an_address_has_one_spelling(value: str, expected: str) -> None:
    assert env.origin("PUBLIC_URL", value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "hub.example.com",
        "//hub.example.com",
        "ftp://hub.example.com",
        "https://",
        "https:///mcp",
        "https://:8000",
        "https://hub.example.com/mcp",
        "https://hub.example.com/?x",
        "https://hub.example.com?",
        "https://hub.example.com#",
        "https://hub.example.com/#x",
        "https://ada@hub.example.com",
        "https://@hub.example.com",
        "https://ada:secret@hub.example.com",
        "https://hub.example.com:x",
        "https://hub.example.com:99999",
        "https://[::1",
        "*",
        "null",
    ],
)
def test_what_is_no_address_is_refused_by_the_name_of_its_setting(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^ALLOWED_ORIGINS "):
        env.origin("ALLOWED_ORIGINS", value)


def started(**environment: str) -> subprocess.CompletedProcess[str]:
    """A process that reads the settings and tells what it read."""
    show = (
        "import json; from taskhub.config import settings as s;"
        "print(json.dumps([s.PUBLIC_URL, s.ALLOWED_ORIGINS, s.OAUTH2_PROVIDER['OIDC_ISS_ENDPOINT']]))"
    )
    return subprocess.run(
        [sys.executable, "-c", show],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_settings_hold_that_spelling() -> None:
    done = started(
        PUBLIC_URL="HTTPS://Hub.Example.com:443/",
        ALLOWED_ORIGINS=" https://Inspector.example.com/ ,http://localhost:6274,",
    )
    assert json.loads(done.stdout) == [
        "https://hub.example.com",
        ["https://inspector.example.com", "http://localhost:6274"],
        "https://hub.example.com",
    ]


def test_without_the_settings_no_address_is_named() -> None:
    assert json.loads(started(PUBLIC_URL="", ALLOWED_ORIGINS="").stdout) == ["", [], ""]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PUBLIC_URL", "hub.example.com"),
        ("PUBLIC_URL", "https://hub.example.com/taskhub"),
        ("ALLOWED_ORIGINS", "https://inspector.example.com,*"),
    ],
)
def test_a_process_with_another_address_does_not_start(name: str, value: str) -> None:
    done = started(**{name: value})
    assert done.returncode != 0
    assert f"ImproperlyConfigured: {name} must be http:// or https:// with a host" in done.stderr.splitlines()[-1]
