"""The connections to servers, as running calls need them: those of a worker (`worker.servers`), or of a web process
that runs calls in place (`worker.in_place`)."""

from __future__ import annotations

from typing import Protocol

from taskhub.upstream.pool import Pool
from taskhub.worker.granted import Grants


class Pools(Protocol):
    """The connections of one process. `worker.servers.Servers` says more about each."""

    grants: Grants

    def pool(self, server_id: int) -> Pool | None:
        """The server's pool; `None` while there is none."""

    async def pool_for(self, server_id: int, context_id: int, *, refused: str = "") -> Pool | None:
        """The pool for a call of this client."""

    def look_again(self, server_id: int) -> None:
        """List the server again soon."""

    def held(self) -> list[int]:
        """The ids of the servers that can be called."""

    def narrow(self, size: int) -> dict[int, int]:
        """The servers that take fewer than `size` calls at once, each with its limit."""
