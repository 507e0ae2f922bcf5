"""Shows people what the rules say of clients and tools, and of a call that they type in. Nothing is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskhub.core.asking import Asking, asking
from taskhub.core.bypass import Bypass
from taskhub.core.errors import NotFound
from taskhub.core.names import CONSOLE_ISSUER, OAUTH_ISSUER, SCOPES
from taskhub.core.permissions import grantable
from taskhub.core.policy import inputs_of
from taskhub.core.records import NewQuestion, ToolRecord
from taskhub.core.rules import Client, Rule, RuleList, SignedIn, Then, check_rules, signed_in
from taskhub.domain.catalogue.view import Catalogue, catalogue
from taskhub.domain.rules.decisions import Rules, check_expressions
from taskhub.domain.rules.explained import Explained, Outlook, explain, outlook
from taskhub.domain.rules.reads import present
from taskhub.domain.rules.sentences import check_sentences
from taskhub.domain.rules.trial import MAX_SIZE
from taskhub.domain.tasks.create import approval_question
from taskhub.lib.schemas import surely_fits
from taskhub.store import statements
from taskhub.store.likes import escaped_like

LOOKED_AT: Final = 1_000
"""How many of the newest calls of the client, and of all clients, are searched for a call whose arguments can be filled
in."""
_MADE_UP: Final = 20
"""The most arguments that are made up from a schema."""
PAGE_ROWS: Final = 50
"""The most tools of a client, or clients of a tool, on a page. Rules are evaluated only for these."""


@dataclass(frozen=True, slots=True)
class CallerRow:
    """A client, as rules see it."""

    id: int
    name: str
    issuer: str
    subject: str
    client_id: str
    disabled_at: datetime | None
    scopes: tuple[str, ...] | None
    """The scopes of the client's tokens; `None` if its tokens are not kept here, or have different scopes."""
    person: SignedIn

    @property
    def client(self) -> Client:
        """The client for which rules decide."""
        scopes = SCOPES if not self.issuer else self.scopes  # a client without a token may do everything
        if self.issuer == CONSOLE_ISSUER:
            scopes = grantable(self.person.role) if self.person.role else ()
        known = None if scopes is None else frozenset(scopes)
        return Client(self.id, self.name, self.issuer, self.subject, self.client_id, known, self.person)


@dataclass(frozen=True, slots=True)
class ToolOutlook:
    """What may become of a client's calls of this tool."""

    tool: ToolRecord
    outlook: Outlook


@dataclass(frozen=True, slots=True)
class ToolPage:
    """Tools that the tenant offers, by server and name. `after`: the id of the last of them if there are more,
    otherwise `None`."""

    client: CallerRow
    rows: tuple[ToolOutlook, ...]
    after: int | None


@dataclass(frozen=True, slots=True)
class CallerOutlook:
    """What may become of this client's calls of a tool."""

    caller: CallerRow
    outlook: Outlook


@dataclass(frozen=True, slots=True)
class CallerPage:
    """Clients by name. `after`: the id of the last of them if there are more, otherwise `None`."""

    tool: ToolRecord
    rows: tuple[CallerOutlook, ...]
    after: int | None


@dataclass(frozen=True, slots=True)
class Called:
    """What a list of rules would do with a call."""

    explained: Explained
    approval: NewQuestion | None
    """The approval that the call would need; `None` if it would need none."""
    bypass: Bypass | None = None
    """The bypass because of which the call would run now without that approval; `None` if there is none."""

    @property
    def asking(self) -> Asking:
        """What people would read with the approval; empty if the call needs none."""
        return asking(self.approval.params) if self.approval is not None else Asking()

    @property
    def then(self) -> Then:
        """What would happen to the call."""
        if self.explained.hidden:
            return Then.HIDE
        return self.explained.verdict.then


@dataclass(frozen=True, slots=True)
class Calls:
    """What the list in force (`before`) and another list (`after`) would do with a typed-in call; `after` is `None` if
    the lists are the same. `fits`: whether the arguments certainly fit the tool's schema."""

    caller: CallerRow
    tool: ToolRecord
    before: Called
    after: Called | None
    fits: bool


@dataclass(frozen=True, slots=True)
class _Copied:
    public_id: str
    own: bool
    arguments: dict[str, Any]
    program: str


@dataclass(frozen=True, slots=True)
class Sample:
    """Arguments that are filled in at first. `public_id`: the task from which they are; empty if they were made up from
    the schema. `own`: whether that task is the client's own. `program`: the program that made the call, if `own`."""

    arguments: dict[str, Any]
    public_id: str = ""
    own: bool = False
    program: str = ""


_COPIED = statements.maybe("call_to_copy", _Copied, convert={"arguments": statements.from_json})
_CONVERT: Final[dict[str, Any]] = {"scopes": tuple, "person": lambda found: signed_in(statements.from_json(found))}
_CALLERS = statements.many("callers", CallerRow, convert=_CONVERT)
_ONE = statements.maybe("caller", CallerRow, convert=_CONVERT)
_NAME = statements.maybe("client_name", str)


def callers(
    tenant_id: int, *, text: str = "", after: int | None = None, most: int = PAGE_ROWS
) -> tuple[tuple[CallerRow, ...], int | None]:
    """A page of the tenant's clients whose name, issuer, subject or client id contains `text`, ordered by name; and the
    id of the last client on the page, or `None` if there are no more clients. `after`: that id of the previous page."""
    after_name = None if after is None else _NAME(tenant=tenant_id, context=after)
    rows = _CALLERS(
        tenant=tenant_id,
        oauth=OAUTH_ISSUER,
        text=f"%{escaped_like(text)}%" if text else None,
        after=None if after_name is None else after,
        after_name=after_name,
        most=most + 1,
    )
    return tuple(rows[:most]), rows[most - 1].id if len(rows) > most else None


def caller(tenant_id: int, context_id: int) -> CallerRow:
    """The client with this id. Raises `NotFound` if the tenant has none."""
    found = _ONE(tenant=tenant_id, context=context_id, oauth=OAUTH_ISSUER) if context_id < 2**63 else None
    if found is None:
        raise NotFound("There is no such client.")
    return found


def tools_of(
    tenant_id: int, context_id: int, *, text: str = "", after: int | None = None, most: int = PAGE_ROWS
) -> ToolPage:
    """What may become of the client's calls of each tool whose name, title or server contains `text`. `after` is the id
    of the last tool of the previous page. Raises `NotFound` if there is no such client."""
    found = caller(tenant_id, context_id)
    offered = catalogue(tenant_id)
    tools = sorted((tool for tool in offered.tools if _contains(tool, text.casefold())), key=_place)
    begin = next((n for n, tool in enumerate(tools, 1) if tool.id == after), 0)
    shown = tools[begin : begin + most]
    rows = tuple(ToolOutlook(tool, outlook(offered.rules, found.client, tool)) for tool in shown)
    return ToolPage(found, rows, shown[-1].id if begin + most < len(tools) else None)


def callers_of(
    tenant_id: int, tool_id: int, *, text: str = "", after: int | None = None, most: int = PAGE_ROWS
) -> CallerPage:
    """What may become of each client's calls of the tool; `text`, `after` and `most` as in `callers`. Raises `NotFound`
    for a tool that is not offered to clients."""
    offered = catalogue(tenant_id)
    tool = offered_tool(offered, tool_id)
    rows, more = callers(tenant_id, text=text, after=after, most=most)
    return CallerPage(tool, tuple(CallerOutlook(row, outlook(offered.rules, row.client, tool)) for row in rows), more)


def try_call(
    tenant_id: int,
    context_id: int,
    tool_id: int,
    arguments: Mapping[str, Any],
    *,
    program: str,
    now: datetime,
    rules: Sequence[Rule] | None = None,
) -> Calls:
    """What would become of the call by the list in force and, if `rules` is another list, by `rules`. Raises
    `NotFound`, or `Invalid` for a list that cannot be saved."""
    found, tool = caller(tenant_id, context_id), offered_tool(catalogue(tenant_id), tool_id)
    listed = present(tenant_id)

    def called(wanted: RuleList) -> Called:
        return called_by(Rules(wanted), found.client, tool, arguments, program=program, now=now)

    before, after = called(listed), None
    if rules is not None and tuple(rules) != listed.rules:
        check_rules(rules)
        check_expressions(rules)
        check_sentences(rules)
        after = called(RuleList(listed.version + 1, tuple(rules), listed.bypass))
    return Calls(found, tool, before, after, surely_fits(tool.definition.get("inputSchema"), dict(arguments)))


def called_by(
    rules: Rules, client: Client, tool: ToolRecord, arguments: Mapping[str, Any], *, program: str, now: datetime
) -> Called:
    """What these rules would do with the call."""
    explained = explain(rules, client, tool, arguments, program=program, now=now)
    denied = explained.verdict.then is Then.DENY
    approval = None if denied else approval_question(tool, dict(arguments), explained.verdict)
    return Called(explained, approval, rules.let_pass(explained.verdict, tool).bypass)


def sample(tenant_id: int, context_id: int, tool_id: int, *, of_calls: bool = True) -> Sample:
    """Arguments for a call of the tool by the client: those of the client's newest call of the tool, or of another
    client's; if there is no such call, or `of_calls` is false, values made up from the schema. Raises `NotFound` if the
    tool is not offered to clients."""
    tool = offered_tool(catalogue(tenant_id), tool_id)
    copied = None
    if of_calls:
        copied = _COPIED(tenant=tenant_id, context=context_id, tool=tool_id, size=MAX_SIZE, looked_at=LOOKED_AT)
    if copied is None or not isinstance(copied.arguments, dict):
        return Sample(_made_up(tool))
    return Sample(copied.arguments, copied.public_id, copied.own, copied.program if copied.own else "")


def _made_up(tool: ToolRecord) -> dict[str, Any]:
    """A made-up value for each argument that the tool requires; if it requires none, for the first arguments of its
    schema."""
    schema = tool.definition.get("inputSchema")
    properties = inputs_of(tool.definition)
    needed = schema.get("required") if isinstance(schema, dict) else None
    names = [name for name in needed if name in properties] if isinstance(needed, list) else []
    return {name: _value(properties[name]) for name in (names or list(properties))[:_MADE_UP]}


def _value(rule: Any) -> Any:
    if not isinstance(rule, dict):
        return None
    for word in ("default", "const"):
        if word in rule:
            return rule[word]
    for word in ("examples", "enum"):
        if isinstance(rule.get(word), list) and rule[word]:
            return rule[word][0]
    kinds = rule.get("type")
    kind = kinds[0] if isinstance(kinds, list) and kinds else kinds
    empty: dict[Any, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
    return empty.get(kind) if isinstance(kind, str) else None


def offered_tool(offered: Catalogue, tool_id: int) -> ToolRecord:
    """The tool with this id. Raises `NotFound` if it is not offered to clients."""
    found = next((tool for tool in offered.tools if tool.id == tool_id), None)
    if found is None:
        raise NotFound("This tool is not offered to clients.")
    return found


def _place(tool: ToolRecord) -> tuple[str, str, int]:
    return tool.server_name.casefold(), tool.exposed_name.casefold(), tool.id


def _contains(tool: ToolRecord, text: str) -> bool:
    named = (tool.exposed_name, tool.name, tool.server_name, str(tool.definition.get("title", "")))
    return not text or any(text in name.casefold() for name in named)
