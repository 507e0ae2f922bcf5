"""The pages of the command palette: those that the person may open, and no others."""

from __future__ import annotations

import re
from typing import Any

import pytest

from taskhub.core.states import Role
from tests.console.conftest import Login
from tests.factories import make_person

pytestmark = pytest.mark.django_db


def offered(client: Any) -> dict[str, str]:
    """The addresses that the palette offers, by their words."""
    page = client.get("/").content.decode()
    options = re.findall(r'role="option"[^>]* data-href="([^"]*)">\s*<span>([^<]*)</span>', page)
    return {words: address for address, words in options}


@pytest.mark.parametrize("role", list(Role))
def test_it_offers_what_opens(tenant: Any, sign_in: Login, role: Role) -> None:
    client = sign_in(make_person(role, tenant))
    found = offered(client)
    assert {"Overview", "Tasks", "Your account", "Sign out"} <= set(found)
    assert ("Settings" in found, "Write a rule" in found) == (role is Role.ADMIN,) * 2
    assert ("Inbox: decided" in found) == (role in (Role.OPERATOR, Role.APPROVER, Role.ADMIN))
    assert {words: client.get(address).status_code for words, address in found.items()} == dict.fromkeys(found, 200)
