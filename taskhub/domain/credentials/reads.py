"""How a server is authorized, and by whom, as pages and commands show it: without secrets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from taskhub.domain.credentials.records import Found, Holder, Way
from taskhub.store import statements
from taskhub.store.models import ServerOAuth


@dataclass(frozen=True, slots=True)
class OAuthRow:
    """How a server is authorized. `issuer`: the issuer that an admin named, otherwise the one that was found; empty if
    there is neither."""

    way: Way
    issuer: str
    wanted_issuer: str
    client_id: str
    given_client_id: str
    has_secret: bool
    scopes: str
    lacking: str
    """The scopes that the server wanted when it last refused its lists; empty if it wanted none."""
    registered: bool
    """Whether the hub registered itself as a client."""


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A grant. `holder`: the name of the person or client; empty if the grant belongs to neither. `refreshes`: whether
    it can be refreshed."""

    id: int
    user_id: int | None
    context_id: int | None
    holder: str
    state: str
    problem: str
    scopes: str
    granted_by: str
    granted_at: datetime
    refreshed_at: datetime | None
    expires_at: datetime | None
    refreshes: bool

    @property
    def shared(self) -> bool:
        """Whether the grant belongs to no person and no client: it is for all callers, or for the server's lists."""
        return self.user_id is None and self.context_id is None


@dataclass(frozen=True, slots=True)
class _Asked:
    server_id: int
    user_id: int | None
    context_id: int | None
    scopes: str


_ASKED = statements.maybe("authorization_asked", _Asked)
_GRANTS = statements.many("grants_of", GrantRow)


def oauth_of(server_id: int) -> OAuthRow | None:
    """How the server is authorized; `None` if not by OAuth."""
    row = ServerOAuth.objects.filter(server_id=server_id).first()
    if row is None:
        return None
    found = Found.read(row.found)
    made = row.registered or {}
    return OAuthRow(
        way=Way(row.way),
        issuer=row.issuer or (found.issuer if found else ""),
        wanted_issuer=row.issuer,
        client_id=row.client_id or str(made.get("id", "")),
        given_client_id=row.client_id,
        has_secret=row.client_secret is not None,
        scopes=row.scopes,
        lacking=row.lacking,
        registered=bool(made),
    )


def grants_of(server_id: int) -> tuple[GrantRow, ...]:
    """The grants for the server, first the one that belongs to no person or client."""
    return tuple(_GRANTS(server=server_id))


def asked_for(question_id: int) -> tuple[int, Holder, str] | None:
    """The server that a question asks people to authorize, the holder that the grant will have, and the scopes that it
    needs at least; `None` if the server is not authorized by OAuth any more."""
    found = _ASKED(question=question_id)
    return None if found is None else (found.server_id, Holder(found.user_id, found.context_id), found.scopes)
