"""What the tests of the admin pages share: a signed-in browser, and plain facts about pages."""

from __future__ import annotations

import re

from django.contrib.auth.models import User
from django.test import Client

from taskhub.core.records import Actor, Person
from taskhub.core.states import Door

HTMX = {"HX-Request": "true"}
ROLES = ("viewer", "operator", "approver", "auditor", "admin")
ADMIN = Actor(name="admin", door=Door.WEB, address="203.0.113.9")


def browser(person: Person | None = None) -> Client:
    """A browser in which `person` is signed in, or a stranger's."""
    client = Client()
    if person is not None:
        client.force_login(User.objects.get(pk=person.user_id))
    return client


def words(html: str) -> str:
    """The text a person reads, with blanks collapsed."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()
