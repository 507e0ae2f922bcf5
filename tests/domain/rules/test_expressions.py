"""Expressions of rules: what they mean, when they are in doubt, what is refused, and what hostile ones cost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from taskhub.core.errors import Invalid
from taskhub.domain.rules.expressions import MAX_MS, MAX_TEXT, Values, absent_values, argument_values, compiled
from tests.support.cost import cpu_seconds

ARGUMENTS: Mapping[str, Any] = {
    "environment": "production",
    "amount": 250,
    "ratio": 1.5,
    "force": False,
    "nothing": None,
    "paths": ["/srv/a", "/etc/passwd"],
    "target": {"region": "eu", "replicas": 3},
    "big": 2**53 + 1,
    "huge": 2**70,
    "my-name": "x",
    "wrong": "200",
    "spelled": " Production",
}
CLIENT = {"id": "ci", "name": "ci-bot", "issuer": "taskhub", "subject": "ci", "scopes": ["tasks:call"], "program": ""}
TOOL = {
    "name": "deploy",
    "title": "Deploy",
    "annotations": {"readOnlyHint": False},
    "readOnly": False,
    "destructive": True,
    "idempotent": False,
    "openWorld": True,
}
NOON = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)  # a Thursday
DOUBT = None


def met(text: str, *, arguments: Mapping[str, Any] = ARGUMENTS, unfit: frozenset[str] = frozenset({"wrong"})) -> Any:
    expression = compiled(text)
    variables: dict[str, Any] = {"client": CLIENT, "server": {"name": "ops"}, "tool": TOOL, "time": NOON}
    variables |= absent_values(name for name in expression.arguments or () if name not in arguments)
    return expression.met(Values(variables | argument_values(arguments, unfit)))


MEANT = [
    ("", True),
    ("true", True),
    ("false", False),
    ("1 == 1", True),
    ("1 == 1.0", True),
    ("1 != 2", True),
    ('"a" == "a"', True),
    ("'a' == \"a\"", True),
    ('"""a""" == "a"', True),
    (r'r"a\d" == "a\\d"', True),
    (r"""size(r"\") == 1 && r'\' == '\\'""", True),
    ("true // whatever", True),
    ("!(1 == 2)", True),
    ("1 == 2 ? false : true", True),
    ("1 + 1 == 2", True),
    ("7 % 4 == 3", True),
    ("-1 < 0", True),
    ("2 >= 2", True),
    ('tool.name == "deploy"', True),
    ('tool.name == "delete"', False),
    ('tool.name in ["deploy", "delete"]', True),
    ('!(tool.name in ["delete"])', True),
    ('tool.name.startsWith("dep")', True),
    ('tool.name.endsWith("y")', True),
    ('tool.name.contains("plo")', True),
    ('tool.name.matches("^de.*y$")', True),
    (r"tool.name.matches(r'^\w{6}$')", True),
    ("size(tool.name) == 6", True),
    ("tool.name.size() == 6", True),
    ("tool.destructive", True),
    ("tool.readOnly", False),
    ("tool.destructive && !tool.readOnly", True),
    ("tool.annotations.readOnlyHint", False),
    ("has(tool.annotations.readOnlyHint)", True),
    ("has(tool.annotations.destructiveHint)", False),
    ('client.name == "ci-bot" && server.name == "ops"', True),
    ('"tasks:call" in client.scopes', True),
    ('"tasks:answer" in client.scopes', False),
    ("time.getHours() == 12", True),
    ("time.getDayOfWeek() == 4", True),
    ('time < timestamp("2027-01-01T00:00:00Z")', True),
    ('time == timestamp("2026-11-26T12:00:00Z")', True),
    ('time - timestamp("2026-11-26T11:00:00Z") == duration("1h")', True),
    ('args.environment == "production"', True),
    ('args["environment"] == "production"', True),
    ('args.environment != "staging"', True),
    ('args["my-name"] == "x"', True),
    ('args.environment in ["production", "staging"]', True),
    ("args.amount == 250", True),
    ("args.amount > 100", True),
    ("args.amount > 100 && args.amount <= 250", True),
    ("args.amount == 250.0", True),
    ("args.ratio < 2.0", True),
    ("args.ratio == 1.5", True),
    ("args.force", False),
    ("!args.force", True),
    ("args.force == false", True),
    ("args.force || args.amount > 1", True),
    ("args.nothing == null", True),
    ("args.environment == null", False),
    ("args.environment != null", True),
    ("has(args.environment)", True),
    ("has(args.nothing)", True),
    ("has(args.absent)", False),
    ("!has(args.absent)", True),
    ("has(args.wrong)", True),
    ("has(args.absent) && args.absent == 1", False),
    ('args.target.region == "eu"', True),
    ('args.target["region"] == "eu"', True),
    ("args.target.replicas > 2", True),
    ("has(args.target.region)", True),
    ("has(args.target.zone)", False),
    ('"/etc/passwd" in args.paths', True),
    ('"/etc/shadow" in args.paths', False),
    ('args.paths.exists(p, p.startsWith("/etc"))', True),
    ('args.paths.all(p, p.startsWith("/srv"))', False),
    ('args.paths.exists_one(p, p == "/srv/a")', True),
    ('args.paths.filter(p, p.startsWith("/srv")).size() == 1', True),
    ("args.paths.size() == 2", True),
    ('args.paths[0] == "/srv/a"', True),
    ('args.paths == ["/srv/a", "/etc/passwd"]', True),
    ('args.target == {"region": "eu", "replicas": 3}', True),
    ('args.target == {"region": "eu"}', False),
    ("args.environment.size() + 1 == 11", True),
    ('args.environment + "!" == "production!"', True),
    ('like(args.environment, "production")', True),
    ('like(args.environment, "staging")', False),
    ('!like(args.environment, "staging")', True),
    ("string(args.amount) == '250'", True),
    ("int('5') == 5", True),
    # an error beside what decides anyway
    ("args.absent == 1 || true", True),
    ("true || args.absent == 1", True),
    ("args.absent == 1 && false", False),
    ("args.wrong > 100 || tool.destructive", True),
    ("tool.readOnly && args.wrong > 100", False),
    ("1 / 0 == 1 || true", True),
    # in doubt
    ("args.absent == 1", DOUBT),
    ("args.absent != 1", DOUBT),
    ("!(args.absent == 1)", DOUBT),
    ("args.wrong > 100", DOUBT),
    ('args.wrong == "200"', DOUBT),
    ('args.wrong != "200"', DOUBT),
    ("!args.wrong", DOUBT),
    ('string(args.wrong) == "a"', DOUBT),
    ("args.absent == null", DOUBT),
    ('args.amount == "250"', DOUBT),
    ('args.amount != "250"', DOUBT),
    ('!(args.amount == "250")', DOUBT),
    ('args.amount in ["250"]', DOUBT),
    ("args.force == 0", DOUBT),
    ("args.environment == true", DOUBT),
    ('args.nothing == "a"', DOUBT),
    ('args.nothing != "a"', DOUBT),
    ('args.environment > "a" && args.amount > "a"', DOUBT),
    ("args.environment > 1", DOUBT),
    ('args.amount.startsWith("a")', DOUBT),
    ("args.paths == [1, 2]", DOUBT),
    ('args.paths.exists(p, p == 1)', DOUBT),
    ("args.target.zone == 1", DOUBT),
    ("args.paths[9] == 1", DOUBT),
    ("args.big == 9007199254740992", DOUBT),
    ("args.huge == 1180591620717411303424.0", True),
    ("args.huge > 1 && args.huge < 0", False),
    ('like(args.spelled, "production")', DOUBT),
    ('!like(args.spelled, "production")', DOUBT),
    ('like(args.absent, "production")', DOUBT),
    ('like(args.amount, "250")', DOUBT),
    ("1 / 0 == 1", DOUBT),
    ("1 % 0 == 1", DOUBT),
    ("9223372036854775807 + args.amount > 0", DOUBT),
    ("args.environment", DOUBT),
    ("args.amount + 1", DOUBT),
    ("args.exists(k, k == 'force')", DOUBT),  # one argument is unfit, so all of them together are
    ("args.absent ? true : false", DOUBT),
    ('int(args.environment) == 1', DOUBT),
    ('timestamp(args.environment) < time', DOUBT),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), MEANT, ids=[text for text, _ in MEANT])
def test_an_expression_means_what_it_says(text: str, expected: bool | None) -> None:
    assert met(text) is expected


def test_the_time_of_an_expression_stands_still_while_it_is_paused() -> None:
    def spend() -> None:
        until = time.thread_time() + (MAX_MS + 20) / 1000
        while time.thread_time() < until:
            pass

    when = compiled("args.a == 1")
    paused, running = (Values(argument_values({"a": 1}, frozenset())) for _ in range(2))
    paused.pause()
    spend()
    paused.resume()
    assert when.met(paused) is True
    assert when.met(running) is None
    spend()
    assert when.met(paused) is None


def test_all_arguments_together_are_a_map() -> None:
    assert met("args.exists(name, name == 'a')", arguments={"a": 1}, unfit=frozenset()) is True
    assert met("size(args) == 1", arguments={"a": 1}, unfit=frozenset()) is True
    assert compiled("size(args) == 1").arguments is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tol.name == 'x'", "At character 1: there is no tol; there are args, client, person, server, time, tool."),
        ("client.nmae == 'x'", "At character 1: client has the members id, issuer, name, program, scopes, subject."),
        ("client == 1", "client has the members"),
        ("1 == 1 == true", "At character 8: comparisons in a row need brackets."),
        ("(1 == 1", "At character 8: ( is not closed."),
        ("1 == 1)", "At character 7: ) closes nothing."),
        ("(1 == 1]", "At character 8: ] closes nothing."),
        ("1 == ", "== compares two values"),
        ("== 1", "== compares two values"),
        ("1 +", "This is no expression of CEL."),
        ("a $ b", "At character 3: '$' means nothing here."),
        ("'open", "means nothing here"),
        ("upper('x') == 'X'", "At character 1: there is no function upper"),
        ("tool.name.upper() == 'X'", "At character 11: there is no function upper"),
        ("__same(1, 1)", "there is no function __same"),
        ("__args == 1", "there is no __args"),
        # In a raw text the second quote ends it, also after a backslash.
        (r"""r"\" == string(size([1].map(a, a))) + '"' //'""", "there is no function map"),
        ("[1].map(i, i) == [1]", "there is no function map"),
        ("[1].exists(tool, true)", "exists needs a name of its own for each item"),
        ("[1].exists(args, true)", "exists needs a name of its own for each item"),
        ("[1].exists(i, [1].exists(j, true))", "At character 19: exists cannot stand in another loop."),
        ("tool.name.matches(args.pattern)", "a regular expression is given as a text"),
        ("matches(tool.name, 'x')", "there is no function matches"),
        ("tool.name.matches('(a')", "At character 19: this is no regular expression of RE2."),
        ("tool.name.matches('(((a{20}){20}){20}){20}')", "this is no regular expression of RE2"),
        ("time.getHours('Europe/Berlin') == 1", "getHours takes nothing: the time is in UTC"),
        (f"tool.name.matches('{'a' * 201}')", "a regular expression has at most 200 characters"),
        ("b'a' == b'a'", "bytes cannot be compared"),
        ("Person{name: 'x'}", "there is no Person"),
        ("(" * 17 + "1" + ")" * 17, "brackets may be nested 16 deep"),
        ("1" + " + 1" * 21 + " == 1", "an expression has at most 20 additions"),
        ("true" + " && true" * 300, "at most 400 words and signs"),
        ("'" + "a" * MAX_TEXT + "'", "at most 4,000 characters"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(Invalid) as refused:
        compiled(text)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        " || ".join(f"args.text == 'v{n}'" for n in range(60)),
        " && ".join(f"args.text.matches('(a*)*{n}$')" for n in range(8)),
        " || ".join("args.list.exists(i, i.matches('(x+x+)+y'))" for _ in range(4)),
        " + ".join(["args.text"] * 20) + " == 'x'",
        r"args.text.matches('(\\w{10}){50}(\\w*){3}$')",
        "args.list.all(i, args.text.contains(i))",
        "(" * 16 + "args.list == args.list" + ")" * 16,
        "args.list.filter(i, i in args.list).size() > 5",
        "like(args.text, 'x') || like(args.list, ['x'])",
    ],
)
def test_a_hostile_expression_costs_little(text: str) -> None:
    """The most that arguments may hold where expressions see them is in `decisions`; this is more."""
    arguments = {"text": "a" * 10_000, "list": ["x" * 10 + str(n) for n in range(100)]}
    met(text, arguments=arguments)
    assert cpu_seconds(lambda: met(text, arguments=arguments)) < 0.005


@pytest.mark.parametrize(
    ("text", "at", "meant"),
    [
        ('tool.name = "a"', 11, "=="),
        ('tool.name === "a"', 13, "=="),
        ("tool.readOnly & tool.destructive", 15, "&&"),
        ("tool.readOnly | tool.destructive", 15, "||"),
        ('tool.name == "a" and tool.readOnly', 18, "&&"),
        ('tool.name == "a" AND (tool.readOnly)', 18, "&&"),
        ('tool.name == "a" or tool.readOnly', 18, "||"),
        ("not tool.readOnly", 1, "!"),
        ("not(tool.readOnly)", 1, "!"),
        ("tool.name is 'a'", 11, "=="),
        ("tool.readOnly == True", 18, "true"),
        ("args.x == None", 11, "null"),
    ],
)
def test_words_and_signs_of_other_languages_get_a_hint_at_their_place(text: str, at: int, meant: str) -> None:
    with pytest.raises(Invalid) as refused:
        compiled(text)
    assert refused.value.message.startswith(f"At character {at}: ")
    assert refused.value.message.endswith(f". Perhaps: {meant}.")


def test_an_unknown_word_gets_no_hint() -> None:
    with pytest.raises(Invalid) as refused:
        compiled("nobody.name == 'a'")
    assert "Perhaps" not in refused.value.message
