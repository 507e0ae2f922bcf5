"""What a person may change about a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from taskhub.domain.catalogue.given import Pairs
from taskhub.domain.catalogue.reads import ServerRow

MAX_REASON: Final = 200
"""The most characters of the reason why a server is disabled."""


@dataclass(frozen=True, slots=True)
class ServerEdit:
    """Changes to a server. A field that is `None` stays as it is.

    `spec` may be the spec that people are shown, with secrets hidden: then the address or command stays.
    `calls_at_once` and `connect_seconds` are 0 for the default, `token` and `pinned` are empty for none. `headers` and
    `environment` replace all headers and variables. `shared`: whether clients share the server's processes or sessions.
    `own_process`: whether a `python:` server runs in a process of its own. `review`: whether its new and changed tools
    wait for a person. `by_file`: whether only a file of configuration changes it, and no page.
    """

    spec: str | None = None
    prefix: str | None = None
    calls_at_once: int | None = None
    connect_seconds: int | None = None
    shared: bool | None = None
    own_process: bool | None = None
    directory: str | None = None
    review: bool | None = None
    by_file: bool | None = None
    headers: Pairs | None = field(default=None, repr=False)
    environment: Pairs | None = field(default=None, repr=False)
    pinned: str | None = None
    token: str | None = field(default=None, repr=False)

    def dropped(self, before: ServerRow, after: ServerRow) -> tuple[str, ...]:
        """What the server loses by this edit although the edit does not name it, as text for people. A token, headers
        and variables are for one address or command, so they are dropped when that changes, unless the edit gives them
        again."""
        found = ["its token"] if self.token is None and before.has_token and not after.has_token else []
        if before.oauth and not after.oauth:
            found.append("its authorization by OAuth")
        if self.headers is None:
            found += [f"header {name}" for name in before.header_names if name not in after.header_names]
        if self.environment is None:
            found += [f"variable {name}" for name in before.variable_names if name not in after.variable_names]
        return tuple(found)
