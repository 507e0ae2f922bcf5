"""What the command palette offers: every page that the person may open, as words and an address. It also offers the
actions of the open page, which the browser finds among the buttons and links there."""

from __future__ import annotations

from typing import Final

from taskhub.core import permissions
from taskhub.core.records import Person

MORE: Final = (
    ("inbox", "?queue=all", "Inbox: all open", "question.answer"),
    ("inbox", "?queue=decided", "Inbox: decided", "question.answer"),
    ("news", "", "News", "question.answer"),
    ("server-import", "", "Import servers from a file", "server.manage"),
    ("rule-add", "", "Write a rule", "server.manage"),
    ("rule-versions", "", "Versions of the rules", "server.view"),
    ("bypass", "", "Begin or end a bypass", "server.manage"),
    ("application-list", "", "Applications", "client.view"),
    ("webhook-list", "", "Webhooks", "settings.view"),
    ("account", "", "Your account", ""),
    ("account_logout", "", "Sign out", ""),
)
"""Pages that are not in the navigation: the name of the URL, its query, the words, and the permission that it needs."""


def pages(person: Person) -> list[tuple[str, str, str]]:
    """Those of `MORE` that the person may open: URL name, query, words."""
    return [
        (name, query, words) for name, query, words, needs in MORE if not needs or permissions.allows(person, needs)
    ]
