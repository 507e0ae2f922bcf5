"""References: where they may stand, and what is told of what they lead to."""

from __future__ import annotations

import pytest

from taskhub.core.errors import Invalid
from taskhub.core.secrets import redacted
from taskhub.domain.configuration.records import Given, Spec
from taskhub.domain.configuration.references import (
    Missing,
    References,
    same_spec,
    secret_given,
    spec_given,
    value_given,
)

VALUES = {
    "A": 'al\'pha "x"',
    "B": "beta",
    "C": "pa%20ss",
    "AMP": "x&admin=1",
    "SHARP": "x#y",
    "EMPTY": "",
    "/f": "f1le",
}


def lookup(kind: str, name: str) -> str:
    if name not in VALUES or (kind == "file") != name.startswith("/"):
        raise Missing(f"{name} is not there.")
    return VALUES[name]


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("https://a.example/mcp", "https://a.example/mcp", "https://a.example/mcp"),
        ("https://${env:C}@a.example", "https://pa%20ss@a.example", "https://•••@a.example"),
        ("https://me:${env:B}@a.example", "https://me:beta@a.example", "https://•••@a.example"),
        ("https://a.example?key=${env:B}&x=1", "https://a.example?key=beta&x=1", "https://a.example?key=•••&x=1"),
        ("https://a.example#${file:/f}", "https://a.example#f1le", "https://a.example#•••"),
        ("stdio:run --token ${env:A} now", "stdio:run --token 'al'\"'\"'pha \"x\"' now", "stdio:run --token ••• now"),
        ("stdio:run '--key=${env:A}'", "stdio:run '--key=al'\"'\"'pha \"x\"'", "stdio:run --key=•••"),
        ("stdio:env T=${env:A} run", "stdio:env 'T=al'\"'\"'pha \"x\"' run", "stdio:env T=••• run"),
        ("stdio:run 'X-Key: ${env:B}'", "stdio:run 'X-Key: beta'", "stdio:run 'X-Key: •••'"),
        ("stdio:run ${HOME} $${env:B}", "stdio:run ${HOME} ${env:B}", "stdio:run ${HOME} ${env:B}"),
    ],
)
def test_references_stand_for_what_is_hidden(text: str, value: str, shown: str) -> None:
    assert spec_given(text, lookup) == Spec(text, value, "", shown)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("https://a.example/${env:B}", "${env:B} would stand where"),
        ("https://${env:B}.example", "${env:B} would stand where"),
        ("python:${env:B}.server:app", "${env:B} would stand where"),
        ("python:demo server:${env:B}", "Expected python:package.module:object, found 'python:demo server:${env:B}'"),
        ("${env:B}", "found '${env:B}'"),
        ("stdio:run ${env:B}", "${env:B} would stand where"),
        ("https://me:literal@a.example", "A part of it may be a secret"),
        ("https://a.example?key=literal&token=${env:B}", "A part of it may be a secret"),
        ("stdio:run --password literal --token ${env:B}", "A part of it may be a secret"),
        ("https://a.example?key=${env:AMP}", "With ${env:AMP} filled in"),
        ("https://a.example?key=${env:SHARP}", "With ${env:SHARP} filled in"),
        ("https://a.example?key=${env:EMPTY}", "${env:EMPTY} is empty"),
        ("https://a.example?key=${env:no-name}", "'no-name' is no name of a variable"),
        ("https://a.example?key=${file:relative}", "named by its full path"),
        ("stdio:run '${env:B}", "The command cannot be read"),
        ("name=https://a.example", "The name is given as `name`"),
    ],
)
def test_what_no_reference_may_do_is_refused_without_its_value(text: str, told: str) -> None:
    with pytest.raises(Invalid) as refused:
        spec_given(text, lookup)
    assert told in refused.value.message
    assert not any(value in refused.value.message for value in VALUES.values() if value and value not in text)


def test_a_reference_that_leads_nowhere_says_so_and_keeps_the_shape() -> None:
    found = spec_given("https://a.example?key=${env:GONE}", lookup)
    assert (found.value, found.missing, found.shown) == (None, "GONE is not there.", "https://a.example?key=•••")
    assert secret_given("${file:/gone}", lookup).missing == "/gone is not there."


def test_secrets_stand_in_no_file() -> None:
    assert secret_given("${env:B}", lookup) == Given("", "beta")
    assert value_given("X-Auth", "Basic ${env:B}", lookup).value == "Basic beta"
    assert value_given("X-Team", "blue", lookup).value == "blue"
    for refused in (
        lambda: secret_given("beta", lookup),
        lambda: secret_given("$${env:B}", lookup),
        lambda: value_given("X-Auth", "beta", lookup),
        lambda: value_given("URL", "https://me:beta@a.example", lookup),
    ):
        with pytest.raises(Invalid) as error:
            refused()
        assert "beta" not in error.value.message


def test_texts_say_neither_secrets_nor_what_is_filled_in() -> None:
    assert "beta" not in repr(secret_given("${env:B}", lookup))
    assert "beta" not in repr(spec_given("https://${env:B}@a.example", lookup))


def test_the_same_words_are_the_same_command() -> None:
    one, other = spec_given("stdio:run  'it' now", lookup), spec_given("stdio:run it now", lookup)
    assert same_spec(one, other)
    assert not same_spec(one, spec_given("stdio:run it", lookup))
    assert not same_spec(one, spec_given("https://run.example", lookup))


def test_made_up_references_are_told_apart_and_read_as_they_are_meant() -> None:
    made = References()
    assert made.secret("my server", "token") == "${env:SECRET_MY_SERVER_TOKEN}"
    assert made.secret("my-server", "token") == "${env:SECRET_MY_SERVER_TOKEN_2}"
    assert made.secret("my.server", "token") == "${env:SECRET_MY_SERVER_TOKEN_3}"
    command = "env A=b c --key x ${env:HOME}"
    text = made.spec("1st", "stdio", redacted("stdio", command))
    assert text == "stdio:env A=${env:SECRET_1ST_COMMAND} c --key ${env:SECRET_1ST_COMMAND_2} $${env:HOME}"
    values = {"SECRET_1ST_COMMAND": "b", "SECRET_1ST_COMMAND_2": "x"}
    filled = spec_given(text, lambda kind, name: values[name])
    assert same_spec(filled, Spec("", f"stdio:{command}"))
