"""Records of OAuth towards servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from taskhub.core.errors import Invalid, Unavailable

MAX_CLIENT_ID: Final = 1_000
"""Characters of a client id that an admin gives."""
MAX_SECRET: Final = 4_096
"""Characters of its secret."""


class Way(StrEnum):
    """How the hub gets an access token for a server."""

    CLIENT = "client"
    """By client credentials, without a person."""
    SHARED = "shared"
    """An admin authorizes once, for all callers."""
    EACH = "each"
    """Each person or client authorizes for itself."""


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """How an admin wants the hub to be authorized at a server. `secret` of `None` keeps the stored one, empty drops it.
    An empty `issuer`, `client_id` or `scopes` leaves the choice to the server and its authorization server."""

    way: Way
    issuer: str = ""
    client_id: str = ""
    secret: str | None = field(default=None, repr=False)
    scopes: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What discovery found out about a server and its authorization server."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    methods: tuple[str, ...] = ()
    """How clients may authenticate at the token endpoint; empty if that was not said."""
    scopes: str = ""
    """The scopes that the server asks for."""
    resource: str = ""
    """The identifier of the server as a resource (RFC 8707)."""
    says_issuer: bool = False
    """Whether its answers to authorization requests name the issuer (RFC 9207)."""
    reads_documents: bool = False
    """Whether it knows clients by their metadata documents."""


@dataclass(frozen=True, slots=True)
class Client:
    """The hub as a client of an authorization server. `method`: how it authenticates there. `expires_at`: when its
    secret expires, in seconds since 1970; 0 for never."""

    id: str
    secret: str = field(default="", repr=False)
    method: str = "none"
    expires_at: int = 0


@dataclass(frozen=True, slots=True)
class Tokens:
    """What an authorization server issued. `refresh` is empty if it issued no refresh token."""

    access: str = field(repr=False)
    refresh: str = field(default="", repr=False)
    expires_at: datetime | None = None
    scopes: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """For whom a grant is: a person, a client, or nobody in particular."""

    user_id: int | None = None
    context_id: int | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """An access token that is good now. `grant_id` is 0, and the token empty, if the server is asked without one."""

    grant_id: int
    token: str = field(repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """Tokens that this process alone may refresh now, and what it needs for that."""

    grant_id: int
    version: int
    tenant_id: int
    server_id: int
    server_name: str
    server_url: str = field(repr=False)
    wanted_issuer: str
    way: Way
    holder: Holder
    found: Found | None
    """`None` if the authorization server was not looked for yet."""
    client: Client
    scopes: str
    refresh: str = field(repr=False)


class NeedsAuthorization(Unavailable):
    """A call cannot be made before somebody authorizes the hub at its server. The message says why. `scopes`: those
    that the grant has to have, if the one that there is has too few; it stays good for other calls."""

    def __init__(self, message: str, *, holder: Holder, scopes: str = "") -> None:
        super().__init__(message)
        self.holder = holder
        self.scopes = scopes


class NotAuthorized(Invalid):
    """An authorization that was begun came to nothing. The message says why; `back`: the path from which the person
    came."""

    def __init__(self, message: str, *, back: str) -> None:
        super().__init__(message)
        self.back = back


class Gone(Unavailable):
    """The grant was revoked, or authorized anew, while it was refreshed."""


class Busy(Exception):
    """Another process refreshes the tokens at this moment."""


class Unanswered(Exception):
    """The authorization server gave no usable answer, which may be different in a moment. The message says why.
    `later`: the seconds after which it wants to be asked again, if it says so."""

    def __init__(self, message: str, *, later: float | None = None) -> None:
        super().__init__(message)
        self.later = later


class NotYet(Unavailable):
    """The tokens cannot be refreshed before `seconds` have passed, as their authorization server wants it."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Denied(Exception):
    """The authorization server refused. The message says why, in words that may be shown."""
