"""An authenticator app: the codes that somebody's phone would show, by a second implementation of RFC 6238."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
import time

from django.test import Client

from taskhub.core.records import Actor, Person
from taskhub.core.states import Door
from taskhub.domain.people import factors
from tests.factories import PASSWORD

PERIOD = 30


def code_of(secret: str, *, steps: int = 0, step: int | None = None) -> str:
    """What the app with this secret shows now, or so many times 30 seconds later. `step`: instead of now."""
    count = struct.pack(">Q", (int(time.time()) // PERIOD if step is None else step) + steps)
    digest = hmac.digest(base64.b32decode(secret), count, hashlib.sha1)
    at = digest[-1] & 0x0F
    number = struct.unpack(">I", digest[at : at + 4])[0] & 0x7FFFFFFF
    return f"{number % 1_000_000:06}"


def wrong_code(secret: str) -> str:
    """Six digits that are no code of this secret around now."""
    near = {code_of(secret, steps=steps) for steps in range(-4, 5)}
    return next(f"{number:06}" for number in range(20) if f"{number:06}" not in near)


class Phone:
    """The app of a person who has set it up, at the moment of that: the code that it shows stays the same in a test
    that takes a while, and the hub takes it still. `kept`: the cookie of the browser that stays signed in."""

    def __init__(self, person: Person, *, kept: str = "") -> None:
        self.person = person
        self.secret = factors.new_app(person.user_id, "hub.example").secret
        self.step = int(time.time()) // PERIOD
        actor = Actor(name=person.username, door=Door.WEB, user_id=person.user_id)
        # With the code of before: those of now and of the next 30 seconds are left.
        self.factor, self.codes = factors.set_up(
            tenant_id=person.tenant_id,
            user_id=person.user_id,
            secret=self.secret,
            code=self.code(-1),
            actor=actor,
            kept=kept,
        )

    def code(self, steps: int = 0) -> str:
        """The code of that moment, or so many times 30 seconds later."""
        return code_of(self.secret, steps=steps, step=self.step)

    def wrong(self) -> str:
        """A code that it does not show."""
        return wrong_code(self.secret)


def types_password(browser: Client) -> None:
    """Type the password again, as pages ask for it before a second factor is changed."""
    response = browser.post("/accounts/reauthenticate/?next=/accounts/", {"password": PASSWORD})
    assert response.status_code == 302, response.content.decode()
