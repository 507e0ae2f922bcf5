"""The access token of an OAuth grant. It may change during a connection, so each request gets the present token."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import httpx2

from taskhub.core.errors import TaskHubError
from taskhub.domain.credentials.records import Access, NeedsAuthorization

KNOWN: Final = 4
"""How many of the latest tokens are removed from texts of the server."""
RENEW_SECONDS: Final = 60.0
"""The fewest seconds between two refreshes while the server refuses tokens."""
LOOK_SECONDS: Final = 60.0
"""Seconds for which a token is sent before its grant is read again, because the grant may have been revoked."""


class Bearer:
    """The token for the requests of one pool. Only for the event loop of the pool."""

    def __init__(
        self,
        get: Callable[[str], Awaitable[Access]],
        fresh: Callable[[Access], bool],
        refuse: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`get` gets the token that the server refused, empty if there is none, and returns another, valid token.
        `fresh` says whether a token is still valid. `refuse` is called with a new token that the server refuses; it
        marks the grant and raises `NeedsAuthorization`."""
        self._get = get
        self._fresh = fresh
        self._refuse = refuse
        self._untried = ""
        """A token that replaced a refused one, until the server accepts it; empty if there is none."""
        self._renewed_at = -RENEW_SECONDS
        self._looked_at = -LOOK_SECONDS
        self.access: Access | None = None
        self.known: list[str] = []
        self.refused = ""
        """The token that the server refused last."""

    def use(self, access: Access) -> None:
        """Send this token from now on."""
        self.access, self._looked_at = access, time.monotonic()
        if access.token and access.token not in self.known:
            self.known = [*self.known, access.token][-KNOWN:]

    def forget(self) -> None:
        """Look at the grant again before the next request, because it may have changed."""
        self._looked_at = -LOOK_SECONDS

    async def ready(self) -> None:
        """Get a valid token, unless the present one is valid and the server has not refused it. Raises
        `NeedsAuthorization` or `Unavailable`."""
        token = "" if self.access is None else self.access.token
        refused = token if token and token == self.refused else ""
        looked = time.monotonic() - self._looked_at < LOOK_SECONDS
        if self.access is not None and self._fresh(self.access) and looked and not refused:
            return
        try:
            if refused and refused == self._untried and self._refuse is not None:
                await self._refuse(refused)
            if refused and time.monotonic() - self._renewed_at < RENEW_SECONDS:
                refused = ""  # refreshed a moment ago: the server may refuse some requests with any token
            elif refused:
                self._renewed_at = time.monotonic()
            access = await self._get(refused)
            self.use(access)
            if refused:
                self._untried = access.token
        except NeedsAuthorization:
            self.access = None  # not sent any more, even if the server would accept it
            raise

    def signs(self, url: str) -> Callable[[httpx2.Request], Awaitable[None]]:
        """A request hook of httpx2, which puts the token, if there is one, into each request to the origin of `url`."""
        server = httpx2.URL(url)

        async def sign(request: httpx2.Request) -> None:
            if not _same_origin(server, request.url):
                return
            with suppress(TaskHubError):
                await self.ready()
            if self.access is not None and self.access.token:
                request.headers["Authorization"] = f"Bearer {self.access.token}"

        return sign

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The header with the present token, for requests that are made without httpx2; none if there is no token."""
        token = "" if self.access is None else self.access.token
        return [(b"authorization", f"Bearer {token}".encode())] if token else []

    async def look(self, response: httpx2.Response) -> None:
        """A response hook of httpx2, which notes a refused token."""
        sent = response.request.headers.get("Authorization", "").removeprefix("Bearer ")
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            self.refused = sent
            if not self.refused:
                self.forget()
        elif response.is_success and sent == self._untried:
            self._untried = ""


def _same_origin(server: httpx2.URL, asked: httpx2.URL) -> bool:
    """Whether both addresses have the same origin, or `asked` has https instead of http. The SDK follows a redirect to
    https."""
    if (server.scheme, server.host, server.port) == (asked.scheme, asked.host, asked.port):
        return True
    upgraded = (server.scheme, server.port, asked.scheme, asked.port) == ("http", None, "https", None)
    return upgraded and server.host == asked.host


def fixed(access: Access) -> Bearer:
    """A bearer that always sends this token and never refreshes it, for short use."""

    async def get(refused: str) -> Access:
        return access

    made = Bearer(get, lambda _: True)
    made.use(access)
    return made


class Secrets(Collection[str]):
    """The secrets of a server, including the present tokens of its grant."""

    def __init__(self, fixed: frozenset[str], bearer: Bearer) -> None:
        self._fixed = fixed
        self._bearer = bearer

    def __iter__(self) -> Iterator[str]:
        yield from self._fixed
        yield from self._bearer.known

    def __len__(self) -> int:
        return len(self._fixed) + len(self._bearer.known)

    def __contains__(self, item: object) -> bool:
        return item in self._fixed or item in self._bearer.known
