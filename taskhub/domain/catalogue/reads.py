"""Servers and their tools as the console shows them, and the decryption of servers' secrets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db.models import Count, F, Q

from taskhub.core.names import NameRule, refusing_apis, why_named_so
from taskhub.core.policy import Policy, mark_of, values_of
from taskhub.core.secrets import given_secrets, without_secrets, without_values
from taskhub.core.transports import CALLS_AT_ONCE, CONNECT_SECONDS
from taskhub.core.versions import BEGUN_BY, Era
from taskhub.lib.signing import InvalidToken, Vault
from taskhub.lib.signs import visible_json
from taskhub.store.models import Membership, Server, Tool

ENUM_SHOWN: Final = 20
"""How many values of an enum the page of a tool names; the others it only counts."""
LOST: Final = "Its token was encrypted with another SECRET_KEY and cannot be read: set it again on the server's page."
LOST_GIVEN: Final = (
    "A value of its headers or variables was encrypted with another SECRET_KEY and cannot be read: set it again on the"
    " server's page."
)
LOST_TARGET: Final = (
    "A secret in its command or address was encrypted with another SECRET_KEY and cannot be read: give the whole of it"
    " again, by `manage.py server set NAME=SPEC`, or as a server of another name."
)
MAX_SCHEMA_ROWS = 200


@dataclass(frozen=True, slots=True)
class ServerRow:
    """A server, without its secrets."""

    id: int
    name: str
    transport: str
    target: str
    prefix: str
    review: bool
    """Whether the server's new and changed tools wait for a person."""
    by_file: bool
    """Whether only a file of configuration changes the server and the policies of its tools, and no page."""
    enabled: bool
    disabled_reason: str
    state: str
    problem: str
    protocol: str
    info: dict[str, Any]
    catalogue_at: datetime | None
    last_seen_at: datetime | None
    created_at: datetime
    tools: int
    """How many tools the server offers to clients."""
    rejected: int
    waiting: int
    """How many new and changed tools wait for a person."""
    has_token: bool
    token_lost: bool
    """Whether the server's token cannot be decrypted with the `SECRET_KEY` of this process."""
    header_names: tuple[str, ...]
    """The names of the headers for every request to the server; their values are secrets."""
    variable_names: tuple[str, ...]
    """The names of the variables that a command is given; their values are secrets."""
    directory: str
    own_process: bool
    """Whether a `python:` server runs in a process of its own."""
    connect_seconds: int
    connect_said: bool
    """Whether `connect_seconds` was set for this server, and is not the default."""
    calls_at_once: int
    """The most calls at once from one worker."""
    calls_said: bool
    """Whether `calls_at_once` was set for this server, and is not the default of the transport."""
    shared: bool
    """Whether clients share the server's processes or sessions."""
    pinned: str
    """The version of the protocol that the server is pinned to; empty for the newest that it speaks."""
    era: str
    """The era in which the server was spoken to last (`core.versions.Era`); empty if that has to be found out."""
    incomplete: str
    """Which lists of the server could not be read, and why; empty if all could."""
    failures: int
    """How many calls in a row could not connect."""
    open_since: datetime | None
    """Since when the server's breaker is open (`domain.catalogue.breakers`); `None` if it is closed."""
    retry_at: datetime | None
    probe_until: datetime | None
    oauth: str = ""
    """How the hub is authorized at the server by OAuth (`domain.credentials.records.Way`); empty if it is not."""

    @property
    def spec(self) -> str:
        """The server's spec without its secrets."""
        return spec_of(self.transport, self.target)

    @property
    def has_processes(self) -> bool:
        """Whether workers start processes for the server."""
        return self.own_process or self.transport == "stdio"

    @property
    def trouble(self) -> str:
        """Why the server cannot be used: its problem, if it is unreachable or has to be authorized; otherwise empty."""
        return self.problem if self.shown_state in ("unreachable", "unauthorized") else ""

    @property
    def shown_state(self) -> str:
        """The last known state of the server; `disabled` if it is disabled, whatever its state."""
        return self.state if self.enabled else "disabled"

    @property
    def authorized_at(self) -> str:
        """The place on the server's page where an admin authorizes it: the card of OAuth, or the form that sets what is
        missing."""
        if self.oauth in ("shared", "each"):
            return "#oauth"
        return "?token#token-form" if self.has_token else "?oauth#oauth-form"

    @property
    def breaker(self) -> str:
        """The state of the breaker: `closed`, `open`, or `half-open` while one call may try the server."""
        if self.retry_at is None:
            return "closed"
        now = datetime.now(UTC)
        trying = self.probe_until is not None and self.probe_until > now
        return "half-open" if trying or self.retry_at <= now else "open"

    @property
    def spoken(self) -> str:
        """The version of the protocol that the server spoke last, and how it was agreed on, as text for people."""
        return f"{self.protocol}, by {BEGUN_BY[Era(self.era)]}" if self.protocol and self.era else self.protocol

    @property
    def about(self) -> str:
        """The name and version that the server reported."""
        words = [str(self.info.get(part, "")) for part in ("name", "version")]
        return " ".join(word for word in words if word)[:120]


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of an input schema. A nested argument has a name with dots. `limits`: the rest of its schema as
    text."""

    name: str
    type: str
    required: bool
    description: str
    limits: str


@dataclass(frozen=True, slots=True)
class ToolRow(Policy):
    """A tool with its policy."""

    id: int
    server_id: int
    name: str
    exposed_name: str
    renamed: str
    """Why clients see the tool under another name than the server's own; empty if they see that name."""
    definition: dict[str, Any]
    digest: str
    rejected: str
    hint_mode: str | None
    read_only: bool
    idempotent: bool
    first_seen_at: datetime
    changed_at: datetime
    gone_at: datetime | None
    confirmed_digest: str
    """The digest of the definition that was confirmed last; empty if none was."""
    confirmed_at: datetime | None
    confirmed_by: str
    review: bool
    """Whether new and changed tools of the tool's server wait for a person."""

    @property
    def news(self) -> str:
        """As `news_of`."""
        return news_of(self)

    @property
    def waits(self) -> bool:
        """Whether the tool is not offered because it waits for a person."""
        return self.review and self.news in ("new", "changed")

    @property
    def title(self) -> str:
        """The title in the tool's definition; empty if it has none."""
        annotations = self.definition.get("annotations")
        named = annotations.get("title") if isinstance(annotations, dict) else None
        return str(self.definition.get("title") or named or "")

    @property
    def description(self) -> str:
        """The description in the tool's definition; empty if it has none."""
        return str(self.definition.get("description") or "")

    @property
    def mode(self) -> str:
        """The mode in force: that of the policy; if it has none, the mode that the tool's definition asks for;
        otherwise `auto`."""
        return self.mode_for(self.hint_mode)

    @property
    def repeatable(self) -> bool:
        """Whether a call of the tool is run again if its worker was lost."""
        return self.repeats(harmless=self.read_only or self.idempotent)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments in the input schema, at most `MAX_SCHEMA_ROWS`."""
        schema = self.definition.get("inputSchema")
        return tuple(_lines(schema))[:MAX_SCHEMA_ROWS] if isinstance(schema, dict) else ()

    @property
    def argument_types(self) -> dict[str, str]:
        """The JSON type of each top-level argument, by name. The type is empty if the schema does not name one."""
        schema = self.definition.get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        if not isinstance(properties, dict):
            return {}
        return {
            str(name): str(rule.get("type", "")) if isinstance(rule, dict) else "" for name, rule in properties.items()
        }

    @property
    def annotations(self) -> tuple[tuple[str, str], ...]:
        """The tool's annotations, such as `readOnlyHint`, as pairs of name and JSON text; at most 20."""
        found = self.definition.get("annotations")
        if not isinstance(found, dict):
            return ()
        return tuple((str(name), json.dumps(value, ensure_ascii=False)) for name, value in found.items())[:20]

    @property
    def raw(self) -> str:
        """The definition as the server sent it, indented."""
        return visible_json(self.definition)

    @property
    def refused_by(self) -> tuple[NameRule, ...]:
        """The rules of the model APIs that refuse the exposed name."""
        return refusing_apis(self.exposed_name)

    @property
    def refused_for(self) -> str:
        """Text for a list: for which model APIs the tool cannot be used because they refuse its name; empty if none
        does."""
        apis = ", ".join(rule.api for rule in self.refused_by)
        return f"Not for {apis}" if apis else ""

    @property
    def seen(self) -> str:
        """The mark of the present policy (`core.policy.mark_of`). A form sends it back, so that a concurrent change is
        noticed."""
        return mark_of(self)


def news_of(tool: Tool | ToolRow) -> str:
    """`new`, `changed` or `gone`, as long as no person has confirmed this state of the tool; otherwise empty, also for
    a rejected tool."""
    if tool.gone_at is not None:
        return "gone" if tool.confirmed_at is not None and tool.confirmed_at < tool.gone_at else ""
    if tool.rejected or tool.confirmed_digest == tool.digest:
        return ""
    return "changed" if tool.confirmed_digest else "new"


def spec_of(transport: str, target: str) -> str:
    """The spec of a transport and its target."""
    return target if transport == "http" else f"{transport}:{target}"


def server_list(tenant_id: int) -> tuple[ServerRow, ...]:
    """The servers of the tenant by name, at most 500."""
    return tuple(_server(row) for row in _servers(tenant_id).order_by("name")[:500])


def server_detail(tenant_id: int, server_id: int) -> ServerRow | None:
    """The server of the tenant with this id; `None` if there is none."""
    row = _servers(tenant_id).filter(pk=server_id).first()
    return None if row is None else _server(row)


def server_named(tenant_id: int, name: str) -> ServerRow | None:
    """The server of the tenant with this name; `None` if there is none."""
    row = _servers(tenant_id).filter(name=name).first()
    return None if row is None else _server(row)


def server_tools(tenant_id: int, server_id: int) -> tuple[ToolRow, ...]:
    """The server's tools, in the server's order and with those that are gone last; at most 2,000."""
    here = Tool.objects.filter(server_id=server_id, server__tenant_id=tenant_id, server__removed_at=None)
    rows = here.select_related("server")
    return tuple(_tool(row) for row in rows.order_by(F("gone_at").asc(nulls_first=True), "position", "name")[:2_000])


def waiting_tools(tenant_id: int) -> tuple[tuple[int, str, int], ...]:
    """The enabled servers with tools that wait for a person: id, name, and the number of these tools; at most 100
    servers."""
    here = Tool.objects.filter(
        server__tenant_id=tenant_id, server__enabled=True, server__review=True, gone_at=None, rejected=""
    )
    waiting = here.exclude(confirmed_digest=F("digest")).values_list("server_id", "server__name")
    return tuple(waiting.annotate(count=Count("id")).order_by("server__name")[:100])


def known_groups(tenant_id: int) -> tuple[str, ...]:
    """Every group a person of the tenant is in, for suggestions."""
    found: set[str] = set()
    for groups in Membership.objects.filter(tenant_id=tenant_id).values_list("groups", flat=True)[:1_000]:
        found.update(groups)
    return tuple(sorted(found))


def approvers(tenant_id: int, group: str, roles: Sequence[str]) -> int:
    """How many active people have one of these roles and, if `group` is not empty, are in that group."""
    found = Membership.objects.filter(tenant_id=tenant_id, role__in=roles, user__is_active=True)
    return found.filter(groups__contains=[group]).count() if group else found.count()


def approvers_by_group(tenant_id: int, roles: Sequence[str], *, with_factor: bool = False) -> dict[str, int]:
    """How many active people have one of these roles, by the name of their group. Under the empty name stands the
    number of all of them, with or without a group. `with_factor`: only those who have a second factor."""
    found = Membership.objects.filter(tenant_id=tenant_id, role__in=roles, user__is_active=True)
    if with_factor:
        factors = Authenticator.objects.exclude(type=Authenticator.Type.RECOVERY_CODES)
        found = found.filter(user_id__in=factors.values("user_id"))
    return dict(Counter(name for groups in found.values_list("groups", flat=True) for name in {"", *groups}))


def left_to_file(tenant_id: int, *, server_id: int | None = None, tool_id: int | None = None) -> str:
    """The name of the server with this id, or of the server of this tool, if only a file of configuration changes that
    server; otherwise empty."""
    found = Server.objects.filter(tenant_id=tenant_id, removed_at=None, by_file=True)
    found = found.filter(tools=tool_id) if server_id is None else found.filter(pk=server_id)
    return found.values_list("name", flat=True).first() or ""


def vault() -> Vault:
    """Encrypts the secrets of servers under `SECRET_KEY`."""
    return Vault(settings.SECRET_KEY.encode())


def token_lost(credentials: bytes | memoryview | None) -> bool:
    """Whether the token of a server was encrypted under another `SECRET_KEY`."""
    return credentials is not None and not _readable(credentials)


def server_name(server_id: int) -> str:
    """The name of an existing server."""
    return str(Server.objects.values_list("name", flat=True).get(pk=server_id))


def target_of(server: Server) -> str:
    """The server's complete address or command. Raises `InvalidToken` if it was encrypted with another key."""
    return server.target if server.sealed_target is None else vault().decrypt(bytes(server.sealed_target))


def lost(server: Server) -> str:
    """Which secret of the server was encrypted under another `SECRET_KEY`, and what to do, as text for people; empty if
    no secret was."""
    if server.sealed_target is not None and not _readable(server.sealed_target):
        return LOST_TARGET
    if token_lost(server.credentials):
        return LOST
    given = (*server.headers.values(), *server.environment.values())
    return "" if all(_readable(value.encode()) for value in given) else LOST_GIVEN


def opened(stored: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The decrypted values of a column of encrypted values, as pairs of name and value. Raises `InvalidToken` if a
    value was encrypted with another key."""
    return tuple((name, vault().decrypt(value.encode())) for name, value in stored.items())


def without_its_secrets(server: Server, text: str) -> str:
    """`text` without the secrets of the server: those in its address or command, and the values of its headers and
    variables."""
    try:
        text = without_values(text, given_secrets(opened(server.headers), opened(server.environment)))
        return without_secrets(text, server.transport, target_of(server))
    except InvalidToken:
        return text  # this process cannot have read the secrets, so the text has none


def _readable(locked: bytes | memoryview) -> bool:
    try:
        vault().decrypt(bytes(locked))
    except InvalidToken:
        return False
    return True


def _servers(tenant_id: int) -> Any:
    here = Q(tools__gone_at__isnull=True)
    waits = Q(review=True) & ~Q(tools__confirmed_digest=F("tools__digest"))
    return (
        Server.objects.filter(tenant_id=tenant_id, removed_at=None)
        .select_related("oauth")
        .annotate(
            tool_count=Count("tools", filter=here & Q(tools__rejected="") & ~waits),
            waiting_count=Count("tools", filter=here & Q(tools__rejected="") & waits),
            rejected_count=Count("tools", filter=here & ~Q(tools__rejected="")),
        )
    )


def _server(row: Any) -> ServerRow:
    unreadable = lost(row)  # so that the page shows it before a worker reports it
    return ServerRow(
        id=row.pk,
        name=row.name,
        transport=row.transport,
        target=row.target,
        prefix=row.prefix,
        review=row.review,
        by_file=row.by_file,
        enabled=row.enabled,
        disabled_reason=row.disabled_reason,
        state="unreachable" if unreadable and row.enabled else row.state,
        problem=unreadable or row.problem,
        protocol=row.protocol,
        info=row.info if isinstance(row.info, dict) else {},
        catalogue_at=row.catalogue_at,
        last_seen_at=row.last_seen_at,
        created_at=row.created_at,
        tools=row.tool_count,
        rejected=row.rejected_count,
        waiting=row.waiting_count,
        has_token=row.credentials is not None,
        token_lost=token_lost(row.credentials),
        header_names=tuple(sorted(row.headers)),
        variable_names=tuple(sorted(row.environment)),
        directory=row.directory,
        own_process=row.own_process,
        connect_seconds=row.connect_seconds or CONNECT_SECONDS,
        connect_said=row.connect_seconds is not None,
        calls_at_once=row.calls_at_once or CALLS_AT_ONCE[row.transport],
        calls_said=row.calls_at_once is not None,
        shared=row.shared,
        pinned=row.pinned,
        era=row.era,
        incomplete=row.incomplete,
        failures=row.failures,
        open_since=row.open_since,
        retry_at=row.retry_at,
        probe_until=row.probe_until,
        oauth=row.oauth.way if hasattr(row, "oauth") else "",
    )


def _tool(row: Tool) -> ToolRow:
    return ToolRow(
        id=row.pk,
        server_id=row.server_id,
        name=row.name,
        exposed_name=row.exposed_name,
        renamed=why_named_so(row.server.name, row.name, row.exposed_name, prefix=row.server.prefix),
        definition=row.definition if isinstance(row.definition, dict) else {},
        digest=row.digest,
        rejected=row.rejected,
        hint_mode=row.hint_mode,
        read_only=row.read_only,
        idempotent=row.idempotent,
        first_seen_at=row.first_seen_at,
        changed_at=row.changed_at,
        gone_at=row.gone_at,
        confirmed_digest=row.confirmed_digest,
        confirmed_at=row.confirmed_at,
        confirmed_by=row.confirmed_by,
        review=row.server.review,
        **values_of(row),
    )


def _lines(schema: dict[str, Any], above: str = "", depth: int = 0) -> Iterator[Argument]:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or depth > 3:
        return
    listed = schema.get("required")
    required = set(map(str, listed)) if isinstance(listed, list) else set()
    for name, rule in list(properties.items())[:MAX_SCHEMA_ROWS]:
        if not isinstance(rule, dict):
            rule = {}
        yield Argument(
            name=f"{above}{name}",
            type=_type(rule),
            required=str(name) in required,
            description=str(rule.get("description") or rule.get("title") or ""),
            limits=_limits(rule),
        )
        yield from _lines(rule, f"{above}{name}.", depth + 1)
        items = rule.get("items")
        if isinstance(items, dict):
            yield from _lines(items, f"{above}{name}[].", depth + 1)


def _type(rule: dict[str, Any]) -> str:
    kind = rule.get("type")
    if isinstance(kind, list):
        return " or ".join(map(str, kind))[:80]
    if kind == "array" and isinstance(rule.get("items"), dict):
        return f"list of {_type(rule['items'])}"
    if kind is None:
        for word in ("anyOf", "oneOf"):
            if isinstance(rule.get(word), list):
                return " or ".join(_type(part) for part in rule[word][:6] if isinstance(part, dict))
        if isinstance(rule.get("$ref"), str):
            return str(rule["$ref"]).rsplit("/", 1)[-1][:80]
        return "choice" if "enum" in rule else "any"
    return str(kind)[:80]


def _limits(rule: dict[str, Any]) -> str:
    """The rest of the argument's schema as text: choices, ranges, format, default."""
    words: list[str] = []
    if isinstance(rule.get("enum"), list):
        more = f" and {len(rule['enum']) - ENUM_SHOWN:,} more" if len(rule["enum"]) > ENUM_SHOWN else ""
        words.append(
            "one of " + ", ".join(json.dumps(one, ensure_ascii=False) for one in rule["enum"][:ENUM_SHOWN]) + more
        )
    for name, word in (
        ("const", "always"), ("minimum", "at least"), ("exclusiveMinimum", "above"), ("maximum", "at most"),
        ("exclusiveMaximum", "below"), ("minLength", "length from"), ("maxLength", "length to"),
        ("pattern", "pattern"), ("format", "format"), ("default", "default"),
    ):  # fmt: skip
        if name in rule:
            value = rule[name]
            words.append(f"{word} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    return "; ".join(words)
