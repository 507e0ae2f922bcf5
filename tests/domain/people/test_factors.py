"""Codes of second factors at the same moment: at two web processes, what one of them knows, the other does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from taskhub.core.errors import Invalid, LimitReached
from taskhub.core.records import Actor, Person
from taskhub.core.states import Door
from taskhub.domain.people import factors
from taskhub.domain.people.factors import Checked
from taskhub.store.models import CodeUse, Event
from tests.factories import make_person
from tests.support.factors import Phone

pytestmark = pytest.mark.django_db(transaction=True)


def together(*work: Callable[[], Any]) -> list[Any]:
    """What each returned or raised, each on a connection of its own, begun at the same moment."""
    gate = threading.Barrier(len(work))
    found: list[Any] = [None] * len(work)

    def run(n: int) -> None:
        try:
            connection.ensure_connection()
            gate.wait(30)
            found[n] = work[n]()
        except Exception as error:  # noqa: BLE001 - an outcome like any other
            found[n] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def check(person: Person, code: str) -> Callable[[], Checked]:
    actor = Actor(name=person.username, door=Door.WEB, user_id=person.user_id)
    return lambda: factors.check_code(tenant_id=person.tenant_id, user_id=person.user_id, code=code, actor=actor)


def test_of_several_who_bring_one_code_at_the_same_moment_one_is_let_in() -> None:
    for _ in range(4):
        person = make_person("approver")
        phone = Phone(person)
        for code, kind in ((phone.code(), "totp"), (phone.codes[0], "recovery_codes")):
            found = together(*[check(person, code)] * 4)
            assert [one.kind for one in found if isinstance(one, Checked)] == [kind]
            assert sum(isinstance(one, Invalid) for one in found) == 3
    assert Event.objects.filter(action="person.code.used").count() == 4


def test_tries_at_the_same_moment_are_all_counted() -> None:
    person = make_person("approver")
    phone = Phone(person)
    found = [one for _ in range(4) for one in together(*[check(person, phone.wrong())] * 4)]
    assert sum(isinstance(one, LimitReached) for one in found) == 16 - factors.TRIES
    assert sum(isinstance(one, Invalid) for one in found) == factors.TRIES
    assert CodeUse.objects.get(user_id=person.user_id).tries == 16


def test_of_two_set_ups_at_the_same_moment_one_stands() -> None:
    person = make_person("approver")
    other = Phone(person)
    factors.remove_own(
        tenant_id=person.tenant_id, user_id=person.user_id, actor=Actor(name=person.username, door=Door.WEB)
    )
    actor = Actor(name=person.username, door=Door.WEB, user_id=person.user_id)
    found = together(
        *[
            lambda: factors.set_up(
                tenant_id=person.tenant_id, user_id=person.user_id, secret=other.secret, code=other.code(), actor=actor
            )
        ]
        * 3
    )
    assert sum(isinstance(one, tuple) for one in found) == 1, found
