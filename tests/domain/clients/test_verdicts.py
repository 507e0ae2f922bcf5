"""What the rules say of clients and tools, page by page, and of a call that is typed in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskhub.core.errors import Invalid, NotFound
from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.records import ToolRecord
from taskhub.core.rules import Rule, Then
from taskhub.domain.catalogue.view import catalogue, forget_catalogues
from taskhub.domain.clients import verdicts
from taskhub.domain.clients.tokens import issue_token, revoke_token
from taskhub.domain.clients.verdicts import Calls, Sample
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.explained import Why
from taskhub.domain.rules.trial import MAX_SIZE
from taskhub.store.models import AccessToken, AuthContext, Membership, Tenant, Tool
from tests.console.admin import ADMIN
from tests.domain.cost import statements
from tests.factories import asking_about, make_context, make_person, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def save(tenant: Tenant, *rules: Rule) -> None:
    save_rules(tenant.pk, rules, expected=catalogue(tenant.pk).rules.version, actor=ADMIN)
    forget_catalogues()


def schema(tool: ToolRecord, **properties: Any) -> None:
    needed = properties.pop("required", [])
    definition = {"name": tool.name, "inputSchema": {"type": "object", "properties": properties, "required": needed}}
    Tool.objects.filter(pk=tool.id).update(definition=definition)
    forget_catalogues()


def test_the_tools_of_a_client_come_by_server_and_name_page_by_page(tenant: Tenant) -> None:
    context = make_context(tenant, "ci-bot")
    second, first = make_server(tenant, "web"), make_server(tenant, "Ops")
    for server, name in ((second, "status"), (first, "restart"), (first, "deploy"), (second, "Fetch"), (first, "wipe")):
        make_tool(server, name)
    make_tool(make_server(make_tenant()), "elsewhere")
    save(
        tenant,
        Rule(name="Hidden", when="tool.name == 'wipe'", then=Then.HIDE),
        Rule(name="Asked", when="server.name == 'Ops' && args.environment == 'production'", then=Then.ASK),
        Rule(name="Others", when="client.name != 'ci-bot'", then=Then.DENY),
    )
    page = verdicts.tools_of(tenant.pk, context.pk, most=3)
    said = [(row.tool.name, [str(one.then) for one in row.outlook.outcomes]) for row in page.rows]
    assert said == [("deploy", ["ask", "allow"]), ("restart", ["ask", "allow"]), ("wipe", ["hide"])]
    rest = verdicts.tools_of(tenant.pk, context.pk, after=page.after, most=3)
    assert [row.tool.name for row in rest.rows] == ["Fetch", "status"]
    assert rest.after is None
    assert [row.tool.name for row in verdicts.tools_of(tenant.pk, context.pk, text="OPS").rows] == [
        "deploy",
        "restart",
        "wipe",
    ]
    assert [row.tool.name for row in verdicts.tools_of(tenant.pk, context.pk, text="stat", after=1).rows] == ["status"]
    assert verdicts.tools_of(tenant.pk, context.pk, after=2**70).rows[0].tool.name == "deploy", "it is gone"
    for other in (make_context(make_tenant()).pk, 2**70):
        with pytest.raises(NotFound):
            verdicts.tools_of(tenant.pk, other)


def test_the_clients_of_a_tool_come_by_name_page_by_page(tenant: Tenant) -> None:
    tool = make_tool(make_server(tenant, "ops"), "deploy")
    for name in ("ci-bot", "Agent", "deployer", "zoe"):
        make_context(tenant, name)
    make_context(make_tenant(), "elsewhere")
    save(
        tenant,
        Rule(name="Deployer", when="client.name == 'deployer'", then=Then.ALLOW),
        Rule(name="Nobody", when="tool.name == 'deploy'", then=Then.HIDE),
    )
    page = verdicts.callers_of(tenant.pk, tool.id, most=3)
    assert [(row.caller.name, str(row.outlook.then)) for row in page.rows] == [
        ("Agent", "hide"),
        ("ci-bot", "hide"),
        ("deployer", "allow"),
    ]
    rest = verdicts.callers_of(tenant.pk, tool.id, after=page.after, most=3)
    assert ([row.caller.name for row in rest.rows], rest.after) == (["zoe"], None)
    assert [row.caller.name for row in verdicts.callers_of(tenant.pk, tool.id, text="BOT").rows] == ["ci-bot"]
    Tool.objects.filter(pk=tool.id).update(enabled=False)
    forget_catalogues()
    for gone in (tool.id, make_tool(make_server(make_tenant())).id, 2**70):
        with pytest.raises(NotFound, match="not offered to clients"):
            verdicts.callers_of(tenant.pk, gone)


def test_what_is_not_on_the_page_is_not_decided(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    server = make_server(tenant)
    contexts = [make_context(tenant) for _ in range(20)]
    tools = [make_tool(server) for _ in range(20)]
    save(tenant, Rule(name="a", when="args.n > 1", then=Then.ASK))
    catalogue(tenant.pk)
    decided = []
    real = verdicts.outlook
    monkeypatch.setattr(verdicts, "outlook", lambda *given: decided.append(given) or real(*given))
    costs = []
    for most in (2, 15):
        costs.append(statements(lambda most=most: verdicts.tools_of(tenant.pk, contexts[0].pk, most=most)))
        costs.append(statements(lambda most=most: verdicts.callers_of(tenant.pk, tools[0].id, most=most)))
    assert costs == [1, 1, 1, 1]
    assert len(decided) == 2 * (2 + 15)


def test_the_scopes_of_a_client_are_known_where_all_its_tokens_have_the_same(tenant: Tenant) -> None:
    context = make_context(tenant, "bot")

    def known() -> tuple[str, ...] | None:
        return verdicts.caller(tenant.pk, context.pk).scopes

    assert known() is None
    token = issue_token(tenant_id=tenant.pk, client="bot", scopes=["tasks:call"], actor=ADMIN)[1]
    issue_token(tenant_id=tenant.pk, client="bot", scopes=["tasks:call"], actor=ADMIN)
    assert known() == ("tasks:call",)
    other = issue_token(tenant_id=tenant.pk, client="bot", scopes=["tasks:call", "tasks:read"], actor=ADMIN)[1]
    assert known() is None
    revoke_token(tenant_id=tenant.pk, token_id=other.pk, actor=ADMIN)
    assert known() == ("tasks:call",)
    past = datetime.now(UTC) - timedelta(days=1)
    AccessToken.objects.filter(context=context).exclude(pk=token.pk).delete()
    AccessToken.objects.filter(pk=token.pk).update(expires_at=past)
    assert known() is None
    assert verdicts.caller(tenant.pk, context.pk).client.scopes is None
    AuthContext.objects.filter(pk=context.pk).update(issuer="", subject="anonymous")
    assert "tasks:answer" in (verdicts.caller(tenant.pk, context.pk).client.scopes or ())
    AuthContext.objects.filter(pk=context.pk).update(issuer=OAUTH_ISSUER)
    AccessToken.objects.filter(pk=token.pk).update(expires_at=None)
    assert known() is None, "consent and role count too"


def call(tenant: Tenant, tool: ToolRecord, arguments: dict[str, Any], *rules: Rule, **more: Any) -> Calls:
    context = AuthContext.objects.filter(tenant=tenant).first() or make_context(tenant, "bot")
    given = {"program": "", "now": NOON, "rules": rules or None, **more}
    return verdicts.try_call(tenant.pk, context.pk, tool.id, arguments, **given)


def test_a_call_that_is_typed_in_is_decided_by_both_lists(tenant: Tenant) -> None:
    tool = make_tool(make_server(tenant), "pay")
    save(tenant, asking_about(tool, group="cash"))
    deny = Rule(name="Large", when="args.n > 100", then=Then.DENY)
    found = call(tenant, tool, {"n": 5})
    assert (found.before.then, found.after, found.fits) == (Then.ASK, None, True)
    assert found.before.approval is not None
    assert found.before.approval.group == "cash"
    save(tenant, deny)
    found = call(tenant, tool, {"n": 500}, Rule(name="All", when="", then=Then.ALLOW), deny)
    assert (found.before.then, found.after and found.after.then) == (Then.DENY, Then.ALLOW)
    assert [step.why for step in found.before.explained.steps] == [Why.DECIDES]
    assert call(tenant, tool, {"n": 500}, deny).after is None, "it is the list in force"
    hides = Rule(name="Hides", when="tool.name == 'pay'", then=Then.HIDE)
    assert (hidden := call(tenant, tool, {}, hides).after) is not None
    assert (hidden.then, hidden.approval) == (Then.HIDE, None)
    schema(tool, n={"type": "integer"})
    assert not call(tenant, tool, {"n": "5"}).fits
    program = Rule(name="Program", when="client.program == 'x' && time.getHours() == 3", then=Then.DENY)
    for said, hour, then in (("x", 3, Then.DENY), ("y", 3, Then.ALLOW), ("x", 4, Then.ALLOW)):
        after = call(tenant, tool, {}, program, program=said, now=NOON.replace(hour=hour)).after
        assert after is not None
        assert after.then is then
    with pytest.raises(Invalid) as refused:
        call(tenant, tool, {}, Rule(name="Odd", when="tool.name", then=Then.ASK))
    assert refused.value.data["field"] == "rules.0.when"
    with pytest.raises(NotFound):
        call(tenant, make_tool(make_server(make_tenant())), {})


def test_the_arguments_to_begin_with_are_those_of_the_newest_call(tenant: Tenant) -> None:
    context, other, tool = make_context(tenant), make_context(tenant), make_tool(make_server(tenant))

    def sample(**more: Any) -> Sample:
        return verdicts.sample(tenant.pk, context.pk, tool.id, **more)

    assert sample() == Sample({})
    theirs = make_task(other, tool, arguments={"n": 1})
    make_task(context, make_tool(make_server(tenant)), arguments={"n": 2})
    assert sample() == Sample({"n": 1}, theirs.public_id)
    mine = make_task(context, tool, arguments={"n": 3})
    make_task(other, tool, arguments={"n": 4})
    make_task(context, tool, arguments={"text": "".join(chr(33 + n * n % 8_000) for n in range(4 * MAX_SIZE))})
    found = sample()
    assert (found.arguments, found.public_id, found.own) == ({"n": 3}, mine.public_id, True)
    assert sample(of_calls=False) == Sample({})


def test_without_a_call_they_are_what_the_schema_needs(tenant: Tenant) -> None:
    context, tool = make_context(tenant), make_tool(make_server(tenant))
    kinds = {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "sure": {"type": "boolean"},
        "many": {"type": ["array", "null"]},
        "map": {"type": "object"},
        "default": {"type": "string", "default": "staging"},
        "choice": {"enum": ["a", "b"]},
        "example": {"examples": [7]},
        "fixed": {"const": "x"},
        "any": {},
        "odd": True,
        "unknown": {"type": {"a": 1}},
    }
    schema(tool, **kinds)
    assert verdicts.sample(tenant.pk, context.pk, tool.id).arguments == {
        "text": "",
        "whole": 0,
        "sure": False,
        "many": [],
        "map": {},
        "default": "staging",
        "choice": "a",
        "example": 7,
        "fixed": "x",
        "any": None,
        "odd": None,
        "unknown": None,
    }
    schema(tool, **kinds, required=["text", "gone"])
    assert verdicts.sample(tenant.pk, context.pk, tool.id).arguments == {"text": ""}


def test_rules_know_who_signed_in_the_application(tenant: Tenant) -> None:
    tool, ada = make_tool(make_server(tenant), "pay"), make_person("operator", tenant, username="ada", groups=["hr"])
    hides = Rule(name="hr only", when='!("hr" in person.groups)', then=Then.HIDE)
    asks = Rule(name="operators", when='person.name == "ada" && person.role == "operator"', then=Then.ASK)
    save(tenant, hides, asks)
    application = AuthContext.objects.create(
        tenant=tenant, issuer=OAUTH_ISSUER, subject=f"user:{ada.user_id}", client_id="app", name="ada with app"
    )
    other = make_context(tenant)

    def become(context: AuthContext) -> Then:
        return verdicts.try_call(tenant.pk, context.pk, tool.id, {}, program="", now=NOON).before.then

    assert (become(application), become(other)) == (Then.ASK, Then.HIDE)
    rows = {row.caller.id: row.outlook.then for row in verdicts.callers_of(tenant.pk, tool.id).rows}
    assert rows == {application.pk: Then.ASK, other.pk: Then.HIDE}
    Membership.objects.filter(user_id=ada.user_id).update(groups=["it"])
    assert become(application) is Then.HIDE
    Membership.objects.all().delete()
    assert become(application) is Then.HIDE
