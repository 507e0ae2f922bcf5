"""Fixtures of the console's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from taskhub.core.records import Person
from taskhub.store.models import Tenant
from tests.console.admin import browser
from tests.factories import make_person, make_tenant


@pytest.fixture(autouse=True, scope="session")
def _static_root() -> None:
    """WhiteNoise warns when nothing was ever collected."""
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


Login = Callable[[Person | User], Client]


@pytest.fixture
def sign_in() -> Login:
    """A browser in which the person is signed in."""

    def login(who: Person | User) -> Client:
        client = Client()
        user = who if isinstance(who, User) else User.objects.get(pk=who.user_id)
        client.force_login(user, backend="allauth.account.auth_backends.AuthenticationBackend")
        return client

    return login


@pytest.fixture
def tenant() -> Tenant:
    """A tenant of the test's own."""
    return make_tenant()


@pytest.fixture
def admin(tenant: Tenant) -> Client:
    """The browser of its administrator, `root`."""
    return browser(make_person("admin", tenant, username="root"))
