"""Names that tell of hidden tools: which rules are warned of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskhub.core.rules import Rule, Then
from taskhub.domain.rules.telling import telling
from tests.domain.rules.test_decisions import DEPLOY

HELD = replace(DEPLOY, id=1, server_id=1, server_name="first", name="deploy", exposed_name="deploy")
MADE = replace(HELD, id=2, server_id=2, server_name="second", exposed_name="second__deploy")
PREFIXED = replace(HELD, id=3, server_id=3, server_name="third", name="look", exposed_name="t_look")


@pytest.mark.parametrize(
    ("when", "then", "warned"),
    [
        ("server.name == 'first'", Then.HIDE, True),
        ("client.name == 'ci' && server.name == 'first' && tool.name == 'deploy'", Then.HIDE, True),
        ("client.name == 'ci' && tool.name == 'deploy'", Then.HIDE, False),  # both of them
        ("server.name == 'second'", Then.HIDE, False),
        ("server.name == 'third'", Then.HIDE, False),
        ("server.name == 'first'", Then.DENY, False),
    ],
)
def test_a_rule_is_warned_of_that_hides_what_another_name_tells(when: str, then: Then, warned: bool) -> None:
    found = telling([Rule(name="r", when=when, then=then)], [HELD, MADE, PREFIXED])
    assert [one.pairs for one in found] == [(("deploy", "second__deploy"),)] * warned
    if warned:
        assert (
            "hidden from them: deploy by second__deploy. Names stay; if the server second is removed" in found[0].words
        )
    assert telling([Rule(name="r", when=when, then=then)], [HELD, PREFIXED]) == []


def test_of_many_the_first_are_named() -> None:
    tools = [replace(HELD, id=n, name=f"t{n}", exposed_name=f"t{n}") for n in range(9)]
    tools += [replace(MADE, id=9 + n, name=f"t{n}", exposed_name=f"second__t{n}") for n in range(9)]
    (found,) = telling([Rule(name="r", when="server.name == 'first'", then=Then.HIDE)], tools)
    assert "t4 by second__t4 and 4 more." in found.words
