"""Lists through the SDK what a server offers, vets it, and watches it for changes."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from pydantic import ValidationError

from taskhub.core.errors import Unavailable
from taskhub.core.names import MODE_HINT
from taskhub.core.records import OfferKind, TaskMode
from taskhub.domain.catalogue.offers import ListedOffer
from taskhub.domain.catalogue.sync import TOOL, Listed
from taskhub.domain.credentials.records import NeedsAuthorization
from taskhub.lib import jsonx
from taskhub.upstream.connection import Connection
from taskhub.upstream.failures import gone, innermost
from taskhub.upstream.follow import Follower, covering
from taskhub.upstream.offers import DECLARED_BY, Verbatim, depth_of, list_offers
from taskhub.upstream.pool import ABLE, Pool
from taskhub.upstream.refusals import Unauthorized, refusal
from taskhub.upstream.session_tasks import only_as_tasks
from taskhub.upstream.sieve import UNFIT

MAX_TOOLS = 1_000
MAX_SCHEMA_BYTES = 65_536
MAX_REJECTED_NAME = 94
"""The most characters of the name of a rejected tool: with its server's name in front it still fits the column."""

_NAME = re.compile(r"^[A-Za-z0-9_.-]{1,128}$")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The result of listing a server. `unread`: the lists that the server declares but that could not be read, each
    with the reason."""

    protocol: str
    info: dict[str, Any]
    tools: tuple[Listed, ...]
    era: str = ""
    """How the server was spoken to (`core.versions.Era`)."""
    offers: tuple[ListedOffer, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=dict)
    scopes: str = ""
    """The scopes that the server requires for lists that it refused."""


SNAPSHOT_SECONDS = 60.0
"""The longest that one listing of a server may take."""

LOOK_SECONDS = 0.2
"""The fewest seconds between two listings, because a server may announce changes faster than it can be listed."""

FIRST_PAUSE = 0.5
"""Seconds before a lost server is tried again; then twice as long each time, up to `LONGEST_PAUSE`."""

LONGEST_PAUSE = 30.0


class Watcher:
    """Watches one server, until cancelled: lists it when it is connected and whenever it announces a change on any
    connection, reports when it cannot be reached or has to be authorized, and follows resources.

    A command is listed through the process that clients share, or else through one that belongs to no client (which
    reads may use too), because a client's process may list tools for that client alone. For any other server the
    watcher has a connection of its own.

    The `on_*` functions are called in the server's event loop. `on_unauthorized` gets the problem and the scopes that
    the server requires, if it names them.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        on_snapshot: Callable[[Snapshot], Any],
        on_problem: Callable[[str], Any],
        on_unauthorized: Callable[[str, str], Any] | None = None,
        on_followed: Callable[[frozenset[str]], Any] = lambda uris: None,
        on_updated: Callable[[frozenset[str]], Any] = lambda uris: None,
    ) -> None:
        self.changed = asyncio.Event()
        self._pool = pool
        self._on_snapshot = on_snapshot
        self._on_problem = on_problem
        self._on_unauthorized = on_unauthorized or (lambda problem, scopes: on_problem(problem))
        self._on_followed = on_followed
        self._on_updated = on_updated
        self.following: frozenset[str] = frozenset()
        """The uris of the resources whose changes the server has agreed to announce on the present connection."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wanted: frozenset[str] = frozenset()
        self._followed: set[str] = set()
        """The wanted resources that the server has agreed to announce on this connection or an earlier one."""
        self._follower: Follower | None = None
        self._pause = FIRST_PAUSE
        self._anew = False
        """Whether to make a new connection, on which the server is asked again which eras it speaks."""

    def refresh(self) -> None:
        """List the server again soon. Does nothing before `run` has begun. Thread-safe."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.changed.set)

    def ask_anew(self) -> None:
        """Find out again which eras the server speaks, on a new connection, and list it. A running process of a command
        is not ended for that, because it may hold state; the next process is asked. Thread-safe."""

        def forget() -> None:
            self._pool.eras.forget()
            self._anew = self._pool.target.transport != "stdio"
            self.changed.set()

        if self._loop is not None:
            self._loop.call_soon_threadsafe(forget)

    def follow(self, uris: frozenset[str]) -> None:
        """Follow the changes of exactly these resources. A further call asks the server again for those that it has not
        agreed to announce. Thread-safe."""
        if self._loop is None:
            self._wanted = uris
        elif uris != self._wanted or not uris <= self.following:
            self._loop.call_soon_threadsafe(self._follow, uris)

    def _follow(self, uris: frozenset[str]) -> None:
        self._wanted = uris
        self._followed &= uris
        self.following &= uris
        if self._follower is not None:
            self._follower.look_again()

    async def run(self) -> None:
        """Connect, list, and wait for changes, for ever. After a failure, try again after a pause, which grows up to
        `LONGEST_PAUSE`."""
        self._loop = asyncio.get_running_loop()
        self._pool.on_lists_changed = self.changed.set
        self._pool.on_updated = self._updated
        while True:
            try:
                async with AsyncExitStack() as stack:
                    command = self._pool.target.transport == "stdio"
                    own = None if command else await stack.enter_async_context(self._own())
                    await self._watch(own)
            except asyncio.CancelledError:
                raise
            except (NeedsAuthorization, Unauthorized) as error:
                self._on_unauthorized(error.message, error.scopes)
            except Unavailable as error:
                self._on_problem(error.message)
            except Exception as error:  # noqa: BLE001 - a server may fail in any way it likes
                problem, refused = self._pool.target.reason(error), refusal(innermost(error))
                if refused is not None and refused.unauthorized:
                    self._on_unauthorized(problem, refused.scopes)
                else:
                    self._on_problem(problem)
            self.changed.clear()
            try:
                async with asyncio.timeout(self._pause):
                    await self.changed.wait()
                self._pause = FIRST_PAUSE  # `refresh` asked for a listing
            except TimeoutError:
                self._pause = min(self._pause * 2, LONGEST_PAUSE)

    @asynccontextmanager
    async def _own(self) -> AsyncIterator[Connection]:
        """A connection that only the watcher uses."""
        connection = Connection(self._pool.target, ABLE, self._pool.eras, calls=False)
        connection.on_lists_changed = self.changed.set
        connection.on_updated = self._updated
        try:
            await connection.start()
            self._pool.note(connection)
            yield connection
        finally:
            await asyncio.shield(connection.stop())

    @asynccontextmanager
    async def _turn(self, own: Connection | None) -> AsyncIterator[Connection]:
        """The connection to list through: `own`, or one of the pool."""
        if own is not None:
            yield own
            return
        async with self._pool.look(ABLE) as connection:
            yield connection

    async def _watch(self, own: Connection | None) -> None:
        """List and follow until the connection ends, or the pool lends another one."""
        watched: Connection | None = None
        following: asyncio.Task[None] | None = None
        lost = set(self._followed)
        try:
            while watched is None or watched.alive:
                self.changed.clear()
                if self._anew:
                    self._anew = False
                    return
                async with self._turn(own) as connection:
                    if watched is None:
                        watched = connection
                        following = self._follow_on(connection)
                    elif connection is not watched:
                        break
                    snapshot = await self._snapshot(connection)
                if snapshot is None:
                    continue
                if self._pool.target.transport == "http" and watched.modern:
                    self._pool.mirrored = mirrored(snapshot)
                self._pool.outputs = outputs(snapshot.tools)
                tools = {tool.name: tool.definition for tool in snapshot.tools if not tool.rejected}
                self._pool.only_as_tasks = only_as_tasks(snapshot.protocol, snapshot.capabilities, tools)
                self._on_snapshot(snapshot)
                self._pause = FIRST_PAUSE  # not before: a server may accept a connection, and end when it is listed
                if lost:
                    # Without a connection no changes were announced, so any of these resources may have changed.
                    self._on_updated(frozenset(lost))
                    lost.clear()
                await asyncio.sleep(LOOK_SECONDS)
                # A server that cannot announce changes is listed once a minute.
                try:
                    async with asyncio.timeout(60):
                        await self._changed_or_dead(watched)
                except TimeoutError:
                    pass
            if not watched.dismissed:  # dismissed: closed by this worker, as after a cancelled call
                self._on_problem("the connection was lost")
        finally:
            self._follower = None
            self.following = frozenset()
            if following is not None:
                following.cancel()

    async def _snapshot(self, connection: Connection) -> Snapshot | None:
        """List the server. If that takes too long, returns `None` while a call is running, so that it is tried again,
        and raises `TimeoutError` otherwise."""
        try:
            async with asyncio.timeout(SNAPSHOT_SECONDS):
                return await take_snapshot(connection)
        except TimeoutError:
            if connection.calls:
                return None
            raise

    def _follow_on(self, connection: Connection) -> asyncio.Task[None]:
        self._follower = Follower(
            connection, wanted=lambda: self._wanted, on_followed=self._agreed, on_missed=self._missed
        )
        return asyncio.create_task(self._follower.run())

    async def _changed_or_dead(self, connection: Connection) -> None:
        while connection.alive and not self.changed.is_set():
            try:
                async with asyncio.timeout(2):
                    await self.changed.wait()
            except TimeoutError:
                pass

    def _agreed(self, uris: frozenset[str]) -> None:
        self._followed |= uris
        self.following = (self.following | uris) & self._wanted
        self._on_followed(uris)

    def _updated(self, uri: str) -> None:
        found = covering(uri, self._wanted)
        if found:
            self._on_updated(frozenset(found))

    def _missed(self) -> None:
        """List again, and report all followed resources as changed: announcements may have been missed."""
        self.changed.set()
        if self._followed:
            self._on_updated(frozenset(self._followed))


async def take_snapshot(connection: Connection) -> Snapshot:
    """List everything that the server offers, all pages. A list that fails is noted in `unread`. Raises if the
    connection ends."""
    client = connection.client
    assert client is not None
    capabilities = client.server_capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)
    offers: list[ListedOffer] = []
    tools: tuple[Listed, ...] = ()
    unread: dict[str, str] = {}
    scopes: list[str] = []
    for kind, capability in DECLARED_BY.items():
        if capability in capabilities:
            try:
                offers += await list_offers(client.session, kind)
            except (MCPError, ValidationError) as error:
                # Not noted: many servers with resources do not know `resources/templates/list`.
                if not (kind is OfferKind.TEMPLATE and isinstance(error, MCPError)):
                    unread[kind] = connection.target.reason(error)
                scopes.append(scopes_of(error))
    try:
        tools = await list_tools(client.session, declared="tools" in capabilities, modern=connection.modern)
    except (MCPError, ValidationError) as error:
        if gone(error):
            raise
        unread[TOOL] = connection.target.reason(error)
        scopes.append(scopes_of(error))
    info = client.server_info
    return Snapshot(
        protocol=client.protocol_version,
        info=info.model_dump(by_alias=True, mode="json", exclude_none=True) if info else {},
        tools=tools,
        era=connection.era or "",
        offers=tuple(offers),
        unread=unread,
        capabilities=jsonx.repaired(capabilities),
        scopes=" ".join(dict.fromkeys(" ".join(scopes).split())),
    )


def scopes_of(error: Exception) -> str:
    """The scopes that the server requires for a list that it refused; empty if it names none."""
    refused = refusal(error)
    return "" if refused is None else refused.scopes


def mirrored(snapshot: Snapshot) -> frozenset[tuple[str, str]]:
    """The tools whose arguments are repeated in headers (B26-26), as pairs of name and digest."""
    return frozenset(
        (tool.name, tool.digest)
        for tool in snapshot.tools
        if not tool.rejected and x_mcp_header_map(tool.definition["inputSchema"])
    )


def outputs(tools: Iterable[Listed]) -> dict[str, Any]:
    """The tools' output schemas by name, `None` for a tool without one."""
    return {tool.name: tool.definition.get("outputSchema") for tool in tools if not tool.rejected}


async def list_tools(session: ClientSession, *, declared: bool, modern: bool) -> tuple[Listed, ...]:
    """All tools of the server, vetted. Empty if the server refuses the list and has not `declared` tools."""
    found: dict[str, Listed] = {}
    read, cursor = 0, None
    while True:
        request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
        try:
            page = (await session.send_request(request, Verbatim)).root
        except MCPError:
            if declared:
                raise
            return ()  # the server has prompts or resources only
        fit = [(definition, "") for definition in page["tools"]]
        for definition, unfit in [*fit, *page.get(UNFIT, ())][: MAX_TOOLS - read]:
            _add(found, vetted(definition, modern=modern, unfit=unfit))
            read += 1
        cursor = page.get("nextCursor")
        if cursor is None or read >= MAX_TOOLS:
            return tuple(found.values())


def _add(found: dict[str, Listed], tool: Listed) -> None:
    """Add a tool. If a different tool of the same name was listed before, the second is rejected, because a call could
    not tell them apart."""
    first = found.setdefault(tool.name, tool)
    if first.digest != tool.digest:
        again = replace(tool, name=_shortened(tool.name, tool.digest), rejected="another tool has this name")
        found.setdefault(again.name, again)


def vetted(definition: Any, *, modern: bool = False, unfit: str = "") -> Listed:
    """A tool's record for the database. If the tool is rejected, clients never see it, and the field `rejected` says
    why. `unfit`: why the SDK would refuse `definition`; empty if it would not. A tool of a `modern` server is rejected
    if its annotations for headers are invalid (B26-25); older servers do not use them."""
    definition = jsonx.repaired(definition) if isinstance(definition, dict) else {}
    name = str(definition.get("name", ""))
    hint = _member(definition, "_meta").get(MODE_HINT)
    annotations = _member(definition, "annotations")
    # Not `execution.taskSupport`: that says whether the server can run the hub's call as a task of its own.
    mode = TaskMode(hint) if hint in list(TaskMode) else None
    digest = hashlib.sha256(jsonx.canonical(definition)).hexdigest()
    rejected = _fault(name, definition) or unfit or (_header_fault(definition) if modern else "")
    return Listed(
        name=_shortened(name, digest) if rejected and len(name) > MAX_REJECTED_NAME else name,
        definition=definition,
        digest=digest,
        rejected=rejected,
        hint_mode=mode,
        read_only=annotations.get("readOnlyHint") is True,
        idempotent=annotations.get("idempotentHint") is True,
    )


def _member(definition: dict[str, Any], name: str) -> dict[str, Any]:
    found = definition.get(name)
    return found if isinstance(found, dict) else {}


def _shortened(name: str, digest: str) -> str:
    """The name of a rejected tool: it fits the column, and no valid tool can have it."""
    return f"{name[: MAX_REJECTED_NAME - 18]}… {digest[:16]}"


def _fault(name: str, definition: dict[str, Any]) -> str:
    schema = definition.get("inputSchema")
    if not _NAME.fullmatch(name):
        return "the name is not 1 to 128 characters of A-Z a-z 0-9 _ . -"
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return 'inputSchema must have "type": "object"'
    if len(jsonx.encode(definition)) > MAX_SCHEMA_BYTES:
        return f"the definition is larger than {MAX_SCHEMA_BYTES} bytes"
    if depth_of(definition) > 32:
        return "the definition is nested deeper than 32"
    return ""


def _header_fault(definition: dict[str, Any]) -> str:
    problem = find_invalid_x_mcp_header(definition["inputSchema"])
    return f"x-mcp-header: {problem}" if problem else ""
