"""How long callers of plain calls wait: by client, by program, and as callers that left have taught."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from taskhub.domain.clients import patience
from taskhub.domain.clients.patience import CallerSettings, Patience, caller_settings, forget_settings, learn
from taskhub.store.models import AuthContext
from tests.factories import make_context, make_tenant

pytestmark = pytest.mark.django_db

SDK = {"name": "mcp", "version": "0.1.0"}


@pytest.fixture
def client() -> Iterator[AuthContext]:
    yield make_context(make_tenant())
    forget_settings()


def counts(client: AuthContext, info: dict[str, Any] = SDK) -> Patience:
    forget_settings()
    return caller_settings(client.pk).patience(info)


def test_where_nothing_else_is_known_the_default_counts(client: AuthContext) -> None:
    assert counts(client) == Patience(25.0, "default")
    assert counts(client, {}) == counts(client, {"name": 7}) == Patience(25.0, "default")


def test_a_default_of_zero_is_no_limit(client: AuthContext, settings: Any) -> None:
    settings.TASKHUB_PATIENCE_SECONDS = 0
    assert counts(client) == Patience(None, "default")


@pytest.mark.parametrize(
    ("name", "seconds"), [("claude-code", 100.0), ("Zed", 50.0), ("  GOOSE ", 240.0), ("Visual Studio Code", None)]
)
def test_programs_are_known_by_their_names(client: AuthContext, name: str, seconds: float | None) -> None:
    assert counts(client, {"name": name}) == Patience(seconds, "known")


def test_what_an_admin_set_counts_before_all(client: AuthContext) -> None:
    learn(client.pk, SDK, 5_000, certain=True)
    AuthContext.objects.filter(pk=client.pk).update(patience_ms=10_000)
    assert counts(client) == counts(client, {"name": "zed"}) == Patience(10.0, "set")


def test_a_time_out_that_is_said_counts_at_once(client: AuthContext) -> None:
    learn(client.pk, SDK, 5_000, certain=True)
    assert counts(client) == Patience(4.0, "learned")
    assert counts(client, {"name": "another"}) == Patience(25.0, "default")
    assert counts(make_context(client.tenant)) == Patience(25.0, "default")


def test_who_merely_leaves_has_left_twice_before_it_counts_and_the_longer_time_does(client: AuthContext) -> None:
    learn(client.pk, SDK, 5_000)
    assert counts(client) == Patience(25.0, "default")
    learn(client.pk, SDK, 3_000)
    assert counts(client) == Patience(4.0, "learned")


def test_what_was_learned_gets_shorter_only(client: AuthContext) -> None:
    learn(client.pk, SDK, 10_000, certain=True)
    learn(client.pk, SDK, 20_000, certain=True)
    assert counts(client) == Patience(8.0, "learned")
    learn(client.pk, SDK, 5_000, certain=True)
    assert counts(client) == Patience(4.0, "learned")


def test_one_that_leaves_early_makes_it_no_shorter_and_a_second_one_does(client: AuthContext) -> None:
    learn(client.pk, SDK, 10_000, certain=True)
    learn(client.pk, SDK, 1_500)
    assert counts(client) == Patience(8.0, "learned")
    learn(client.pk, SDK, 2_500)
    assert counts(client) == Patience(2.0, "learned")


def test_who_leaves_at_once_has_not_waited(client: AuthContext) -> None:
    for _ in range(3):
        learn(client.pk, SDK, 999, certain=True)
    assert counts(client) == Patience(25.0, "default")


def test_strangers_names_do_not_fill_the_table_and_keep_nobody_out(client: AuthContext) -> None:
    def known() -> list[str]:
        return sorted(row.program for row in patience.learned_patience(client.pk))

    learn(client.pk, {"name": "left once"}, 5_000)
    names = [f"program {n:02}" for n in range(patience.MOST_PROGRAMS - 1)]
    for name in names:
        learn(client.pk, {"name": name}, 5_000, certain=True)
    assert known() == ["left once", *names]
    learn(client.pk, {"name": "program 00"}, 2_500, certain=True)
    for name in ("zoe", "zoo"):
        learn(client.pk, {"name": name}, 5_000, certain=True)
    # First who was not certain gives way, then who was learned first.
    assert known() == ["program 00", *names[2:], "zoe", "zoo"]
    assert counts(client, {"name": "program 00"}) == Patience(2.0, "learned")


@pytest.mark.parametrize("name", ["\0", "x" * 1_000, "\ud800"])
def test_any_name_is_a_name(client: AuthContext, name: str) -> None:
    learn(client.pk, {"name": name}, 5_000, certain=True)
    assert counts(client, {"name": name}) == Patience(4.0, "learned")


def test_the_tools_of_the_hub_are_listed_as_the_setting_says_unless_the_client_has_its_own(
    client: AuthContext, settings: Any
) -> None:
    assert CallerSettings(1, None, None).tools
    assert not CallerSettings(1, None, False).tools
    settings.TASKHUB_HUB_TOOLS = False
    assert not CallerSettings(1, None, None).tools
    assert CallerSettings(1, None, True).tools
