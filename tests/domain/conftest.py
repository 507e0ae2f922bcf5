"""What the tests of all subjects share: a client with a tool, a tenant, a person, a program that acts for her."""

from __future__ import annotations

import pytest

from taskhub.core.records import Person
from taskhub.store.models import Application, Tenant
from tests.console.admin import browser
from tests.domain.kit import World, make_world
from tests.factories import make_person, make_tenant
from tests.store.flushing import _flush_past_the_guards
from tests.support.fixtures import hub
from tests.support.oauth import Program, make_application

__all__ = ["_flush_past_the_guards", "hub"]


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def ada(tenant: Tenant) -> Person:
    return make_person("operator", tenant, username="ada")


@pytest.fixture
def application(tenant: Tenant) -> Application:
    return make_application(tenant)[0]


@pytest.fixture
def program(ada: Person, application: Application) -> Program:
    return Program.of(browser(ada), application)


@pytest.fixture
def world(transactional_db: None) -> World:
    """A client and a tool without any policy. Everything commits."""
    return make_world()
