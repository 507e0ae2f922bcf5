"""Records of a tenant's configuration. Their fields have the names that the file has; fields with a default may be left
out of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from taskhub.core.policy import Policy
from taskhub.core.rules import Rule
from taskhub.domain.clients.reads import OWN_ISSUER

FORMAT: Final = 1
"""The format of the file that this release reads and writes."""


@dataclass(frozen=True, slots=True)
class Given:
    """A text that is a secret or contains one. Two such texts are equal if they have the same value, however the file
    writes them."""

    text: str = field(compare=False)
    """The text as the file writes it, with references."""
    value: str | None = field(repr=False)
    """The text with the references filled in; `None` if that is not known, because it was encrypted under another
    `SECRET_KEY`, or a reference leads nowhere."""
    missing: str = field(default="", compare=False)
    """Why a reference leads nowhere, as text for people."""


@dataclass(frozen=True, slots=True)
class Spec(Given):
    """A server's address or command."""

    shown: str = ""
    """The address or command as people are shown it, with the secrets hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """How the hub is authorized at a server by OAuth (`domain.credentials.records.OAuthSettings`)."""

    way: str
    issuer: str = ""
    client_id: str = ""
    secret: Given | None = None
    scopes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """A server, and the policies of its tools by the server's own names for them."""

    name: str
    spec: Spec
    by_file: bool = False
    """Whether only the file changes the server and the policies of its tools, and no page."""
    prefix: str = ""
    enabled: bool = True
    shared: bool = False
    own_process: bool = False
    directory: str = ""
    connect_seconds: int | None = None
    calls_at_once: int | None = None
    review: bool = False
    pinned: str = ""
    token: Given | None = None
    headers: Mapping[str, Given] = field(default_factory=dict)
    environment: Mapping[str, Given] = field(default_factory=dict)
    oauth: OAuthConfig | None = None
    tools: Mapping[str, Policy] = field(default_factory=dict)
    """The policies, by the tool's name: those that a file lists; or, of a tenant as it is, those that differ from the
    policy of a new tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonConfig:
    """A person with a role."""

    username: str
    role: str
    groups: tuple[str, ...] = ()
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """A client, without its tokens. `subject` and `client_id` are those in the tokens of a client of another issuer,
    and empty for a client whose tokens the hub issues."""

    name: str
    issuer: str = OWN_ISSUER
    subject: str = ""
    client_id: str = ""
    locked: bool = False
    patience_seconds: int | None = None
    hub_tools: bool | None = None

    @property
    def own(self) -> bool:
        """Whether the hub issues the client's tokens."""
        return self.issuer == OWN_ISSUER

    @property
    def key(self) -> tuple[str, str, str]:
        """The issuer, subject and client id, which identify the client."""
        return (self.issuer, self.name, self.name) if self.own else (self.issuer, self.subject, self.client_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The configuration of a tenant as it is. Servers and people are in the order of their names, clients in that of
    their keys: the same for the same configuration, whatever the collation of the database."""

    rules: tuple[Rule, ...]
    servers: tuple[ServerConfig, ...]
    people: tuple[PersonConfig, ...]
    clients: tuple[ClientConfig, ...]
