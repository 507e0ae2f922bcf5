"""Use cases of messages to people. What comes, when and where is a person's own choice; the link in a mail that ends
them needs no sign-in."""

from __future__ import annotations

from taskhub.control.caller import Caller
from taskhub.core.errors import Refused
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.notices import addresses, browsers, choices, people
from taskhub.domain.notices.addresses import Own
from taskhub.domain.notices.browsers import Browser
from taskhub.domain.notices.channels import Channel
from taskhub.domain.notices.choices import Choices
from taskhub.domain.notices.people import MessageRow


def own_choices(caller: Caller) -> Choices:
    """What the caller is told of, and when."""
    return choices.choices_of(caller.tenant_id, _own(caller))


def own_addresses(caller: Caller) -> dict[Channel, Own]:
    """Where each channel reaches the caller."""
    return addresses.addresses_of(caller.tenant_id, _own(caller))


def own_messages(caller: Caller) -> list[MessageRow]:
    """What was sent to the caller and what waits, newest first."""
    return people.message_log(caller.tenant_id, _own(caller))


def choose(caller: Caller, wanted: Choices) -> None:
    """Store what the caller wants. Raises `Invalid`."""
    choices.choose(tenant_id=caller.tenant_id, user_id=_own(caller), choices=wanted, actor=caller.actor)


def begin_in(caller: Caller, zone: str) -> None:
    """Take the time zone of the caller's browser for theirs, if nothing is stored of what they want."""
    choices.begin_in(caller.tenant_id, _own(caller), zone)


def set_address(caller: Caller, channel: Channel, address: str) -> str:
    """Have a channel reach the caller elsewhere, or (empty) not at all. Returns the address that was asked to be
    confirmed, empty for none. Raises what `addresses.set_address` raises."""
    user_id = _own(caller)
    people.begin_telling()
    return addresses.set_address(
        tenant_id=caller.tenant_id, user_id=user_id, channel=channel, address=address, actor=caller.actor
    )


def ask_again(caller: Caller, channel: Channel) -> str:
    """Send the message that asks to confirm the caller's address once more, and return the address. Raises `Refused`
    or `LimitReached`."""
    return addresses.ask_again(tenant_id=caller.tenant_id, user_id=_own(caller), channel=channel)


def send_trial(caller: Caller, channel: Channel) -> str:
    """Send the caller a test on the channel, and return the address. Raises `Refused` or `LimitReached`."""
    return addresses.send_trial(tenant_id=caller.tenant_id, user_id=_own(caller), channel=channel, actor=caller.actor)


def confirm_address(caller: Caller, channel: Channel, token: str) -> str:
    """Make the address of the link the one that the channel reaches the caller at, and return it. Raises
    `Refused`."""
    return addresses.confirm(
        tenant_id=caller.tenant_id, user_id=_own(caller), channel=channel, token=token, actor=caller.actor
    )


def own_browsers(caller: Caller) -> list[Browser]:
    """The browsers of the caller that are notified, the newest first."""
    return browsers.browsers_of(caller.tenant_id, _own(caller))


def add_browser(caller: Caller, *, session: str, endpoint: str, p256dh: str, auth: str, label: str) -> None:
    """Notify the caller's browser, as long as the session of this key lasts. Raises what `browsers.add_browser`
    raises."""
    user_id = _own(caller)
    people.begin_telling()
    browsers.add_browser(
        tenant_id=caller.tenant_id,
        user_id=user_id,
        session=session,
        endpoint=endpoint,
        p256dh=p256dh,
        auth=auth,
        label=label,
        actor=caller.actor,
    )


def remove_browser(caller: Caller, browser_id: int) -> str:
    """Notify a browser of the caller no more, and return its label. Raises `NotFound`."""
    return browsers.remove_browser(
        tenant_id=caller.tenant_id, user_id=_own(caller), browser_id=browser_id, actor=caller.actor
    )


def mails_of_link(token: str) -> str:
    """The address that the link in a mail is of. Raises `NotFound`."""
    return addresses.stops(token)


def stop_mails(token: str, *, address: str = "") -> str:
    """End all mails to the person of the link, whoever opened it: they had the mail. Returns the address that mails
    went to. `address` is where the request came from. Raises `NotFound`."""
    return addresses.stop(token, Actor(name="the link in a mail", door=Door.WEB, address=address))


def _own(caller: Caller) -> int:
    if caller.person is None:
        raise Refused("Messages are a person's own: they choose them in the console, under their account.")
    return caller.person.user_id
