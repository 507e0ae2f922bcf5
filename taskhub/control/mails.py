"""Use cases of mails to people. Which mails come is a person's own choice; the link that ends them needs no sign-in."""

from __future__ import annotations

from taskhub.control.caller import Caller
from taskhub.core.errors import Refused
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.notices import mailing, mails
from taskhub.domain.notices.mailing import Choices, Own
from taskhub.domain.notices.mails import MailRow


def own_mailing(caller: Caller) -> Own:
    """Where the caller gets mails, of what, and when."""
    return mailing.mailing_of(caller.tenant_id, _own(caller))


def own_mails(caller: Caller) -> list[MailRow]:
    """What was mailed to the caller and what waits, newest first."""
    return mails.mail_log(caller.tenant_id, _own(caller))


def choose_mails(caller: Caller, address: str, choices: Choices) -> str:
    """Store what the caller wants. Returns the address that was asked to be confirmed, empty for none. Raises what
    `mailing.choose` raises."""
    user_id = _own(caller)
    mails.begin_mailing()
    return mailing.choose(
        tenant_id=caller.tenant_id, user_id=user_id, address=address, choices=choices, actor=caller.actor
    )


def ask_again(caller: Caller) -> str:
    """Send the mail that asks to confirm the caller's address once more, and return the address. Raises `Refused` or
    `LimitReached`."""
    return mailing.ask_again(tenant_id=caller.tenant_id, user_id=_own(caller))


def confirm_address(caller: Caller, token: str) -> str:
    """Make the address of the link the one that the caller's mails go to, and return it. Raises `Refused`."""
    return mailing.confirm(tenant_id=caller.tenant_id, user_id=_own(caller), token=token, actor=caller.actor)


def mails_of_link(token: str) -> str:
    """The address that the link in a mail is of. Raises `NotFound`."""
    return mailing.stops(token)


def stop_mails(token: str, *, address: str = "") -> str:
    """End all mails to the person of the link, whoever opened it: they had the mail. Returns the address that mails
    went to. `address` is where the request came from. Raises `NotFound`."""
    return mailing.stop(token, Actor(name="the link in a mail", door=Door.WEB, address=address))


def _own(caller: Caller) -> int:
    if caller.person is None:
        raise Refused("Mails are a person's own: they choose them in the console, under their account.")
    return caller.person.user_id
