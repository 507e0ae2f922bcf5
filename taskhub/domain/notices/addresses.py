"""Where each channel reaches a person. An address counts once the person, signed in, has confirmed it by a link."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from taskhub.core.errors import Invalid, LimitReached, NotFound, Refused
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.notices import targets
from taskhub.domain.notices.channels import Channel, is_on
from taskhub.domain.notices.choices import locked, look_again
from taskhub.domain.notices.kinds import CONFIRM, TRIAL
from taskhub.domain.notices.queueing import new_id
from taskhub.lib import jsonx
from taskhub.lib.signing import InvalidToken, Signer
from taskhub.store import statements
from taskhub.store.models import NoticeAddress

MAX_ADDRESS: Final = 254
MAX_NAME: Final = 100
"""The most characters that are kept of the name that a channel has for a person."""
CONFIRM_HOURS: Final = 24
"""Hours for which the link in a message confirms an address."""
CONFIRMATIONS: Final = 5
"""The most messages on a channel that ask one person to confirm an address, within `CONFIRM_HOURS`."""
TRIALS: Final = 5
"""The most messages on a channel that one person may have sent to themselves as a test, within an hour."""
STOP_DAYS: Final = 365
"""Days for which the link in a mail can end all mails."""
_MAIL: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)

_SLACK: Final = re.compile(r"(T[A-Z0-9]{2,20}:)?[UW][A-Z0-9]{2,20}")
_OFF: Final[dict[Channel, str]] = {
    Channel.MAIL: "This hub sends no mails: its administrators have not set TASKHUB_SMTP_URL.",
    Channel.SLACK: "This hub has no Slack: its administrators have not set TASKHUB_SLACK_BOT_TOKEN.",
    Channel.APPRISE: "This hub reaches no other services: it needs TASKHUB_APPRISE_URLS and the extra `apprise`.",
}
"""Why a person cannot have an address of a channel that is off."""

_ASK = statements.none("queue_apart")
_ASKED = statements.one("asked_apart", int)
_SKIP = statements.rowcount("skip_waiting")


@dataclass(frozen=True, slots=True)
class Own:
    """Where a channel reaches a person, as pages show it. `address`: the confirmed address; `pending`: an address that
    is not confirmed yet; `name`: the name that the channel has for the person. Each is empty if there is none."""

    address: str = field(default="", repr=False)
    pending: str = field(default="", repr=False)
    name: str = field(default="", repr=False)


def addresses_of(tenant_id: int, user_id: int) -> dict[Channel, Own]:
    """Where each channel reaches a person of the tenant."""
    rows = NoticeAddress.objects.filter(choices__membership__tenant_id=tenant_id, choices__membership__user_id=user_id)
    stored = {row.channel: Own(_seen(row, row.address), _seen(row, row.pending), row.name) for row in rows}
    return {channel: stored.get(channel, Own()) for channel in Channel}


def set_address(*, tenant_id: int, user_id: int, channel: Channel, address: str, actor: Actor) -> str:
    """Change where a channel reaches a person. A new address has to be confirmed: a message with a link goes to it, and
    until then other messages go to the present address. An empty address ends the channel for the person. `address` may
    also be what pages show of a stored address, and then means that address. Returns the address that has to be
    confirmed, as pages show it; empty if there is none.

    Raises `Invalid`, which names the field, `Refused` if this hub does not send on the channel, or `LimitReached`.
    """
    if channel not in _CHECKS:
        raise Refused("Nobody types an address of this channel.")
    if not is_on(channel):
        raise Refused(_OFF[channel])
    address = address.strip()
    if address and not _is_shown(tenant_id, user_id, channel, address):
        _CHECKS[channel](address)
    with transaction.atomic():
        choices = locked(tenant_id, user_id)
        rows = NoticeAddress.objects.select_for_update(no_key=True)
        row, _ = rows.get_or_create(choices=choices, channel=channel)
        before = _shown(row)
        address = _to_store(row, address)
        asked = address if address not in ("", row.address, row.pending) else ""
        row.pending = address if address != row.address else ""
        if not address:
            row.address = row.name = ""
        row.save()
        after = _shown(row)
        if before != after or asked:
            record_event(
                "address.changed", tenant_id=tenant_id, target=actor.name, actor=actor, before=before, after=after
            )
        if asked:
            _ask(tenant_id, user_id, channel, asked)
        if not address:
            end_waiting(tenant_id, user_id, channel)
        look_again(choices.pk, tenant_id, user_id, channel)
    return _seen(row, asked)


def ask_again(*, tenant_id: int, user_id: int, channel: Channel) -> str:
    """Send the message that asks the person to confirm their address again, and return the address. Raises `Refused` if
    no address has to be confirmed, or `LimitReached`."""
    with transaction.atomic():
        row = _locked(tenant_id, user_id, channel)
        if row is None or not row.pending or not is_on(channel):
            raise Refused("No address waits to be confirmed.")
        _ask(tenant_id, user_id, channel, row.pending)
    return _seen(row, row.pending)


def _ask(tenant_id: int, user_id: int, channel: Channel, address: str) -> None:
    if _ASKED(user=user_id, channel=channel, kind=CONFIRM, hours=CONFIRM_HOURS) >= CONFIRMATIONS:
        raise LimitReached(
            f"You were sent {CONFIRMATIONS} messages to confirm an address within {CONFIRM_HOURS} hours: confirm one, "
            "or try again tomorrow."
        )
    body = jsonx.encode({"address": address}).decode()
    _ASK(public_id=new_id(), tenant=tenant_id, user=user_id, channel=channel, kind=CONFIRM, body=body)


def send_trial(*, tenant_id: int, user_id: int, channel: Channel, actor: Actor) -> str:
    """Send the person a message without news, as a test: at once, even in quiet hours. Returns the address. Raises
    `Refused` if the channel does not reach the person, or `LimitReached`."""
    with transaction.atomic():
        row = _locked(tenant_id, user_id, channel)
        if row is None or not row.address or not is_on(channel):
            raise Refused("There is no confirmed address to which a test could go.")
        if _ASKED(user=user_id, channel=channel, kind=TRIAL, hours=1) >= TRIALS:
            raise LimitReached(f"You sent {TRIALS} tests within an hour: look at what came of them, or try later.")
        _ASK(public_id=new_id(), tenant=tenant_id, user=user_id, channel=channel, kind=TRIAL, body="{}")
        record_event("address.tested", tenant_id=tenant_id, target=actor.name, actor=actor, after={"channel": channel})
    return _seen(row, row.address)


def confirm(*, tenant_id: int, user_id: int, channel: Channel, token: str, actor: Actor) -> str:
    """Confirm the address of the link, at which the channel then reaches the person, and return the address. Raises
    `Refused` if the link is somebody else's, is too old, or is for an address that does not wait to be confirmed any
    more."""
    with transaction.atomic():
        row = _locked(tenant_id, user_id, channel)
        found = _opened("confirm", token)
        if row is None or not row.pending or found is None or found[:2] != [row.pk, row.pending]:
            raise Refused("This link confirms no address any more: it is too old, was used, or is somebody else's.")
        row.address, row.pending, row.name = str(found[2]), "", str(found[3])
        row.save(update_fields=["address", "pending", "name"])
        record_event(
            "address.confirmed", tenant_id=tenant_id, target=actor.name, actor=actor, after={"channel": channel}
        )
        look_again(row.choices_id, tenant_id, user_id, channel)
    return _seen(row, row.address)


def stop(token: str, actor: Actor) -> str:
    """End all messages to the address of the link, whoever opened the link, and return the address; also if the
    messages had ended before. Raises `NotFound` for a link that the hub did not make, or that is too old. The event has
    the person as its target."""
    address = stops(token)
    found = _opened("stop", token) or []
    with transaction.atomic():
        rows = NoticeAddress.objects.select_for_update(no_key=True, of=("self",))
        row = rows.select_related("choices__membership__user").filter(pk=found[0]).first()
        if row is None or row.address not in ("", address):
            raise NotFound(_NO_STOP)
        if row.address:
            before = _shown(row)
            row.address = row.name = ""
            row.save(update_fields=["address", "name"])
            membership = row.choices.membership
            end_waiting(membership.tenant_id, membership.user_id, Channel(row.channel))
            record_event(
                "address.ended",
                tenant_id=membership.tenant_id,
                target=membership.user.get_username(),
                actor=actor,
                before=before,
                after=_shown(row),
            )
    return address


def stops(token: str) -> str:
    """The address of a link that ends all messages. Raises `NotFound` for a link that the hub did not make, or that is
    too old."""
    found = _opened("stop", token)
    if found is None:
        raise NotFound(_NO_STOP)
    return str(found[1])


def confirm_token(address_id: int, pending: str, address: str = "", name: str = "") -> str:
    """The token at the end of the link that confirms a pending address. `address`: the address as the channel writes
    it, if the person typed it in another way. `name`: the name that the channel has for the person; `MAX_NAME`
    characters of it are kept."""
    kept = name.replace("\0", "\ufffd")[:MAX_NAME]
    return _signer().sign(
        "address confirm", [address_id, pending, address or pending, kept], seconds=CONFIRM_HOURS * 3_600
    )


def stop_token(address_id: int, address: str) -> str:
    """The token at the end of the link that ends all messages."""
    return _signer().sign("address stop", [address_id, address], seconds=STOP_DAYS * 86_400)


def end_waiting(tenant_id: int, user_id: int, channel: Channel) -> None:
    """Skip the notices that wait for the person on the channel, because it does not reach them any more."""
    why = "Not sent: you no longer want such messages"
    _SKIP(tenant=tenant_id, user=user_id, channel=channel, confirm=CONFIRM, why=why)


def _locked(tenant_id: int, user_id: int, channel: Channel) -> NoticeAddress | None:
    return (
        NoticeAddress.objects.select_for_update(no_key=True, of=("self",))
        .filter(choices__membership__tenant_id=tenant_id, choices__membership__user_id=user_id, channel=channel)
        .first()
    )


def _opened(what: str, token: str) -> list[Any] | None:
    try:
        found = _signer().verify(f"address {what}", token)
    except InvalidToken:
        return None
    return list(found)


def _check_mail(address: str) -> None:
    if len(address) > MAX_ADDRESS or not _MAIL.fullmatch(address):
        raise Invalid("Give an address such as name@example.com, in ASCII.", field="address")


def _check_slack(address: str) -> None:
    if not _SLACK.fullmatch(address) and (len(address) > MAX_ADDRESS or not _MAIL.fullmatch(address)):
        raise Invalid(
            "Give the address that you have in Slack, such as name@example.com, or your member ID, such as U012AB3CD.",
            field="address",
        )


_CHECKS: Final[dict[Channel, Callable[[str], None]]] = {
    Channel.MAIL: _check_mail,
    Channel.SLACK: _check_slack,
    Channel.APPRISE: targets.check,
}
_NO_STOP: Final = "This link ends no mails any more: it is too old, or they go to another address."


def _seen(row: NoticeAddress, stored: str) -> str:
    """A stored address as its page shows it."""
    return targets.shown(stored) if row.channel == Channel.APPRISE else stored


def _is_shown(tenant_id: int, user_id: int, channel: Channel, address: str) -> bool:
    """Whether `address` is what pages show of an encrypted address of this person."""
    own = addresses_of(tenant_id, user_id)[channel]
    return targets.CUT in address and address in (own.address, own.pending)


def _to_store(row: NoticeAddress, address: str) -> str:
    """What is stored for an address. If `address` is an address that is stored already, the stored text."""
    if row.channel != Channel.APPRISE or not address:
        return address
    known = (row.pending, row.address)
    same = (one for one in known if one and address in (targets.plain(one), targets.shown(one)))
    return next(same, None) or targets.sealed(address)


def _shown(row: NoticeAddress) -> dict[str, Any]:
    """What events say of a person's address: not the address itself."""
    return {"channel": row.channel, "address": bool(row.address), "pending": bool(row.pending)}


def _signer() -> Signer:
    return Signer(settings.SECRET_KEY.encode())
