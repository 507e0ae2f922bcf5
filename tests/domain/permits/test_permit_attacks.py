"""Attacks on a permit: each is refused, and succeeds on a database without the guards against it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from taskhub.domain.permits.records import Redemption
from tests.domain import kit
from tests.domain.kit import Crew, World
from tests.domain.permits.test_permits import issued, redeem, turned_back
from tests.domain.tasks.mutants import Mutant, cut

FUNCTION = "redeem_permit"
ONCE = r"OLD\.redeemed_at IS NOT NULL OR NEW\.redeemed_at IS NULL\s+OR to_jsonb\(NEW\).*?- 'redeemed_at'(?= THEN)"


def twice(world: World) -> Redemption:
    permit = issued(world)
    assert redeem(world, permit) == Redemption.REDEEMED
    return redeem(world, permit)


def twice_at_once(world: World) -> Redemption:
    """By two connections, which race until both have redeemed one permit, or it is plain that they cannot."""
    crew = Crew(2)
    try:
        for _ in range(100):
            outcomes = crew.race(*[partial(redeem, world, issued(world))] * 2)
            if outcomes == [Redemption.REDEEMED] * 2:
                return Redemption.REDEEMED
            assert Redemption.REDEEMED in outcomes
    finally:
        crew.close()
    return Redemption.USED


def too_late(world: World) -> Redemption:
    permit = issued(world)
    turned_back(permit, 60)
    return redeem(world, permit)


def for_other_arguments(world: World) -> Redemption:
    return redeem(world, issued(world), {"text": "something else"})


def by_another_client(world: World) -> Redemption:
    return redeem(kit.another_client(world), issued(world))


def checks(column: str, *, then: str) -> Mutant:
    return Mutant(FUNCTION, rf"IF held\.{column}[^;]*?THEN\s+RETURN '{then}';\s+END IF;")


ATTACKS: dict[str, tuple[Callable[[World], Redemption], Redemption, list[Mutant]]] = {
    "twice": (twice, Redemption.USED, [checks("redeemed_at", then="used"), Mutant("permit_guard", ONCE, "false")]),
    "twice at once": (
        twice_at_once,
        Redemption.USED,
        [Mutant(FUNCTION, " FOR UPDATE"), Mutant("permit_guard", ONCE, "false")],
    ),
    "too late": (
        too_late,
        Redemption.EXPIRED,
        [
            checks("expires_at", then="expired"),
            Mutant("permit_guard", r"NEW\.redeemed_at := clock_timestamp\(\);", "NEW.redeemed_at := OLD.issued_at;"),
        ],
    ),
    "for other arguments": (
        for_other_arguments,
        Redemption.OTHER_ARGUMENTS,
        [checks("arguments_digest", then="other_arguments")],
    ),
    "by another client": (by_another_client, Redemption.UNKNOWN, [Mutant(FUNCTION, r" AND p\.context_id = p_context")]),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_and_succeeds_without_its_guards(transactional_db: None, name: str) -> None:
    attack, refusal, guards = ATTACKS[name]
    world = kit.make_world(asks={})
    assert attack(world) == refusal
    for guard in guards if len(guards) > 1 else []:  # each of two holds alone
        with cut(guard):
            assert attack(world) != Redemption.REDEEMED
    with cut(*guards):
        assert attack(world) == Redemption.REDEEMED
