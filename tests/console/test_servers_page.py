"""Servers and tool policies."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import urljoin

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from taskhub.core.policy import POLICY_FIELDS
from taskhub.core.secrets import redacted
from taskhub.domain.catalogue import writes as policies
from taskhub.domain.catalogue.breakers import OPENS_AFTER, store_failure
from taskhub.domain.catalogue.sync import Listed, store_snapshot
from taskhub.domain.catalogue.view import catalogue, forget_catalogues
from taskhub.store.models import Event, Server, Tenant, Tool
from tests.console.admin import ADMIN, HTMX, browser, words
from tests.factories import make_person, make_server, make_tenant, make_tool

pytestmark = pytest.mark.django_db

SCHEMA = {
    "type": "object",
    "required": ["environment"],
    "properties": {
        "environment": {"type": "string", "enum": ["staging", "production"], "description": "Where <to>"},
        "count": {"type": "integer", "minimum": 1},
        "force": {"type": "boolean"},
        "options": {"type": "object", "properties": {"drain": {"type": "boolean"}}},
    },
}


@pytest.fixture
def tool(tenant: Tenant) -> Tool:
    made = make_tool(make_server(tenant, "demo"), "deploy")
    row = Tool.objects.get(pk=made.id)
    row.definition = {"name": "deploy", "description": "Rolls out", "inputSchema": SCHEMA}
    row.save()
    return row


def page_of(tool: Tool) -> str:
    return f"/servers/{tool.server_id}/?tool={tool.pk}"


def form_of(html: str) -> dict[str, Any]:
    """The policy form as a browser would send it unchanged."""
    form = html[html.index('class="body policy"') :]
    form = form[: form.index("</form>")]
    data: dict[str, Any] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        name = re.search(r'name="([^"]+)"', tag)
        value = re.search(r'value="([^"]*)"', tag)
        if not name or name[1] == "csrfmiddlewaretoken":
            continue
        if 'type="checkbox"' in tag:
            if "checked" in tag:
                data[name[1]] = "on"
        elif name[1].startswith("when_"):
            data.setdefault(name[1], []).append(value[1] if value else "")
        else:
            data[name[1]] = value[1] if value else ""
    for name_, options in re.findall(r'<select name="(\w+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', options)
        data[name_] = chosen[1] if chosen else ""
    for name_, text in re.findall(r'<textarea name="(\w+)"[^>]*>\n?(.*?)</textarea>', form, re.DOTALL):
        data[name_] = unescape(text)
    return data


def save(admin: Client, tool: Tool, **changes: Any) -> Any:
    data = form_of(admin.get(page_of(tool)).content.decode())
    return admin.post(f"/servers/{tool.server_id}/tools/{tool.pk}/policy", {**data, **changes})


def hints(captured: CaptureQueriesContext) -> list[str]:
    """What was announced, in order."""
    told = re.findall(r"pg_notify\('taskhub'::text, '([^']+)'::text\)", " ".join(query["sql"] for query in captured))
    return [hint for together in told for hint in together.split(";")]


def test_a_form_sent_back_unchanged_changes_nothing(tool: Tool, admin: Client) -> None:
    laid_down = {
        "policy_mode": "always",
        "policy_at_least_once": False,
        "question_audience": "either",
        "people_after_program": True,
        "companion": {
            "tool": "look",
            "arguments": {
                "count": {"argument": "count"},
                "n": {"value": 3},
                "text": {"value": "3"},
                "dollar": {"value": "$x"},
            },
            "field": "state",
            "ran": "$done",
            "unrun": None,
        },
        "retry_on": ["connect", "-32001"],
        "retry_seconds": 5,
        "max_attempts": 7,
        "run_seconds": 60,
        "join_seconds": 30,
        "enabled": False,
    }
    # What the form leaves out, each save would set back unseen.
    assert set(laid_down) == set(POLICY_FIELDS)
    Tool.objects.filter(pk=tool.pk).update(**laid_down)
    before = Tool.objects.filter(pk=tool.pk).values().get()
    response = save(admin, tool)
    assert response.status_code == 302
    assert Tool.objects.filter(pk=tool.pk).values().get() == before
    assert not Event.objects.filter(action="tool.policy.changed").exists()
    assert "Policy of deploy unchanged." in admin.get(response["Location"]).content.decode()


def test_one_save_stores_everything_records_it_and_announces_it(tenant: Tenant, tool: Tool, admin: Client) -> None:
    assert catalogue(tenant.pk).by_name["deploy"].policy_mode is None
    with CaptureQueriesContext(connection) as captured:
        response = save(
            admin,
            tool,
            policy_mode="always",
            at_least_once="yes",
            question_audience="operator",
            max_attempts="5",
            run_seconds="60",
        )
    assert response.status_code == 302
    assert hints(captured) == ["c"]
    forget_catalogues()
    saved = catalogue(tenant.pk).by_name["deploy"]
    assert (saved.policy_mode, saved.at_least_once) == ("always", True)
    assert (saved.question_audience, saved.max_attempts, saved.run_seconds) == ("operator", 5, 60)
    event = Event.objects.get(tenant=tenant, action="tool.policy.changed")
    assert (event.actor, event.door, event.target) == ("root", "web", "deploy")
    assert event.before["max_attempts"] == 3
    assert event.after["max_attempts"] == 5
    assert "enabled" not in event.after  # only what changed


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_attempts": "21"}, "from 1 to 20"),
        ({"run_seconds": "x"}, "whole number"),
        ({"run_seconds": "86401"}, "from 1 to 86,400"),
        ({"policy_mode": "sometimes"}, "auto, always, never or required"),
        ({"question_audience": "nobody"}, "client, operator, either or caller"),
        ({"at_least_once": "maybe"}, "yes, no, or as the tool declares"),
    ],
)
def test_a_policy_that_cannot_be_comes_back_with_the_reason_and_what_was_typed(
    tool: Tool, admin: Client, changes: dict[str, Any], why: str
) -> None:
    response = save(admin, tool, **{"join_seconds": "77", **changes})
    assert response.status_code == 400
    assert why in words(response.content.decode().replace("&#x27;", "'"))
    assert 'value="77"' in response.content.decode()
    assert Tool.objects.get(pk=tool.pk).join_seconds == 300


def test_who_saves_second_sees_the_first_ones_policy_and_loses_nothing_silently(tool: Tool, admin: Client) -> None:
    mine = form_of(admin.get(page_of(tool)).content.decode())
    save(admin, tool, max_attempts="9")
    response = admin.post(f"/servers/{tool.server_id}/tools/{tool.pk}/policy", {**mine, "max_attempts": "2"})
    assert response.status_code == 409
    text = response.content.decode()
    assert "Somebody changed the policy of deploy meanwhile" in text
    assert form_of(text)["max_attempts"] == "9"
    assert Tool.objects.get(pk=tool.pk).max_attempts == 9


def test_a_tool_is_reached_through_its_own_server_only(tenant: Tenant, tool: Tool, admin: Client) -> None:
    other = make_server(tenant)
    assert admin.get(f"/servers/{other.pk}/?tool={tool.pk}").status_code == 404
    assert admin.post(f"/servers/{other.pk}/tools/{tool.pk}/policy", {}).status_code == 404


def test_a_tool_shows_its_schema_as_lines(tool: Tool, admin: Client) -> None:
    html = admin.get(page_of(tool)).content.decode()
    text = words(html)
    assert "environment string required Where &lt;to&gt; one of &quot;staging&quot;, &quot;production&quot;" in text
    assert "options.drain boolean optional" in text
    assert "<to>" not in html


@pytest.mark.parametrize(
    "definition",
    [
        {},
        {"inputSchema": None, "annotations": 3, "title": {"a": 1}},
        {"inputSchema": {"type": "object", "properties": ["x"], "required": 4}},
        {"inputSchema": {"type": "object", "properties": {"a": True, "b": {"type": ["string", "null"], "enum": 3}}}},
        {"inputSchema": {"properties": {"a": {"items": {"items": {"properties": {"b": {}}}}}}}, "description": 7},
        ["not", "an", "object"],
    ],
)
def test_no_definition_of_a_server_breaks_the_page(tool: Tool, admin: Client, definition: Any) -> None:
    Tool.objects.filter(pk=tool.pk).update(definition=definition)
    assert admin.get(page_of(tool)).status_code == 200


def test_a_saved_policy_is_told_where_the_page_scrolls(tool: Tool, admin: Client) -> None:
    response = save(admin, tool, max_attempts="9")
    assert response["Location"].endswith(f"?tool={tool.pk}#policy")
    assert words(admin.get(response["Location"]).content.decode()).count("Policy of deploy saved.") == 1
    assert "saved" not in words(admin.get(page_of(tool)).content.decode())


def test_a_tools_page_leads_to_a_rule_for_it(tenant: Tenant, tool: Tool, admin: Client) -> None:
    forget_catalogues()
    (link,) = re.findall(r'href="(/rules/add[^"]+)"', admin.get(page_of(tool)).content.decode())
    server = Server.objects.get(pk=tool.server_id)
    shown = words(admin.get(link).content.decode())
    assert f"server.name == &quot;{server.name}&quot; &amp;&amp; tool.name == &quot;deploy&quot;" in shown
    assert (
        "tool.name =="
        not in words(admin.get(f"/rules/add?tool={tool.pk + 99}").content.decode())
        .partition("Examples")[0]
        .partition("id_when")[2]
    )


def test_rejected_tools_stand_apart_with_the_reason(tool: Tool, admin: Client) -> None:
    make_tool(Server.objects.get(pk=tool.server_id), "bad", rejected="the name is wrong")
    text = words(admin.get(f"/servers/{tool.server_id}/").content.decode())
    assert "Rejected tools" in text
    assert "bad the name is wrong" in text
    assert re.search(r"Tools 1\b", text)


def test_a_name_that_some_model_refuses_has_a_warning_in_list_and_tool(tool: Tool, admin: Client) -> None:
    server = Server.objects.get(pk=tool.server_id)
    dotted, digit = make_tool(server, "a.b"), make_tool(server, "9lives")
    page = words(admin.get(f"/servers/{server.pk}/").content.decode())
    assert "a.b Not for OpenAI, Anthropic auto" in page
    assert "9lives Not for Gemini auto" in page
    assert "deploy auto" in page

    def told(of: int) -> str:
        text = words(admin.get(f"/servers/{server.pk}/?tool={of}").content.decode())
        found = re.search(r"Some model APIs refuse this name\..*?to fit\.", text)
        return found[0] if found else ""

    assert told(tool.pk) == ""
    ours = "takes letters, digits, _ and -, up to"
    assert f"OpenAI {ours} 64 characters; Anthropic {ours} 128 characters. A program" in told(dotted.id)
    assert "Gemini takes letters, digits, _, -, dots and colons, the first a letter or _" in told(digit.id)
    assert "OpenAI" not in told(digit.id)


def test_a_name_that_was_made_stands_beside_the_tools_own(tenant: Tenant, tool: Tool, admin: Client) -> None:
    other = make_server(tenant, "other")
    long = "x" * 61
    listed = [Listed(name, {"name": name}, "1" * 64, "", None, False, False) for name in ("deploy", long)]
    store_snapshot(other.pk, protocol="", info={}, tools=listed)

    def told(name: str) -> str:
        row = Tool.objects.get(server=other, name=name)
        text = words(admin.get(page_of(row)).content.decode())
        return text[text.index("Name on the server") : text.index("Digest")].strip()

    assert told("deploy").startswith(
        "Name on the server deploy With the name of its server: another tool had that name first"
    )
    assert told(long) == f"Name on the server {long} Shortened to 60 characters."
    page = words(admin.get(f"/servers/{other.pk}/").content.decode())
    assert "other__deploy" in page
    assert re.search(r"x{51}_[0-9a-f]{8} auto", page)


@pytest.mark.parametrize(
    ("spec", "transport", "target"),
    [
        ("python:pkg.mod:server", "python", "pkg.mod:server"),
        ("stdio:npx -y @a/b --dir 'x y'", "stdio", "npx -y @a/b --dir 'x y'"),
        ("https://example.com:8443/mcp?a=b", "http", "https://example.com:8443/mcp?a=b"),
        (" http://10.0.0.1/mcp ", "http", "http://10.0.0.1/mcp"),
    ],
)
def test_a_server_is_added_recorded_and_announced(
    tenant: Tenant, admin: Client, spec: str, transport: str, target: str
) -> None:
    with CaptureQueriesContext(connection) as captured:
        response = admin.post("/servers/add", {"name": "new", "spec": spec, "prefix": "n_"})
    server = Server.objects.get(tenant=tenant)
    assert response["Location"] == f"/servers/{server.pk}/"
    assert (server.name, server.transport, server.target, server.prefix) == ("new", transport, target, "n_")
    assert hints(captured) == ["c", f"s {server.pk}"]
    assert Event.objects.get(tenant=tenant, action="server.added").target == "new"


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"name": ""}, "A server&#x27;s name has"),
        ({"name": "a b"}, "A server&#x27;s name has"),
        ({"prefix": "a/b"}, "A prefix has"),
        ({"prefix": "gh."}, "A prefix has"),
        ({"prefix": "9"}, "A prefix has"),
        ({"spec": ""}, "one line"),
        ({"spec": "ftp://x"}, "Expected python:"),
        ({"spec": "http://"}, "Expected a full URL"),
        ({"spec": "http://[::1/mcp"}, "Expected a full URL"),
        ({"spec": "http://h:99999/"}, "Expected a full URL"),
        ({"spec": "python:os.system"}, "Expected python:package.module:object"),
        ({"spec": "python:a:b; import os"}, "Expected python:package.module:object"),
        ({"spec": "stdio:"}, "Expected stdio:"),
        ({"spec": "stdio:a 'b"}, "cannot be read"),
        ({"spec": "stdio:a\0b"}, "one line"),
        ({"name": "taken"}, "There is a server named taken already"),
    ],
)
def test_a_server_that_cannot_be_comes_back_with_the_reason(
    tenant: Tenant, admin: Client, form: dict[str, str], why: str
) -> None:
    make_server(tenant, "taken")
    response = admin.post("/servers/add", {"name": "new", "spec": "https://h/mcp", "prefix": "", **form})
    assert response.status_code == 400
    assert why in words(response.content.decode())
    assert Server.objects.filter(tenant=tenant).count() == 1


def test_the_same_name_may_stand_in_two_tenants(admin: Client, tenant: Tenant) -> None:
    make_server(make_tenant(), "demo")
    assert admin.post("/servers/add", {"name": "demo", "spec": "https://h/mcp"}).status_code == 302


def test_disabling_asks_takes_the_tools_away_and_is_undone(tenant: Tenant, tool: Tool, admin: Client) -> None:
    url = f"/servers/{tool.server_id}/"
    assert "Disable demo?" in words(admin.get(url + "?toggle").content.decode())
    with CaptureQueriesContext(connection) as captured:
        admin.post(url + "toggle", {"enabled": "0"})
    assert hints(captured) == ["c", f"s {tool.server_id}"]
    forget_catalogues()
    assert catalogue(tenant.pk).tools == ()
    assert "Disabled" in words(admin.get("/servers/").content.decode())
    assert admin.post(url + "refresh").status_code == 409
    admin.post(url + "toggle", {"enabled": "1"})
    admin.post(url + "toggle", {"enabled": "1"})
    forget_catalogues()
    assert len(catalogue(tenant.pk).tools) == 1
    assert list(Event.objects.filter(tenant=tenant).order_by("id").values_list("action", flat=True)) == [
        "server.disabled",
        "server.enabled",
    ]


def test_a_refresh_is_asked_of_whoever_is_connected(tool: Tool, admin: Client) -> None:
    with CaptureQueriesContext(connection) as captured:
        assert admin.post(f"/servers/{tool.server_id}/refresh").status_code == 302
    assert hints(captured) == [f"l {tool.server_id}"]


SECRETS = (
    ("http", "https://bot:hunter2@h.example/mcp?api_key=s3cr3t&org=acme", ["hunter2", "s3cr3t", "bot:"], "org=acme"),
    (
        "stdio",
        "npx srv --token t0ps3cret --api-key=k3ys3cret API_TOKEN=t2s3cret /srv",
        ["t0ps3cret", "k3ys3cret", "t2s3cret"],
        "/srv",
    ),
    ("stdio", "curl https://u:p4ss@h/x", ["p4ss"], "h/x"),
)


@pytest.mark.parametrize(("transport", "target", "secrets", "kept"), SECRETS)
def test_secrets_of_a_target_are_never_shown(
    tenant: Tenant, admin: Client, transport: str, target: str, secrets: list[str], kept: str
) -> None:
    shown = redacted(transport, target)
    assert kept in shown
    spec = target if transport == "http" else f"stdio:{target}"
    pk = policies.add_server(tenant_id=tenant.pk, name="s", spec=spec, actor=ADMIN)
    for _ in range(OPENS_AFTER):
        store_failure(pk, f"cannot reach {target}: gone", probing=False)
    pages = [admin.get(url).content.decode() for url in ("/servers/", f"/servers/{pk}/", "/audit/")]
    event = Event.objects.get(tenant=tenant, action="server.added")
    pages.append(admin.get("/audit/", {"event": event.pk}).content.decode())
    for secret in secrets:
        assert secret not in shown
        assert all(secret not in page for page in pages)
        assert secret not in str(list(Event.objects.filter(tenant=tenant).values_list("after", flat=True)))
        assert secret not in str(event.after)


def test_a_viewer_reads_the_policy_and_gets_no_form(tenant: Tenant, tool: Tool) -> None:
    viewer = browser(make_person("viewer", tenant))
    page = viewer.get(page_of(tool)).content.decode()
    assert "as the tool declares" in page
    for url in (page_of(tool), "/servers/?new", f"/servers/{tool.server_id}/?toggle"):
        html = viewer.get(url).content.decode()
        assert 'class="body policy"' not in html
        assert "/servers/add" not in html
        assert "/toggle" not in html


def test_the_partials_are_no_pages(tool: Tool, admin: Client) -> None:
    for url in ("/servers/", page_of(tool)):
        assert "<html" not in admin.get(url, headers=HTMX).content.decode()


def test_as_many_queries_for_thirty_as_for_one(tenant: Tenant, tool: Tool, admin: Client) -> None:
    def queries(url: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin.get(url).status_code == 200
        return len(captured)

    catalogue(tenant.pk)  # in memory, as it mostly is
    one, detail = queries("/servers/"), queries(page_of(tool))
    server = Server.objects.get(pk=tool.server_id)
    for _ in range(30):
        make_tool(make_server(tenant))
        make_tool(server)
    assert (queries("/servers/"), queries(page_of(tool))) == (one, detail)
    assert one <= 6
    assert detail <= 11


def test_a_page_with_a_refused_form_goes_on_being_refreshed(admin: Client, tenant: Tenant) -> None:
    """It stands at the address of its form, which can be posted to only."""
    server = make_server(tenant)
    tool = make_tool(server)
    Server.objects.filter(pk=server.pk).update(transport="http", target="http://203.0.113.9/mcp")
    refused = [
        ("/servers/add", {"name": ""}),
        (f"/servers/{server.pk}/token", {"token": "no blanks"}),
        (f"/servers/{server.pk}/calls", {"calls_at_once": "0"}),
        (f"/servers/{server.pk}/tools/{tool.id}/policy", {"mode": "sometimes"}),
    ]
    for path, form in refused:
        response = admin.post(path, form)
        assert response.status_code == 400, path
        (fetched,) = re.findall(
            r'hx-get="([^"]*)"[^>]*hx-trigger="hint-servers(?!@3s from:body)', response.content.decode()
        )
        assert admin.get(urljoin(path, fetched.replace("&amp;", "&"))).status_code == 200, path
