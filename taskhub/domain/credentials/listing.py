"""Records that a server does not show its lists without an authorization, or without further scopes."""

from __future__ import annotations

from taskhub.core.hints import CatalogueChanged
from taskhub.domain.catalogue.sync import store_problem
from taskhub.domain.credentials.grants import grants_for, widen
from taskhub.domain.credentials.records import MAX_SCOPES, Holder, NeedsAuthorization, Way
from taskhub.domain.hints.announce import notify
from taskhub.store.models import ServerOAuth


def not_listed(server_id: int, problem: str, scopes: str) -> None:
    """Record that the server cannot be connected or listed without an authorization. `scopes`: the scopes that the
    server wants; empty if it names none. The next authorization by an admin asks for these as well, unless an admin has
    named all scopes."""
    oauth = ServerOAuth.objects.filter(server_id=server_id).first()
    if oauth is None:
        pass
    elif not grants_for(server_id, Holder()).exists():
        _lacks(server_id, scopes)
        problem = f"Nobody has authorized it{' for its lists' if oauth.way == Way.EACH else ''} yet"
    elif scopes:
        needs = widen(server_id, None, scopes)
        if isinstance(needs, NeedsAuthorization):
            _lacks(server_id, needs.scopes)
            problem = needs.message
        else:
            problem = f"{needs}. {problem}"
    store_problem(server_id, problem, state="unauthorized")


def listed(server_id: int, scopes: str) -> None:
    """Record `scopes`, which the server wanted for lists that it refused. They are empty if it refused no list."""
    needs = widen(server_id, None, scopes) if scopes else ""
    _lacks(server_id, needs.scopes if isinstance(needs, NeedsAuthorization) else "")


def _lacks(server_id: int, scopes: str) -> None:
    lacking = scopes if len(scopes) <= MAX_SCOPES else ""
    if ServerOAuth.objects.filter(server_id=server_id).exclude(lacking=lacking).update(lacking=lacking):
        notify(CatalogueChanged())
