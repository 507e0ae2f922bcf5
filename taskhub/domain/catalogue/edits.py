"""What a person may change about a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from taskhub.domain.catalogue.given import Pairs
from taskhub.domain.catalogue.reads import ServerRow

MAX_REASON: Final = 200
"""Characters of the reason why a server is disabled."""


@dataclass(frozen=True, slots=True)
class ServerEdit:
    """What is to change about a server; `None` leaves it as it is.

    `spec` may be the one that people are shown, with hidden secrets: then the address or command stays. `calls_at_once`
    and `connect_seconds` are 0 for the default, `token` and `pinned` are empty for none. `headers` and `environment`
    are all that the server is to have; those that are left out are removed. `shared`: whether clients share its
    processes or sessions. `own_process`: whether a `python:` server runs in a process of its own.
    With `review` its new and changed tools wait for a person. `by_file`: whether pages leave it to a file of
    configuration.
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
        """What this edit takes from the server without naming it, as text for people. A token, headers and variables
        are for one address or command, so they go when that changes, unless the edit gives them anew."""
        found = ["its token"] if self.token is None and before.has_token and not after.has_token else []
        if before.oauth and not after.oauth:
            found.append("its authorization by OAuth")
        if self.headers is None:
            found += [f"header {name}" for name in before.header_names if name not in after.header_names]
        if self.environment is None:
            found += [f"variable {name}" for name in before.variable_names if name not in after.variable_names]
        return tuple(found)
