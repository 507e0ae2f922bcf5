"""The configuration as a file: what one hub exports makes another the same."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from taskhub.control.caller import of_shell
from taskhub.control.configuration import export_configuration
from taskhub.domain.catalogue.sync import enabled_servers
from taskhub.store.models import Event, Server, ServerOAuth
from tests.control.kit import SECRETS, apply, exported_elsewhere, state

pytestmark = pytest.mark.django_db


def test_what_one_hub_exports_makes_another_the_same() -> None:
    text = exported_elsewhere()
    assert not Server.objects.exists()
    applied = apply(text)
    assert export_configuration(of_shell()) == text
    assert len(applied.changes) == 4 + 5 + 2 + 3 + 4
    assert applied.newcomers == ("Root", "ann", "ben@example.com")
    (files, local, paid, weather) = sorted(enabled_servers(), key=lambda server: server.name)
    assert (weather.token, dict(weather.own_headers)) == ("t0ken-of-weather", {"X-Api-Key": "h3ader-of-weather"})
    assert dict(files.environment) == {"DB_PASSWORD": "v4riable\nof two lines", "LEVEL": "debug"}
    assert paid.target == "sse+https://us3r:p4ss@paid.example/sse?api_key=4ddress-key&x=1"
    assert files.target == "paid-server --token " + "'c0mmand line'\"'\"'s \"secret\"'"
    assert (local.own_process, weather.shared, weather.calls_at_once, weather.connect_seconds) == (True, True, 3, 7)
    assert ServerOAuth.objects.get().way == "client"


def test_a_second_apply_changes_nothing_and_records_nothing() -> None:
    text = exported_elsewhere()
    apply(text)
    before = state()
    applied = apply(text, prune=True)
    assert (applied.changes, applied.newcomers, applied.unlisted, applied.kept) == ((), (), (), ())
    assert state() == before


def test_every_change_is_on_record_with_its_reason() -> None:
    apply(exported_elsewhere(), reason="the first of all")
    recorded = Event.objects.exclude(action="token.issued")
    assert {(event.actor, event.door, event.reason) for event in recorded} == {("manage.py", "cli", "the first of all")}
    assert {event.action for event in recorded} >= {
        *("rules.changed", "server.added", "server.changed", "server.disabled", "server.oauth.changed"),
        *("tool.policy.changed", "person.added", "person.disabled", "client.added", "client.disabled"),
        "client.waiting.changed",
    }


def test_no_secret_is_exported_or_recorded_or_told() -> None:
    text = exported_elsewhere()
    applied = apply(text)
    told = [text, export_configuration(of_shell()), repr(applied), *applied.changes]
    told += [json.dumps([event.before, event.after, event.target, event.reason]) for event in Event.objects.all()]
    for name, secret in SECRETS.items():
        if name != "SECRET_FILES_VARIABLE_LEVEL":
            assert [place for place in told if secret in place] == [], name
    assert set(re.findall(r"\$\{env:(\w+)\}", text)) == SECRETS.keys()
    assert set(re.findall(r"^#   (\w+)$", text, re.MULTILINE)) == SECRETS.keys()


def test_the_file_is_plain_yaml_for_other_readers_too() -> None:
    text = exported_elsewhere()
    found = yaml.safe_load(text)
    assert [rule["name"] for rule in found["rules"]] == ["reads", "no", "production deploys", "last"]
    assert found["rules"][2]["when"].endswith(")\n")
    assert "\u202e" not in text
    assert found["people"][1] == {"username": "ann", "role": "approver", "groups": ["on", "ops"]}
    assert found["servers"][0]["tools"]["no"] == {"enabled": False}
    assert list(found["servers"][0]["tools"]["write"])[:3] == ["mode", "at_least_once", "companion"]


def test_an_empty_hub_is_exported_and_applied_too() -> None:
    text = export_configuration(of_shell())
    assert yaml.safe_load(text) == {"format": 1, "rules": [], "servers": [], "people": [], "clients": []}
    assert apply(text, prune=True).changes == ()
