"""What all tests share."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from tests.postgres import MIGRATED, PREPARED
from tests.support.hub import RunningHub
from tests.support.needed import is_needed
from tests.support.undone import forget

BROWSERLESS = importlib.util.find_spec("playwright") is None
collect_ignore = ["e2e"] if BROWSERLESS else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out; CI may leave out nothing."""
    if BROWSERLESS:
        terminalreporter.write_line("tests/e2e was left out, which needs a browser: uv sync --group browser")


def pytest_configure() -> None:
    """See above."""
    if BROWSERLESS and is_needed("chromium"):
        raise pytest.UsageError("tests/e2e needs Playwright: uv sync --group browser")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A failed test of a hub tells how that hub is."""
    report: Any = yield
    if report.failed and report.when != "teardown":
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, RunningHub) and value.process.poll() is None:
                report.sections.append(("the hub", value.told()))
    return report


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """The tests' database is a copy of one that is migrated, where there is one."""
    if PREPARED in os.environ:
        connection.settings_dict["TEST"]["TEMPLATE"] = MIGRATED


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    """Process caches outlive a test's database; each test starts without them."""
    forget()


@pytest.fixture(scope="session", autouse=True)
def _quick_passwords() -> None:
    """Passwords hash in no time: their strength is Django's affair, tests' time is ours."""
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.MD5PasswordHasher",
        "taskhub.domain.oauth.secrets.RandomSecretHasher",
    ]
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


@pytest.fixture(autouse=True)
def _plain_static_files(settings_storages: None) -> None:
    """Pages render without a manifest: nothing was collected."""


@pytest.fixture
def settings_storages() -> Iterator[None]:
    """Static files by their own names."""
    before = settings.STORAGES
    settings.STORAGES = {
        **before,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    yield
    settings.STORAGES = before
