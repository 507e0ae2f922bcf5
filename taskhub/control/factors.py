"""Use cases of second factors. People type their password right before they change their own factor: the pages ask for
it, and the session knows it (`console/views/factors.py`)."""

from __future__ import annotations

from django.conf import settings

from taskhub.control.caller import Caller
from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.clients.principals import person_of
from taskhub.domain.people import factors
from taskhub.domain.people.factors import Checked, Factor, NewApp
from taskhub.lib.signing import InvalidToken, Signer


def begin(caller: Caller, *, site: str) -> tuple[NewApp, str]:
    """Make a new authenticator app for the caller, and store nothing yet. Returns the app, and its secret encrypted for
    `set_up`, which accepts it from this caller only and for a quarter of an hour. `site` is the host of this hub.
    Raises `Refused` if the caller has a second factor already."""
    user_id = _own(caller)
    if factors.factor_of(user_id) is not None:
        raise Refused("You have an authenticator app already. Remove it first.")
    made = factors.new_app(user_id, site)
    return made, _signer().encrypt(_purpose(user_id), made.secret, seconds=factors.SET_UP_SECONDS)


def begun(caller: Caller, sealed: str, *, site: str) -> NewApp:
    """The app that `begin` made. Raises `Invalid` if `begin` made it for somebody else, or too long ago."""
    user_id = _own(caller)
    return factors.new_app(user_id, site, _opened(user_id, sealed))


def set_up(caller: Caller, sealed: str, code: str, *, session: str) -> tuple[int, tuple[str, ...]]:
    """Confirm the authenticator app that `begin` prepared (`sealed`) by a code of it: from now on it is the caller's
    second factor. Returns the id of its record, and the recovery codes, which are not shown again. The caller is signed
    out in all browsers but the one whose session cookie is `session`.

    Raises `Invalid` for a wrong code or an app that was made too long ago, `LimitReached`, or `Refused` if the caller
    has a second factor already.
    """
    user_id = _own(caller)
    secret = _opened(user_id, sealed)
    return factors.set_up(
        tenant_id=caller.tenant_id, user_id=user_id, secret=secret, code=code, actor=caller.actor, kept=session
    )


def own_factor(caller: Caller) -> Factor | None:
    """The caller's second factor; `None` if they have none."""
    return factors.factor_of(_own(caller))


def confirm(caller: Caller, code: str) -> int:
    """Check a code of the caller's second factor. Returns the id of the factor's record, for the session in which the
    code was typed: the confirmation counts there only. Raises `Invalid` for a wrong code or without a second factor, or
    `LimitReached`."""
    if own_factor(caller) is None:
        raise Invalid("You have no second factor. Set one up under your account.", field="code")
    return factors.check_code(tenant_id=caller.tenant_id, user_id=_own(caller), code=code, actor=caller.actor).id


def has_confirmed(caller: Caller) -> bool:
    """Whether the caller confirmed a second factor a moment ago that they still have."""
    who, factor = caller.person, caller.actor.factor
    return who is not None and factor is not None and factors.is_of(who.user_id, factor)


def renew_codes(caller: Caller) -> tuple[str, ...]:
    """Give the caller new recovery codes, which are not shown again. The earlier codes are not accepted any more.
    Raises `NotFound` without a second factor."""
    return factors.renew_codes(tenant_id=caller.tenant_id, user_id=_own(caller), actor=caller.actor)


def remove_own(caller: Caller, *, session: str) -> bool:
    """Remove the caller's second factor and recovery codes, and sign them out in all browsers but the one whose session
    cookie is `session`. Returns `False` if they had none."""
    return factors.remove_own(tenant_id=caller.tenant_id, user_id=_own(caller), actor=caller.actor, kept=session)


def remove_of(caller: Caller, user_id: int) -> tuple[str, bool]:
    """Remove the second factor of a person who lost it. Returns their username, and whether they had one. The person is
    signed out everywhere, and neither they nor the caller may decide any more on calls that were made before. Raises
    `Forbidden`, `NotFound`, or `Refused` for the caller's own factor, for which they type their password
    (`remove_own`)."""
    caller.require("settings.view", f"remove the second factor of person {user_id}")
    if user_id >= 2**63:
        raise NotFound("No such person.")
    if caller.person is not None and caller.person.user_id == user_id:
        raise Refused("Remove your own second factor under your account.")
    return factors.remove_of(tenant_id=caller.tenant_id, user_id=user_id, actor=caller.actor)


def code_at_sign_in(user_id: int, username: str, code: str, *, address: str) -> Checked:
    """Check the code of somebody who has typed the right password and is signing in. Returns the factor that the code
    belongs to. `address` is the network address of the request. Raises `Invalid` or `LimitReached`."""
    person = person_of(user_id, username)
    actor = Actor(name="a stranger", door=Door.WEB, address=address)
    return factors.check_code(tenant_id=person.tenant_id if person else None, user_id=user_id, code=code, actor=actor)


def _own(caller: Caller) -> int:
    if caller.person is None:
        raise Refused("A second factor is a person's own: they set it up in the console, under their account.")
    return caller.person.user_id


def _opened(user_id: int, sealed: str) -> str:
    try:
        return str(_signer().decrypt(_purpose(user_id), sealed))
    except InvalidToken:
        raise Invalid("This page is too old to go on with. Begin again.") from None


def _purpose(user_id: int) -> str:
    return f"factor of {user_id}"


def _signer() -> Signer:
    return Signer(settings.SECRET_KEY.encode())
