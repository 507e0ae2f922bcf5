"""Records of OAuth towards servers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from taskhub.core.errors import Invalid, Unavailable

MAX_CLIENT_ID: Final = 1_000
"""The most characters of a client id that an admin gives."""
MAX_SECRET: Final = 4_096
"""The most characters of a client's secret."""
MAX_SCOPES: Final = 1_000
"""The most characters of a list of scopes."""


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
    """How an admin wants the hub to be authorized at a server. `secret`: `None` keeps the stored secret, an empty text
    deletes it. An empty `issuer`, `client_id` or `scopes` leaves the choice to the server and its authorization
    server."""

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
    """How clients may authenticate at the token endpoint; empty if the authorization server did not say."""
    scopes: str = ""
    """The scopes that the server asks for."""
    resource: str = ""
    """The identifier of the server as a resource (RFC 8707)."""
    says_issuer: bool = False
    """Whether answers to authorization requests name the issuer (RFC 9207)."""
    reads_documents: bool = False
    """Whether the authorization server knows clients by their metadata documents."""

    def stored(self) -> dict[str, Any]:
        """The object as the database stores it."""
        return asdict(self)

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Found | None:
        """The object of which `stored` is the stored form; `None` if nothing was found yet."""
        return cls(**{**stored, "methods": tuple(stored["methods"])}) if stored else None


@dataclass(frozen=True, slots=True)
class Client:
    """The hub as a client of an authorization server. `method`: how it authenticates there. `expires_at`: when the
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
    """The holder of a grant: a person, a client, or nobody in particular."""

    user_id: int | None = None
    context_id: int | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """A valid access token. If the server is asked without a token, `grant_id` is 0 and `token` is empty."""

    grant_id: int
    token: str = field(repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """A grant whose tokens only this process may refresh now, with what is needed for that."""

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
    """A call cannot be made before somebody authorizes the hub at its server. The message says why. `scopes`: the
    scopes that the grant must have, if there is a grant with too few scopes. The grant stays valid for other calls."""

    def __init__(self, message: str, *, holder: Holder, scopes: str = "") -> None:
        super().__init__(message)
        self.holder = holder
        self.scopes = scopes


class NotAuthorized(Invalid):
    """An authorization failed after it was begun. The message says why; `back`: the path from which the person came."""

    def __init__(self, message: str, *, back: str) -> None:
        super().__init__(message)
        self.back = back


class Gone(Unavailable):
    """The grant was revoked, or authorized again, while it was refreshed."""


class Busy(Exception):
    """Another process refreshes the tokens at this moment."""


class Unanswered(Exception):
    """The authorization server gave no usable answer; another try may succeed. The message says why. `later`: the
    seconds after which it wants to be asked again; `None` if it does not say."""

    def __init__(self, message: str, *, later: float | None = None) -> None:
        super().__init__(message)
        self.later = later


class NotYet(Unavailable):
    """The tokens cannot be refreshed before `seconds` have passed, because their authorization server wants to be asked
    later."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Denied(Exception):
    """The authorization server refused. The message says why, in words that may be shown."""
