"""Use cases of messages to people. People choose for themselves which messages come, when and where; to end mails by
the link in one of them, nobody has to sign in."""

from __future__ import annotations

from datetime import UTC, datetime

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
    """The caller's choices: which messages they get, and when."""
    return choices.choices_of(caller.tenant_id, _own(caller))


def own_addresses(caller: Caller) -> dict[Channel, Own]:
    """The caller's addresses, by channel."""
    return addresses.addresses_of(caller.tenant_id, _own(caller))


def own_messages(caller: Caller) -> list[MessageRow]:
    """The messages that were sent to the caller or that wait, newest first."""
    return people.message_log(caller.tenant_id, _own(caller))


def choose(caller: Caller, wanted: Choices) -> bool:
    """Store the caller's choices. Returns whether it is one of their quiet hours now. Raises `Invalid`."""
    choices.choose(tenant_id=caller.tenant_id, user_id=_own(caller), choices=wanted, actor=caller.actor)
    now = datetime.now(UTC)
    return choices.not_before(wanted, now) > now


def begin_in(caller: Caller, zone: str) -> None:
    """Take the time zone of the caller's browser for theirs, if nothing is stored of what they want."""
    choices.begin_in(caller.tenant_id, _own(caller), zone)


def set_address(caller: Caller, channel: Channel, address: str) -> str:
    """Set the caller's address on a channel; with an empty address, nothing is sent there any more. A new address gets
    a message that asks to confirm it. Returns the address that has to be confirmed, empty if none has to be. Raises
    what `addresses.set_address` raises."""
    user_id = _own(caller)
    people.begin_telling()
    return addresses.set_address(
        tenant_id=caller.tenant_id, user_id=user_id, channel=channel, address=address, actor=caller.actor
    )


def ask_again(caller: Caller, channel: Channel) -> str:
    """Send the message that asks to confirm the caller's address again, and return the address. Raises `Refused` or
    `LimitReached`."""
    return addresses.ask_again(tenant_id=caller.tenant_id, user_id=_own(caller), channel=channel)


def send_trial(caller: Caller, channel: Channel) -> str:
    """Send the caller a test on the channel, and return the address. Raises `Refused` or `LimitReached`."""
    return addresses.send_trial(tenant_id=caller.tenant_id, user_id=_own(caller), channel=channel, actor=caller.actor)


def confirm_address(caller: Caller, channel: Channel, token: str) -> str:
    """Confirm the caller's address on the channel by the token of the link that was sent there, and return the address.
    Raises `Refused`."""
    return addresses.confirm(
        tenant_id=caller.tenant_id, user_id=_own(caller), channel=channel, token=token, actor=caller.actor
    )


def own_browsers(caller: Caller) -> list[Browser]:
    """The browsers of the caller that are notified, the newest first."""
    return browsers.browsers_of(caller.tenant_id, _own(caller))


def add_browser(caller: Caller, *, session: str, endpoint: str, p256dh: str, auth: str, label: str) -> None:
    """Notify this browser of the caller, as long as the browser session with this key lasts. The other arguments are
    those of `browsers.add_browser`. Raises what that raises."""
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
    """Send no more notifications to this browser, which is the caller's. Returns its label. Raises `NotFound`."""
    return browsers.remove_browser(
        tenant_id=caller.tenant_id, user_id=_own(caller), browser_id=browser_id, actor=caller.actor
    )


def mails_of_link(token: str) -> str:
    """The address to which the mail with this link was sent. Raises `NotFound`."""
    return addresses.stops(token)


def stop_mails(token: str, *, address: str = "") -> str:
    """End all mails to the person to whom the mail with this link was sent. Whoever opens the link may do this, because
    they have the mail. Returns the address to which mails went. `address` is the network address of the request. Raises
    `NotFound`."""
    return addresses.stop(token, Actor(name="the link in a mail", door=Door.WEB, address=address))


def _own(caller: Caller) -> int:
    if caller.person is None:
        raise Refused("Messages are a person's own: they choose them in the console, under their account.")
    return caller.person.user_id
