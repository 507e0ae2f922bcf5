"""Calls to servers that want OAuth. If needed, the caller's grant is refreshed first. The call is then sent with the
grant's token, over a connection that no other grant uses."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from taskhub.core.errors import Unavailable
from taskhub.domain.credentials import grants
from taskhub.domain.credentials.records import Access, Busy, Due, Gone, Way
from taskhub.lib.lanes import Lanes
from taskhub.upstream.bearer import Bearer
from taskhub.upstream.pool import Pool

IDLE_SECONDS: Final = 600.0
"""Seconds after its last call at which the connections of a grant are closed."""
MOST_POOLS: Final = 200
"""The most grants whose connections one worker keeps; beyond that, those that were used least recently are closed."""
CHANGED: Final = "The way in which its server is authorized was changed meanwhile"
LEFT_SECONDS: Final = 5.0
"""A token in memory that is valid for fewer seconds is looked up again."""


@dataclass(slots=True)
class _Held:
    server_id: int
    pool: Pool
    used_at: float


class Grants:
    """The tokens and connections of grants, for one worker. Only for its event loop."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._held: dict[int, _Held] = {}
        """The connections of the grants of single people or clients, by grant id."""
        self._busy: Counter[Pool] = Counter()
        self._refreshing: set[asyncio.Task[Access]] = set()

    def bearer(self, server_id: int) -> Bearer:
        """The token of the grant for everyone. If each caller has a grant of their own, the token of the grant for
        lists."""
        return Bearer(
            lambda refused: self.access(server_id, None, refused),
            _fresh,
            lambda token: self._refuse(server_id, None, token),
        )

    def _of_grant(self, grant_id: int, server_id: int, context_id: int) -> Bearer:
        """The token of this grant, for calls of this client. Getting a token raises `Unavailable` if the client has got
        another grant since."""

        async def get(refused: str) -> Access:
            found = await self.access(server_id, context_id, refused)
            if found.grant_id != grant_id:
                raise Unavailable(CHANGED)
            return found

        return Bearer(get, _fresh, lambda token: self._refuse(server_id, context_id, token))

    async def _refuse(self, server_id: int, context_id: int | None, token: str) -> None:
        needs = await self._lanes.run(grants.refuse, server_id, context_id, token)
        if needs is not None:
            raise needs

    async def access(self, server_id: int, context_id: int | None, refused: str = "") -> Access:
        """A valid token other than `refused`. Raises `NeedsAuthorization` or `Unavailable`. A refresh that has begun is
        completed even if the caller is cancelled, so that issued tokens are not lost."""
        deadline = time.monotonic() + grants.TURN_SECONDS
        while True:
            try:
                found = await self._lanes.run(grants.look, server_id, context_id, refused=refused)
            except Busy:
                if time.monotonic() > deadline:
                    raise Unavailable("Another process does not get on with refreshing its authorization") from None
                await asyncio.sleep(grants.LOOK_SECONDS)
                continue
            if isinstance(found, Access):
                return found
            task = asyncio.create_task(self._refresh(found))
            self._refreshing.add(task)
            task.add_done_callback(self._refreshed)
            return await asyncio.shield(task)

    async def pool(self, main: Pool, way: Way, server_id: int, context_id: int, *, refused: str = "") -> Pool:
        """The connections for a call of this client, with a valid token: those of the caller's own grant, if people or
        clients have grants of their own at this server, and otherwise `main`. Raises as `access` does."""
        access = await self.access(server_id, context_id, refused)
        if way is not Way.EACH:
            bearer = main.target.bearer
            assert bearer is not None
            if bearer.access is not None and bearer.access.grant_id != access.grant_id:
                await main.close_idle()  # they were opened under another grant
            bearer.use(access)
            return main
        if not access.grant_id:
            raise Unavailable(CHANGED)
        held = self._held.get(access.grant_id)
        if held is None or held.pool.closed:
            target = replace(main.target, bearer=self._of_grant(access.grant_id, server_id, context_id))
            held = self._held[access.grant_id] = _Held(server_id, main.alike(target), 0.0)
        held.used_at = time.monotonic()
        held.pool.take_over(main)
        if held.pool.most != main.most:
            held.pool.resize(main.most)
        assert held.pool.target.bearer is not None
        held.pool.target.bearer.use(access)
        return held.pool

    @contextmanager
    def using(self, pool: Pool) -> Iterator[None]:
        """While the block runs, `prune` does not close the connections of `pool`."""
        self._busy[pool] += 1
        try:
            yield
        finally:
            self._busy[pool] -= 1
            if not self._busy[pool]:
                del self._busy[pool]

    async def prune(self) -> None:
        """Close the connections of grants that are deleted or lapsed, or that no call has used for `IDLE_SECONDS`."""
        if not self._held:
            return
        there = await self._lanes.run(grants.still_there, list(self._held))
        since = time.monotonic() - IDLE_SECONDS
        kept = sorted(self._held, key=lambda grant: self._held[grant].used_at, reverse=True)[:MOST_POOLS]
        for grant_id, held in list(self._held.items()):
            if held.pool in self._busy:
                continue
            if grant_id not in there or grant_id not in kept or held.used_at < since:
                del self._held[grant_id]
                await held.pool.close()

    async def drop(self, server_id: int) -> None:
        """Close the connections of all grants of a server."""
        for grant_id, held in list(self._held.items()):
            if held.server_id == server_id:
                del self._held[grant_id]
                await held.pool.close()

    async def close(self) -> None:
        """Close all connections, and wait for refreshes under way."""
        held, self._held = list(self._held.values()), {}
        await asyncio.gather(*(each.pool.close() for each in held), return_exceptions=True)
        if self._refreshing:
            await asyncio.wait(set(self._refreshing), timeout=5.0)

    async def _refresh(self, due: Due) -> Access:
        exchanged = await asyncio.to_thread(grants.exchange, due)
        try:
            return await self._lanes.run(grants.settle, due, exchanged)
        except Gone:
            await asyncio.to_thread(grants.drop, due, exchanged)
            raise

    def _refreshed(self, task: asyncio.Task[Access]) -> None:
        self._refreshing.discard(task)
        if not task.cancelled():
            task.exception()  # read it, or asyncio logs that it was never retrieved


def _fresh(access: Access) -> bool:
    return access.expires_at is None or access.expires_at - datetime.now(UTC) > timedelta(seconds=LEFT_SECONDS)
