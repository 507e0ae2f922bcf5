"""A hub to configure, and what a file of its configuration refers to."""

from __future__ import annotations

import json
from typing import Any

from django.db import connection, transaction

from taskhub.control import clients, credentials, people, rules, servers
from taskhub.control.caller import Caller, of_shell
from taskhub.control.configuration import Applied, apply_configuration, export_configuration
from taskhub.core.policy import Policy
from taskhub.core.rules import Rule, Then
from taskhub.domain.catalogue.edits import ServerEdit
from taskhub.domain.configuration.references import Missing
from taskhub.domain.credentials.records import OAuthSettings, Way
from taskhub.store.models import AuthContext, Event

SECRETS = {
    "SECRET_WEATHER_TOKEN": "t0ken-of-weather",
    "SECRET_WEATHER_HEADER_X_API_KEY": "h3ader-of-weather",
    "SECRET_FILES_COMMAND": 'c0mmand line\'s "secret"',
    "SECRET_FILES_VARIABLE_DB_PASSWORD": "v4riable\nof two lines",
    "SECRET_FILES_VARIABLE_LEVEL": "debug",
    "SECRET_PAID_ADDRESS": "us3r:p4ss",
    "SECRET_PAID_ADDRESS_2": "4ddress-key",
    "SECRET_MAIL_CLIENT_SECRET": "0auth-secret",
}
"""The secrets of `everything`, by the names that an export gives them."""


OTHERS = {"OLD": "0ld"}
"""Further ones."""


def lookup(kind: str, name: str) -> str:
    if kind != "env" or name not in {**SECRETS, **OTHERS}:
        raise Missing(f"The variable {name} is not set.")
    return {**SECRETS, **OTHERS}[name]


def apply(text: str, caller: Caller | None = None, **how: Any) -> Applied:
    return apply_configuration(caller or of_shell(), text, **{"lookup": lookup, **how})


def everything(caller: Caller) -> None:
    """A hub with every kind of setting, made by the use cases of the console."""
    files = "stdio:env GREETING=hello paid-server --token " + "'c0mmand line'\"'\"'s \"secret\"'"
    weather = servers.add_server(
        caller,
        name="weather",
        spec="https://weather.example/mcp?units=metric",
        prefix="w_",
        token=SECRETS["SECRET_WEATHER_TOKEN"],
        headers={"X-Api-Key": SECRETS["SECRET_WEATHER_HEADER_X_API_KEY"]},
        connect_seconds=7,
        calls_at_once=3,
        review=True,
        pinned="2025-11-25",
    )
    servers.edit_server(caller, weather, ServerEdit(shared=True, by_file=True))
    files = servers.add_server(
        caller,
        name="files",
        spec=files.replace("env GREETING=hello ", ""),
        environment={"DB_PASSWORD": SECRETS["SECRET_FILES_VARIABLE_DB_PASSWORD"], "LEVEL": "debug"},
        directory="/srv/files",
    )
    servers.add_server(caller, name="paid", spec="sse+https://us3r:p4ss@paid.example/sse?api_key=4ddress-key&x=1")
    servers.add_server(caller, name="local", spec="python:demo.server:server", own_process=True)
    mail = servers.add_server(caller, name="mail", spec="https://mail.example/mcp")
    credentials.set_oauth(
        caller, mail, OAuthSettings(Way.CLIENT, "https://idp.example", "hub", "0auth-secret", "mail.read mail.send")
    )
    servers.set_server_enabled(caller, mail, enabled=False, reason="later")
    policy = Policy(
        policy_mode="always",
        companion={"tool": "look", "arguments": {"path": {"argument": "path"}}},
        retry_on=["connect", "-32001"],
        policy_at_least_once=False,
    )
    servers.set_policy_by_name(caller, files, "write", policy)
    servers.set_policy_by_name(caller, files, "no", Policy(enabled=False))
    people.add_person(caller, username="Root", role="admin")
    people.add_person(caller, username="ann", role="approver", groups=["ops", "on"])
    ben, _ = people.add_person(caller, username="ben@example.com", role="viewer")
    people.disable_person(caller, ben)
    for name in ("ci-bot", "idle"):
        clients.issue_token(caller, name, scopes=["tasks:call"], days=1)
    robot = clients.add_client(caller, name="robot", issuer="https://idp.example", subject="svc-1", client_id="app")
    nobody = clients.add_client(caller, name="anonymous", issuer="", subject="anonymous", client_id="")
    clients.lock_client(caller, clients.find_client(caller, nobody))
    clients.lock_client(caller, clients.find_client(caller, AuthContext.objects.get(name="ci-bot").pk))
    clients.set_caller_settings(caller, clients.find_client(caller, robot), patience_seconds=60, hub_tools=False)
    listed = [
        Rule(name="reads", when="tool.readOnly", then=Then.ALLOW),
        Rule(name="no", when="", then=Then.ALLOW, enabled=False),
        Rule(
            name="production deploys",
            when='tool.name == "deploy" &&\n  like(args.environment, "production")\n',
            then=Then.ASK,
            group="ops",
            quorum=2,
            editable=("*",),
        ),
        Rule(name="last", when="", then=Then.DENY, words="Not \u202ehere: never.", shadow=True),
    ]
    rules.save_rules(caller, listed, expected=0)


def exported_elsewhere() -> str:
    """The export of a hub that has everything, and of which nothing is here afterwards."""
    with transaction.atomic():
        everything(of_shell())
        found = export_configuration(of_shell())
        transaction.set_rollback(True)
    return found


def state() -> dict[str, Any]:
    """All rows of what can be configured, and the number of events."""
    found: dict[str, Any] = {"events": Event.objects.count()}
    with connection.cursor() as cursor:
        for table in ("server", "tool", "server_oauth", "membership", "auth_user", "auth_context", "rule_version"):
            cursor.execute(f"SELECT to_jsonb(t) FROM {table} AS t ORDER BY t.id")
            found[table] = [json.loads(row[0]) for row in cursor.fetchall()]
    return found
