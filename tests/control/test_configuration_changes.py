"""A file is applied to a hub that has something already."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import yaml
from django.contrib.auth import get_user_model

from taskhub.control import clients, people, rules, servers
from taskhub.control.caller import Caller, of_person, of_shell
from taskhub.control.configuration import export_configuration
from taskhub.core.errors import Forbidden, Invalid
from taskhub.core.rules import Rule, Then
from taskhub.core.states import Door
from taskhub.domain.catalogue.sync import Listed, enabled_servers, store_snapshot
from taskhub.store.models import AuthContext, Event, Membership, Server, Tool
from tests.control.kit import OTHERS, SECRETS, apply, everything, state
from tests.domain import kit
from tests.factories import make_context, make_person, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db


def small() -> Caller:
    """A hub with a server that has all kinds of secrets, two people and two clients."""
    caller = of_shell()
    servers.add_server(
        caller,
        name="acme",
        spec="https://acme.example/mcp",
        token="t0ken-of-weather",
        headers={"X-Api-Key": "h3ader-of-weather", "X-Old": "0ld"},
    )
    people.add_person(caller, username="boss", role="admin")
    people.add_person(caller, username="ann", role="viewer", groups=["ops"])
    for name in ("ci-bot", "idle"):
        clients.add_client(caller, name=name, issuer="taskhub", subject=name, client_id=name)
    return caller


ACME = """\
format: 1
servers:
  - name: acme
    spec: https://acme.example/mcp
    token: ${env:SECRET_WEATHER_TOKEN}
    headers:
      X-Api-Key: ${env:SECRET_WEATHER_HEADER_X_API_KEY}
      X-Old: ${env:OLD}
"""


def acme() -> Any:
    (found,) = (server for server in enabled_servers() if server.name == "acme")
    return found


def test_parts_and_entries_that_are_not_listed_are_left_alone() -> None:
    caller = small()
    rules.save_rules(caller, [Rule(name="kept", when="", then=Then.ALLOW)], expected=0)
    before = state()
    applied = apply("format: 1\nservers: []\npeople:\n  - {username: BOSS, role: admin}\nclients: [{name: idle}]\n")
    assert (applied.changes, state()) == ((), before)
    assert applied.unlisted == ("person ann", "server acme", "client ci-bot")


def test_what_is_not_listed_is_pruned_and_a_client_locked() -> None:
    small()
    tool = Tool.objects.create(
        server=Server.objects.get(), name="look", exposed_name="look", definition={}, digest="", max_attempts=2
    )
    rules.save_rules(of_shell(), [Rule(name=name, when="", then=Then.ASK) for name in "abc"], expected=0)
    text = ACME + "    tools: {}\npeople:\n  - {username: boss, role: admin}\nclients: [{name: idle}]\n"
    text += "rules:\n  - {name: c, when: '', then: ask}\n  - {name: b, when: '', then: ask, quorum: 2}\n"
    applied = apply(text, prune=True)
    assert applied.changes == (
        "rule b: quorum 2 (was 1)",
        "rule a: removed",
        "rules in another order: c",
        "tool acme/look: max_attempts 3 (was 2)",
        "person ann: removed",
        "client ci-bot: locked true (was false)",
    )
    tool.refresh_from_db()
    assert (tool.max_attempts, Membership.objects.count()) == (3, 1)
    assert apply(text, prune=True).changes == ()
    applied = apply("format: 1\nservers: []\n", prune=True)
    assert (applied.changes, Server.objects.filter(removed_at=None).count()) == (("server acme: removed",), 0)


def test_the_preview_of_a_rule_is_written_as_it_is_read() -> None:
    small()
    rules.save_rules(of_shell(), [Rule(name="a", when="", then=Then.ASK)], expected=0)
    text = "format: 1\nrules:\n  - name: a\n    when: ''\n    then: ask\n    preview: {}\n"
    applied = apply(text.format("{tool: plan}"))
    assert applied.changes == ('rule a: preview {"tool": "plan"} (was default)',)
    applied = apply(text.format("{arguments: {dry_run: true}}"))
    assert applied.changes == ('rule a: preview {"arguments": {"dry_run": true}} (was {"tool": "plan"})',)
    assert "    preview:\n      arguments:\n        dry_run: true\n" in export_configuration(of_shell())
    assert apply(text.format("{arguments: {dry_run: true}}")).changes == ()


def test_a_server_with_live_calls_is_not_pruned() -> None:
    small()
    server = Server.objects.get()
    make_task(make_context(server.tenant), make_tool(server))
    with pytest.raises(Invalid, match="server acme: The server has calls that have not ended: 1 wait") as refused:
        apply("format: 1\n\nservers: []\n", prune=True)
    assert refused.value.data["line"] == 3


def test_a_dry_run_says_the_same_and_takes_all_of_it_back() -> None:
    small()
    text = ACME.replace(
        "  - name: acme", "  - name: new\n    spec: https://new.example\n  - name: acme\n    prefix: a_"
    )
    before = state()
    would = apply(text, dry_run=True)
    assert would.changes == ('server acme: prefix a_ (was "")', "server new: added, https://new.example")
    assert state() == before
    assert apply(text).changes == would.changes


def test_a_listed_server_has_what_the_file_says_and_no_more() -> None:
    small()
    applied = apply("format: 1\nservers:\n  - {name: acme, spec: 'https://acme.example/mcp', review: true}\n")
    assert applied.changes == (
        "server acme: review true (was false), token removed, header X-Api-Key removed, header X-Old removed",
    )
    assert (acme().token, acme().own_headers) == ("", ())


def test_secrets_are_replaced_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    small()
    stored = Server.objects.get().headers
    monkeypatch.setitem(SECRETS, "SECRET_WEATHER_HEADER_X_API_KEY", "another-0ne")
    applied = apply(ACME)
    assert applied.changes == ("server acme: header X-Api-Key replaced",)
    assert Server.objects.get().headers["X-Old"] == stored["X-Old"]
    assert dict(acme().own_headers)["X-Api-Key"] == "another-0ne"
    assert Event.objects.order_by("id").values_list("action", flat=True).last() == "server.headers.changed"


def test_another_address_gets_its_secrets_from_the_file() -> None:
    small()
    text = ACME.replace("acme.example/mcp", "acme.example/v2?key=${env:SECRET_PAID_ADDRESS_2}")
    assert apply(text).changes == ("server acme: spec https://acme.example/v2?key=••• (was https://acme.example/mcp)",)
    assert (acme().target, acme().token) == ("https://acme.example/v2?key=4ddress-key", "t0ken-of-weather")
    assert dict(acme().own_headers) == {"X-Api-Key": "h3ader-of-weather", "X-Old": "0ld"}
    assert apply(text).changes == ()


def test_a_secret_in_an_address_alone_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    small()
    text = ACME.replace("acme.example/mcp", "acme.example/mcp?key=${env:SECRET_PAID_ADDRESS_2}")
    apply(text)
    monkeypatch.setitem(SECRETS, "SECRET_PAID_ADDRESS_2", "n3w")
    assert apply(text).changes == ("server acme: another secret in its spec",)
    assert acme().target == "https://acme.example/mcp?key=n3w"


def test_secrets_of_the_hub_are_kept_where_references_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    small()
    text = ACME.replace("acme.example/mcp", "acme.example/mcp?key=${env:SECRET_PAID_ADDRESS_2}")
    apply(text)
    text = text.replace("  - name: acme\n", "  - name: acme\n    prefix: b_\n")
    before = acme()
    for name in ("SECRET_WEATHER_TOKEN", "SECRET_PAID_ADDRESS_2"):
        monkeypatch.delitem(SECRETS, name)
    monkeypatch.delitem(OTHERS, "OLD")
    with pytest.raises(Invalid, match=r"The variable SECRET_PAID_ADDRESS_2 is not set\. To leave .*: --keep-secrets\."):
        apply(text)
    applied = apply(text, keep_secrets=True)
    assert applied.changes == ('server acme: prefix b_ (was "")',)
    assert applied.kept == ("server acme: spec", "server acme: token", "server acme: headers.X-Old")
    assert (acme().token, acme().target, acme().own_headers) == (before.token, before.target, before.own_headers)
    for wrong in (text.replace("mcp?key", "v2?key"), text.replace("name: acme", "name: other")):
        with pytest.raises(Invalid, match="The variable SECRET_PAID_ADDRESS_2 is not set"):
            apply(wrong, keep_secrets=True)
    with pytest.raises(Invalid, match=r"headers\.X-New: The variable OLD is not set"):
        apply(text.replace("X-Old", "X-New"), keep_secrets=True)


def test_a_server_goes_from_a_token_to_oauth_and_back() -> None:
    small()
    base = "format: 1\nservers:\n  - name: acme\n    spec: https://acme.example/mcp\n"
    oauth = "    oauth: {way: client, client_id: hub, secret: '${env:SECRET_MAIL_CLIENT_SECRET}'}\n"
    apply(base + oauth)
    assert (acme().token, acme().oauth) == ("", "client")
    assert apply(base + oauth).changes == ()
    applied = apply(base + oauth.replace("way: client", "way: each"))
    assert applied.changes == ("server acme: oauth way each (was client)",)
    applied = apply(base + "    token: ${env:SECRET_WEATHER_TOKEN}\n")
    assert applied.changes == ("server acme: token given, authorized by OAuth no more",)
    applied = apply(base + "    headers: {Authorization: 'Basic ${env:OLD}'}\n")
    assert applied.changes == ("server acme: token removed, header Authorization given",)
    assert acme().own_headers == (("Authorization", "Basic 0ld"),)


def test_a_command_becomes_an_object_in_a_process_of_its_own_and_back() -> None:
    caller = of_shell()
    servers.add_server(caller, name="a", spec="stdio:run it", environment={"LEVEL": "x"}, directory="/srv")
    first = "format: 1\nservers:\n  - name: a\n    spec: "
    texts = (
        "python:demo:server\n    own_process: true\n    environment: {LEVEL: y}\n    directory: /tmp\n",
        "python:demo:server\n",
        "stdio:run   'it' --key ${env:OLD}\n    environment: {LEVEL: y}\n",
        "stdio:run it --key ${env:OLD}\n    environment: {LEVEL: y}\n",
        "https://a.example\n    calls_at_once: 3\n    connect_seconds: 4\n",
        "https://a.example\n",
    )
    counts = []
    for text in texts:
        counts.append(len(apply(first + text).changes))
        assert apply(first + text).changes == ()
    assert counts == [1, 1, 1, 0, 1, 1]
    with pytest.raises(Invalid, match="connect_seconds: Give a number from 1 on"):
        apply(first + "https://a.example\n    calls_at_once: 1\n    connect_seconds: 0\n    prefix: x\n")


def test_the_only_admin_may_change_places() -> None:
    caller = small()
    text = "format: 1\npeople:\n  - {username: boss, role: viewer, enabled: false}\n  - {username: ann, role: admin}\n"
    assert apply(text).changes == (
        'person ann: role admin (was viewer), groups [] (was ["ops"])',
        "person boss: role viewer (was admin), enabled false (was true)",
    )
    applied = apply("format: 1\npeople: [{username: new, role: admin}]\n", prune=True)
    assert applied.newcomers == ("new",)
    new = people.find_person(caller, "new")
    assert not get_user_model().objects.get(pk=new).has_usable_password()
    people.set_password(caller, new)
    assert apply("format: 1\npeople: [{username: new, role: admin}]\n").changes == ()
    assert get_user_model().objects.get(pk=new).has_usable_password()


def test_another_tenant_is_neither_exported_nor_touched() -> None:
    other = Caller(make_tenant().pk, of_shell().actor)
    everything(other)
    mine = of_shell()
    servers.add_server(mine, name="acme", spec="https://acme.example/mcp")
    people.add_person(mine, username="boss", role="admin")
    text = export_configuration(mine)
    assert "weather" not in text
    assert "ben" not in text
    before = [row for row in state()["server"] + state()["membership"] if row["tenant_id"] == other.tenant_id]
    apply("format: 1\nservers: []\npeople: [{username: boss, role: admin}]\nclients: []\nrules: []\n", prune=True)
    assert [row for row in state()["server"] + state()["membership"] if row["tenant_id"] == other.tenant_id] == before
    assert len(yaml.safe_load(export_configuration(other))["servers"]) == 5


def test_whoever_may_not_change_all_of_it_changes_nothing() -> None:
    tenant = make_tenant()
    for role in ("viewer", "operator", "approver", "auditor"):
        by = of_person(make_person(role, tenant), door=Door.WEB)
        for use in (lambda by=by: apply(ACME, by), lambda by=by: export_configuration(by)):
            with pytest.raises(Forbidden):
                use()
    assert not Server.objects.exists()
    assert Event.objects.filter(action="access.denied").count() == 8
    assert apply(ACME, of_person(make_person("admin", tenant), door=Door.WEB)).changes


def test_settings_of_tools_apply_from_the_first_listing_on() -> None:
    caller = of_shell()
    pk = servers.add_server(caller, name="a", spec="python:demo:server")
    text = (
        "format: 1\nservers:\n  - name: a\n    spec: python:demo:server\n    tools:\n      deploy: {max_attempts: 2}\n"
    )
    assert apply(text).changes == ("tool a/deploy: max_attempts 2 (was 3)",)
    listed = Listed("deploy", {"name": "deploy"}, "1" * 64, "", None, False, False)
    store_snapshot(pk, protocol="2026-07-28", info={}, tools=[listed])
    tool = Tool.objects.get()
    assert (tool.max_attempts, tool.gone_at, tool.digest) == (2, None, "1" * 64)
    assert apply(text).changes == ()
    applied = apply(text.replace("{max_attempts: 2}", "{run_seconds: 5}"))
    assert applied.changes == ("tool a/deploy: max_attempts 3 (was 2), run_seconds 5 (was 900)",)


def test_secrets_of_another_key_are_exported_by_name_and_given_anew(settings: Any) -> None:
    everything(of_shell())
    text = export_configuration(of_shell())
    settings.SECRET_KEY = "another-key-of-this-hub"
    assert export_configuration(of_shell()) == text
    applied = apply(text)
    assert [line.partition(":")[0] for line in applied.changes] == [
        "server files",
        "server mail",
        "server paid",
        "server weather",
    ]
    assert "server weather: token replaced, header X-Api-Key replaced" in applied.changes
    assert {server.unusable for server in enabled_servers()} == {""}
    assert apply(text).changes == ()


@pytest.mark.django_db(transaction=True)
def test_of_two_who_apply_a_file_at_once_the_second_finds_nothing_to_change() -> None:
    of_shell()
    text = "format: 1\npeople: [{username: ann, role: admin}]\nclients: [{name: ci}]\n" + ACME.partition("\n")[2]
    crew = kit.Crew(2)
    try:
        found: list[Any] = crew.race(partial(apply, text), partial(apply, text))
    finally:
        crew.close()
    assert sorted(len(each.changes) for each in found) == [0, 3]
    assert (Server.objects.count(), Membership.objects.count(), AuthContext.objects.count()) == (1, 1, 1)
