"""The names that clients see: what is made fits every model's API, and is made the same each time."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from taskhub.core.names import HUB_TOOL_PREFIX, MAX_EXPOSED_NAME, MODEL_APIS, exposed_name, refusing_apis, why_named_so

OPENAI = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
ANTHROPIC = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")
GEMINI = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$")

LONG = "x" * 200


def named(server: str, name: str, *taken: str, prefix: str = "") -> str:
    return exposed_name(server, name, prefix=prefix, taken=set(taken))


@pytest.mark.parametrize("name", ["look", "a.b", "a-b_c", "Look", "9lives", "x" * 60, "taskhub"])
def test_a_servers_own_name_stays_as_it_is(name: str) -> None:
    assert named("first", name) == name
    assert why_named_so("first", name, name, prefix="") == ""


@pytest.mark.parametrize(
    ("server", "prefix", "name", "taken", "made"),
    [
        ("second", "", "look", ["look"], "second__look"),
        ("second", "", "a.b", ["a.b"], "second__a_b"),
        ("prod.eu", "", "a/b c", ["a/b c"], "prod_eu__a_b_c"),
        ("second", "", "größe", ["größe"], "second__gr__e"),
        ("7zip", "", "pack", ["pack"], "_7zip__pack"),
        ("-x", "", "pack", ["pack"], "_-x__pack"),
        ("second", "", "look", ["look", "second__look"], "second__look_b3c5088c"),
        ("second", "gh_", "search", [], "gh_search"),
        ("second", "gh.", "search", [], "gh_search"),
        ("second", "gh_", "search", ["gh_search"], "second__search"),
        ("second", "9", "search", [], "_9search"),
        ("second", "", "taskhub_get_task", [], "second__taskhub_get_task"),
        ("taskhub", "", "taskhub_x", [], "_taskhub__taskhub_x"),
        ("second", "taskhub_", "x", [], "_taskhub_x"),
        ("second", "", "x" * 61, [], "x" * 51 + "_dcc79f3d"),
        ("second", "", "x" * 128, [], "x" * 51 + "_60a86de0"),
        ("s" * 64, "", "look", ["look"], "s" * 51 + "_11c9872c"),
    ],
)
def test_a_name_is_made_where_it_cannot_stay(server: str, prefix: str, name: str, taken: list[str], made: str) -> None:
    assert named(server, name, *taken, prefix=prefix) == made


def test_names_that_collide_again_and_again_get_further_suffixes() -> None:
    taken: list[str] = ["look"]
    for _ in range(50):
        taken.append(named("second", "look", *taken))
    assert len(set(taken)) == 51
    again = ["look"]
    for _ in range(50):
        again.append(named("second", "look", *again))
    assert taken == again
    assert all(OPENAI.match(name) and GEMINI.match(name) for name in taken)


@pytest.mark.parametrize("character", sorted({*string.printable, "é", "日", "\u200b", "\ud800", "😀"}))
def test_whatever_is_in_it_a_made_name_is_good_everywhere(character: str) -> None:
    given = [(character, character), ("s", character * 200), (character * 64, "x"), ("taskhub_", character)]
    for server, name in given:
        made = named(server, name, name)
        assert OPENAI.match(made)
        assert ANTHROPIC.match(made)
        assert GEMINI.match(made)
        assert len(made) <= MAX_EXPOSED_NAME
        assert not made.startswith(HUB_TOOL_PREFIX)
        assert refusing_apis(made) == ()


def test_two_long_names_that_begin_alike_stay_two() -> None:
    assert named("s", LONG + "a") != named("s", LONG + "b")
    assert named("s", LONG) != named("t", LONG)


@pytest.mark.parametrize(
    ("name", "refusing"),
    [
        ("look", ()),
        ("a.b", ("OpenAI", "Anthropic")),
        ("a:b", ("OpenAI", "Anthropic")),
        ("9lives", ("Gemini",)),
        ("-x", ("Gemini",)),
        ("x" * 64, ()),
        ("x" * 65, ("OpenAI", "Gemini")),
        ("x" * 128, ("OpenAI", "Gemini")),
        ("x" * 129, ("OpenAI", "Anthropic", "Gemini")),
        ("a b", ("OpenAI", "Anthropic", "Gemini")),
        ("größe", ("OpenAI", "Anthropic", "Gemini")),
        ("a\n", ("OpenAI", "Anthropic", "Gemini")),
        ("٣", ("OpenAI", "Anthropic", "Gemini")),
        ("", ("OpenAI", "Anthropic", "Gemini")),
    ],
)
def test_which_apis_refuse_a_name(name: str, refusing: tuple[str, ...]) -> None:
    assert tuple(rule.api for rule in refusing_apis(name)) == refusing


WITH_ITS_SERVER = (
    "With the name of its server: another tool had that name first, or rules hid tools when it was listed."
)


@pytest.mark.parametrize(
    ("prefix", "name", "taken", "why"),
    [
        ("", "x" * 61, [], "Shortened to 60 characters."),
        ("gh_", "x" * 58, [], "Shortened to 60 characters."),
        ("gh_", "x", [], "With the prefix of its server."),
        ("gh_", "x", ["gh_x"], WITH_ITS_SERVER),
        ("", "x", ["x"], WITH_ITS_SERVER),
        ("", "x", ["x", "s__x"], "Another tool had that name first."),
        ("", "taskhub_x", [], "Names that begin with taskhub_ are the hub’s own."),
    ],
)
def test_why_a_name_is_another(prefix: str, name: str, taken: list[str], why: str) -> None:
    assert why_named_so("s", name, named("s", name, *taken, prefix=prefix), prefix=prefix) == why


def test_the_page_for_agents_tells_the_same_rules() -> None:
    page = Path("docs/use/agents.md").read_text().replace("`", "")
    assert [rule.api for rule in MODEL_APIS if f"| {rule.api} | {rule.takes} |\n" not in page] == []
