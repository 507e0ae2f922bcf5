"""What a call is called: enough to tell two of one tool apart, and nothing that is secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskhub.core.calls import BEGINNING, LONGEST, begun, short

DEPLOY = {"version": "2.1.6", "service": "billing", "note": "as was said on Monday", "environment": "production"}


@pytest.mark.parametrize(
    ("arguments", "rule", "words"),
    [
        (DEPLOY, ["environment"], "production · 2.1.6 · billing · as was said on Monday"),
        (DEPLOY, ["note", "service"], "as was said on Monday · billing · 2.1.6 · production"),
        (DEPLOY, ["absent"], "2.1.6 · billing · as was said on Monday · production"),
        ({"replicas": 3, "dry": True, "x": 1.5}, [], "replicas 3 · dry true · x 1.5"),
        ({"a": "3", "b": "true", "c": "null", "d": "[]"}, [], 'a "3" · b "true" · c "null" · d "[]"'),
        ({"tags": ["a", 1], "q": "long enough"}, [], 'tags ["a", 1] · long enough'),
        ({"deep": {"a": {"b": {"c": 1}}}}, [], "deep {a: {b: {…}}}"),
        ({"many": [1, 2, 3, 4, 5, 6]}, [], "many [1, 2, 3, 4, 5, …]"),
        ({"empty": "", "nothing": None, "none": [], "no": {}}, [], ""),
        ({"empty": ""}, ["empty"], 'empty ""'),
        ({"text": "x" * 60}, [], "x" * 39 + "…"),
        ({"a": "a" * 60, "b": "b" * 60, "c": "c"}, ["b"], "b" * 39 + "… · c · …"),
        # Rows of one tool read as columns, whichever value is the shorter one.
        ({"service": "web", "version": "2.10.0"}, [], "web · 2.10.0"),
        ({"service": "billing", "version": "2.1.0"}, [], "billing · 2.1.0"),
        ({"b": "b" * 39, "a": "a" * 38, "c": "c"}, [], "a" * 38 + " · c · …"),
        ({}, ["environment"], ""),
    ],
)
def test_what_the_rule_names_comes_first_and_then_the_shortest_in_the_order_of_the_call(
    arguments: dict[str, Any], rule: list[str], words: str
) -> None:
    assert short(arguments, rule) == words


@pytest.mark.parametrize(
    ("arguments", "rule", "words"),
    [
        ({"password": "hunter2", "user": "ada"}, [], "ada"),
        ({"api_key": "hunter2"}, ["api_key"], "api_key •••"),
        ({"token": 12345}, ["token"], "token •••"),
        ({"url": "https://ada:hunter2@host/x?token=hunter2&a=1"}, [], "https://•••@host/x?token=•••&a=1"),
        ({"say": "Authorization: Bearer hunter2"}, [], "Authorization: •••"),
        ({"run": "login --token hunter2 PASSWORD=hunter2"}, [], "login --token ••• PASSWORD=•••"),
        ({"headers": {"Authorization": "hunter2", "a": [{"b": 1}]}}, [], 'headers {Authorization: "•••", a: [{…}]}'),
        ({"secrets": ["hunter2"]}, ["secrets"], 'secrets ["•••"]'),
    ],
)
def test_what_sounds_secret_is_not_told(arguments: dict[str, Any], rule: list[str], words: str) -> None:
    assert short(arguments, rule) == words


def test_the_beginning_of_arguments_is_read_wherever_it_breaks_off() -> None:
    whole = {"a": 'ü€ \\ " \n\U0001f600', "b": 12345, "c": [1, {"d": None}], "e": True}
    for text in (json.dumps(whole), json.dumps(whole, ensure_ascii=False, indent=1)):
        for end in range(len(text)):
            found = begun(text[:end])
            assert list(found) == list(whole)[: len(found)]
            for name, value in found.items():
                assert value == whole[name] or (name == "a" and text[: end + 1].count("b") == 0), (text[:end], found)
        assert begun(text) == whole
    assert begun('{"long": "' + "x" * 9) == {"long": "x" * 9}
    for strange in ("", "[1]", '{"a"', '{"a": ' + "[" * BEGINNING, "[" * BEGINNING, '{"a": 1, "b": nul'):
        assert set(begun(strange)) <= {"a"}


def test_a_name_is_short_whatever_it_is_made_of() -> None:
    names = {f"{n:03}" * 100: {"deep": ["x" * 1_000] * 100} for n in range(100)}
    for arguments in (names, {name: n for n, name in enumerate(names)}, dict.fromkeys(names, "[" * 5_000)):
        assert 0 < len(short(arguments)) <= LONGEST + len(" · …")
        assert 0 < len(short(arguments, names)) <= LONGEST + len(" · …")
