"""What a server offers: listed through the SDK, vetted, and handed to the store."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taskhub.core.errors import Unavailable
from taskhub.core.names import MODE_HINT
from taskhub.core.records import TaskMode
from taskhub.lib import jsonx
from taskhub.lifecycle.catalogue import Listed
from taskhub.upstream.connection import Connection, Profile, Target, reason

logger = logging.getLogger(__name__)

MAX_TOOLS = 1_000
MAX_SCHEMA_BYTES = 65_536
_NAME = re.compile(r"^[A-Za-z0-9_.-]{1,128}$")
_LEGACY_MODES = {"required": TaskMode.ALWAYS, "optional": TaskMode.AUTO, "forbidden": TaskMode.NEVER}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at a server."""

    protocol: str
    info: dict[str, Any]
    tools: tuple[Listed, ...]


SNAPSHOT_SECONDS = 60.0
"""Within which a server must have listed its tools."""


class Watcher:
    """Keeps one connection to a server for its catalogue: lists the tools when it connects and
    whenever the server says they changed; tells when it is gone. Runs until cancelled."""

    def __init__(
        self, target: Target, *, on_snapshot: Callable[[Snapshot], Any], on_problem: Callable[[str], Any]
    ) -> None:
        self.target = target
        self.changed = asyncio.Event()
        self._on_snapshot = on_snapshot
        self._on_problem = on_problem
        self._loop: asyncio.AbstractEventLoop | None = None

    def refresh(self) -> None:
        """Look again soon. Safe from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.changed.set)

    async def run(self) -> None:
        """Connect, list, wait for changes; reconnect with a growing pause up to 30 s."""
        self._loop = asyncio.get_running_loop()
        pause = 0.5
        while True:
            connection = Connection(self.target, Profile(sampling=True, roots=True))
            connection.on_tools_changed = self.changed.set
            try:
                await connection.start()
                pause = 0.5
                await self._watch(connection)
            except asyncio.CancelledError:
                raise
            except Unavailable as error:
                self._on_problem(error.message)
            except Exception as error:  # noqa: BLE001 - a server may fail in any way it likes
                self._on_problem(reason(error))
            finally:
                await asyncio.shield(connection.stop())
            self.changed.clear()
            try:
                async with asyncio.timeout(pause):
                    await self.changed.wait()
                pause = 0.5  # somebody asked for a fresh look
            except TimeoutError:
                pause = min(pause * 2, 30.0)

    async def _watch(self, connection: Connection) -> None:
        listening = asyncio.create_task(self._listen(connection)) if connection.modern else None
        try:
            while connection.alive:
                self.changed.clear()
                async with asyncio.timeout(SNAPSHOT_SECONDS):
                    snapshot = await _snapshot(connection)
                self._on_snapshot(snapshot)
                # A server that cannot announce changes is looked at once a minute.
                try:
                    async with asyncio.timeout(60):
                        await self._changed_or_dead(connection)
                except TimeoutError:
                    pass
            self._on_problem("the connection was lost")
        finally:
            if listening is not None:
                listening.cancel()

    async def _changed_or_dead(self, connection: Connection) -> None:
        while connection.alive and not self.changed.is_set():
            try:
                async with asyncio.timeout(2):
                    await self.changed.wait()
            except TimeoutError:
                pass

    async def _listen(self, connection: Connection) -> None:
        """The modern way to hear of changes; a server without it is polled."""
        assert connection.client is not None
        try:
            async with connection.client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    self.changed.set()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - not every server offers it
            logger.info("no change events from %s: %s", self.target.target, reason(error))


async def _snapshot(connection: Connection) -> Snapshot:
    client = connection.client
    assert client is not None
    listed: list[Listed] = []
    cursor = None
    while True:
        page = await client.session.list_tools(params=_page(cursor))
        listed += [vetted(tool.model_dump(by_alias=True, mode="json", exclude_none=True)) for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None or len(listed) >= MAX_TOOLS:
            break
    info = client.server_info
    return Snapshot(
        protocol=client.protocol_version,
        info=info.model_dump(by_alias=True, mode="json", exclude_none=True) if info else {},
        tools=tuple(listed[:MAX_TOOLS]),
    )


def _page(cursor: str | None) -> Any:
    from mcp_types import PaginatedRequestParams

    return PaginatedRequestParams(cursor=cursor)


def vetted(definition: dict[str, Any]) -> Listed:
    """A tool as it will be stored; `rejected` says why clients never see it."""
    definition = jsonx.repaired(definition)
    name = str(definition.get("name", ""))
    meta = definition.get("_meta") or {}
    hint = meta.get(MODE_HINT)
    legacy = (definition.get("execution") or {}).get("taskSupport")
    annotations = definition.get("annotations") or {}
    mode = TaskMode(hint) if hint in list(TaskMode) else _LEGACY_MODES.get(str(legacy))
    read_only = annotations.get("readOnlyHint") is True
    return Listed(
        name=name,
        definition=definition,
        digest=hashlib.sha256(jsonx.canonical(definition)).hexdigest(),
        rejected=_fault(name, definition),
        hint_mode=mode,
        read_only=read_only,
        idempotent=annotations.get("idempotentHint") is True,
    )


def _fault(name: str, definition: dict[str, Any]) -> str:
    schema = definition.get("inputSchema")
    if not _NAME.fullmatch(name):
        return "the name is not 1 to 128 characters of A-Z a-z 0-9 _ . -"
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return 'inputSchema must have "type": "object"'
    if len(jsonx.encode(definition)) > MAX_SCHEMA_BYTES:
        return f"the definition is larger than {MAX_SCHEMA_BYTES} bytes"
    if _depth(definition) > 32:
        return "the definition is nested deeper than 32"
    return ""


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        level = [
            item
            for node in level
            if isinstance(node, (dict, list))
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        depth += 1
        if depth > 64:
            break
    return depth
