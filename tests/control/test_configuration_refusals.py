"""Files of a configuration that are wrong: refused whole, with the line."""

from __future__ import annotations

import pytest

from taskhub.control import people, rules
from taskhub.control.caller import of_shell
from taskhub.core.errors import Invalid
from taskhub.core.rules import Rule, Then
from taskhub.domain.clients.principals import default_tenant
from taskhub.store.models import Server
from tests.control.kit import SECRETS, apply, state
from tests.factories import make_person, make_server, make_tenant, make_tool

pytestmark = pytest.mark.django_db

HEAD = "format: 1\n"
THERE = "servers:\n  - name: there\n    spec: python:demo:server\n"
RULE = "  - name: {}\n    when: {}\n    then: {}\n"
WRONG: dict[str, tuple[str, int, str]] = {
    "nothing": ("", 1, "There is nothing in it"),
    "no yaml": ("format: 1\nrules: [\n", 3, "no YAML"),
    "no mapping": ("- format: 1\n", 1, "A file of configuration has format: 1"),
    "no format": ("rules: []\n", 1, "does not say its format"),
    "another format": ("rules: []\nformat: 2\n", 2, "reads format: 1 alone"),
    "a format that is true": ("format: true\n", 1, "reads format: 1 alone"),
    "an unknown part": (HEAD + "people: []\nplugins: []\n", 3, "There is no part 'plugins'"),
    "a part twice": (HEAD + "people: []\nrules: []\npeople: []\n", 4, "'people' is given twice"),
    "an alias": (HEAD + "clients:\n  - name: &a x\n  - name: *a\n", 3, "Anchors and aliases"),
    "a tag": (HEAD + "clients:\n  - !!map {name: x}\n", 3, "Tags"),
    "an invisible character": (HEAD + "clients:\n  - name: a\u200bb\n", 3, "U+200B"),
    "a part that is no list": (HEAD + "rules:\n  name: x\n", 2, "A list of rules is expected"),
    "a rule that is no mapping": (HEAD + "rules:\n  - x\n", 3, "rule 1: A rule is an object"),
    "an unknown field of a rule": (
        HEAD + "rules:\n" + RULE.format("a", "''", "allow") + "    wenn: x\n",
        6,
        "rule 1: wenn: A rule has no 'wenn'",
    ),
    "an expression that is wrong": (
        HEAD + "rules:\n" + RULE.format("a", "''", "allow") + RULE.format("b", "tool.nmae", "ask"),
        7,
        "rule 2: when: At character 1",
    ),
    "a verdict that there is not": (
        HEAD + "rules:\n" + RULE.format("a", "''", "maybe"),
        5,
        "rule 1: then: Give one of hide, deny, ask, allow, not",
    ),
    "two rules of a name": (
        HEAD + "rules:\n" + RULE.format("a", "''", "allow") * 2,
        6,
        "Rules 1 and 2 are both named a",
    ),
    "a rule whose name is a number": (
        HEAD + "rules:\n" + RULE.format("7", "''", "allow"),
        3,
        "rule 1: name: Give text",
    ),
    "a quorum that is no number": (
        HEAD + "rules:\n" + RULE.format("a", "''", "ask") + "    quorum: two\n",
        6,
        "rule 1: quorum: Give a whole number",
    ),
    "a preview of nothing": (
        HEAD + "rules:\n" + RULE.format("a", "''", "ask") + "    preview: {}\n",
        6,
        "rule 1: preview: A preview is",
    ),
    "a preview of a rule that allows": (
        HEAD + "rules:\n" + RULE.format("a", "''", "allow") + "    preview: {tool: plan}\n",
        6,
        "rule 1: preview: Only a rule that asks has a preview.",
    ),
    "a group of a rule that allows": (
        HEAD + "rules:\n" + RULE.format("a", "''", "allow") + "    group: ops\n",
        6,
        "rule 1: group: Only a rule that asks has a group that is asked.",
    ),
    "rules that are not listed": (HEAD + "people: []\nrules: []\n", 3, "rules that are not listed here: kept"),
    "a server without a spec": (HEAD + "servers:\n  - name: a\n    prefix: b\n", 3, "It needs spec"),
    "an unknown field of a server": (
        HEAD + "servers:\n  - name: a\n    spec: https://a.example\n    tokne: ${env:TOKEN}\n",
        5,
        "There is no 'tokne' here",
    ),
    "a spec of nothing": (HEAD + "servers:\n  - name: a\n    spec: ftp://a.example\n", 4, "spec: Expected python:"),
    "no for a boolean": (
        HEAD + "servers:\n  - name: a\n    spec: https://a.example\n    shared: no\n",
        5,
        "shared: Give true or false",
    ),
    "a server twice": (
        HEAD + "servers:\n  - {name: a, spec: 'https://a.example'}\n  - {name: a, spec: 'https://b.example'}\n",
        4,
        "stands in line 3 already",
    ),
    "a secret in the file": (
        HEAD + "servers:\n  - name: a\n    spec: https://a.example\n    token: sw0rdfish\n",
        5,
        "token: A secret stands in no file",
    ),
    "a secret in a header": (
        HEAD + "servers:\n  - name: a\n    spec: https://a.example\n    headers:\n      X-Api-Key: sw0rdfish\n",
        6,
        "headers: X-Api-Key: The value of X-Api-Key may be a secret",
    ),
    "a secret in an address": (
        HEAD + "servers:\n  - name: a\n    spec: https://me:sw0rdfish@a.example\n",
        4,
        "spec: A part of it may be a secret (https://•••@a.example)",
    ),
    "a secret where it is shown": (
        HEAD + "servers:\n  - name: a\n    spec: https://a.example/${env:SECRET_WEATHER_TOKEN}\n",
        4,
        "${env:SECRET_WEATHER_TOKEN} would stand where the address or command is shown",
    ),
    "a secret that makes another address": (
        HEAD + "servers:\n  - name: a\n    spec: https://${env:ODD}@a.example\n",
        4,
        "With ${env:ODD} filled in, this is another address",
    ),
    "a variable that is not set": (
        HEAD + "servers:\n  - name: a\n    spec: https://a.example\n    token: ${env:NOT_SET}\n",
        5,
        "token: The variable NOT_SET is not set.",
    ),
    "a variable that is empty": (
        HEAD + "servers:\n  - name: a\n    spec: https://a.example\n    token: ${env:EMPTY}\n",
        5,
        "token: ${env:EMPTY} is empty",
    ),
    "a token that is none": (
        HEAD + "servers:\n  - name: a\n    spec: https://a.example\n    token: ${env:ODD}\n",
        5,
        "server a: token: A token has up to 4,096 characters",
    ),
    "a header of ours": (
        HEAD + "servers:\n  - name: a\n    spec: https://a.example\n    headers:\n      Host: x\n",
        5,
        "server a: headers: The header Host is set by TaskHub itself",
    ),
    "variables of an address": (
        HEAD + "servers:\n  - name: a\n    environment: {LEVEL: debug}\n    spec: https://a.example\n",
        4,
        "server a: environment: Only a command is given variables",
    ),
    "a way that there is not": (
        HEAD + "servers:\n  - name: a\n    spec: https://a.example\n    oauth:\n      way: mine\n",
        6,
        "oauth: The way is one of client, shared, each",
    ),
    "an issuer that is none": (
        HEAD + "servers:\n  - name: a\n    spec: https://a.example\n    oauth:\n      way: each\n      issuer: x\n",
        7,
        "server a: This is no issuer",
    ),
    "a tool that there is not": (
        HEAD + THERE + "    tools:\n      deploi: {enabled: false}\n",
        6,
        "server there: tool deploi: there has no tool deploi",
    ),
    "a mode that there is not": (
        HEAD
        + "servers:\n  - name: there\n    spec: python:demo:server\n    tools:\n      deploy:\n        mode: soon\n",
        7,
        "server there: tool deploy: The mode is",
    ),
    "a companion that there is not": (
        HEAD
        + THERE
        + "    tools:\n      deploy:\n        companion:\n"
        + "          arguments: {}\n          tool: nothing\n",
        9,
        "Choose another tool of the same server",
    ),
    "a person without a role": (HEAD + "people:\n  - username: eve\n", 3, "It needs role"),
    "a role that there is not": (
        HEAD + "people:\n  - username: eve\n    role: boss\n",
        4,
        "person eve: role: Choose one of",
    ),
    "a group that is no name": (
        HEAD
        + "people:\n  - username: eve\n    role: viewer\n    groups: [ops, '']\n  - username: max\n    role: viewer\n"
        "    groups:\n      - '!'\n",
        8,
        "person max: groups: '!' is no group's name",
    ),
    "a group that is no text": (
        HEAD + "people:\n  - username: eve\n    role: viewer\n    groups:\n      - ops\n      - 7\n",
        7,
        "groups: Give text. Put it in quotes",
    ),
    "one person in two cases": (
        HEAD + "people:\n  - {username: eve, role: viewer}\n  - {username: Eve, role: viewer}\n",
        4,
        "stands in line 3 already",
    ),
    "a person of another tenant": (
        HEAD + "people:\n  - username: eve\n    role: viewer\n  - username: outside\n    role: viewer\n",
        5,
        "person outside: username: There is a person named outside already",
    ),
    "no admin left": (
        HEAD + "people:\n  - username: eve\n    role: viewer\n  - username: boss\n    role: viewer\n",
        5,
        "person boss: boss is the only admin",
    ),
    "a client without a name": (HEAD + "clients:\n  - locked: true\n", 3, "It needs name"),
    "a client whose name is empty": (HEAD + "clients:\n  - name: ' '\n", 3, "client  : name: A client needs a name"),
    "a client of another issuer without a subject": (
        HEAD + "clients:\n  - name: a\n    issuer: https://idp.example\n",
        3,
        "client a: A client of another issuer has the subject",
    ),
    "a client of ours with a subject": (
        HEAD + "clients:\n  - name: a\n    subject: b\n",
        4,
        "client a: subject: A client whose tokens are issued here has no subject",
    ),
    "a patience that is too long": (
        HEAD + "clients:\n  - name: a\n  - name: b\n    patience_seconds: 999999\n",
        5,
        "client b: From 1 to 3,600 seconds",
    ),
    "the last part of a file that is right so far": (
        HEAD
        + "people:\n  - {username: eve, role: viewer}\nservers:\n  - {name: new, spec: 'https://a.example'}\n"
        + "clients:\n  - name: new\nrules:\n"
        + RULE.format("kept", "''", "allow")
        + RULE.format("new", "nothing", "deny"),
        13,
        "rule 2: when:",
    ),
}
"""A file, the line that is refused, and what is said about it."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused_with_its_line_and_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SECRETS, "ODD", "sw0rd/fish?x#y")
    monkeypatch.setitem(SECRETS, "EMPTY", "")
    caller = of_shell()
    there = make_server(default_tenant(), "there")
    Server.objects.update(catalogue_at=there.created_at)
    make_tool(there, "deploy")
    people.add_person(caller, username="boss", role="admin")
    make_person("viewer", make_tenant(), username="outside")
    rules.save_rules(caller, [Rule(name="kept", when="", then=Then.ALLOW)], expected=0)
    text, line, told = WRONG[name]
    before = state()
    for dry_run in (True, False):
        with pytest.raises(Invalid) as refused:
            apply(text, dry_run=dry_run)
        assert (refused.value.data["line"], told in refused.value.message) == (line, True), refused.value.message
        assert "sw0rd" not in refused.value.message
        assert state() == before
