"""Browsers that are notified by web push: what a browser subscribed to, and the hub's key for push services (VAPID,
RFC 8292). Addresses and keys of browsers are stored encrypted; no page and no event has them.

A browser is notified as long as the session lasts in which it was subscribed: triggers end that (`end_browsers`) after
a sign-out, with a new password, or when the role is taken or the person disabled. A session that only grew too old does
not end it.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from taskhub.core.errors import Invalid, LimitReached, NotFound, Refused
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.audit.record import record_event
from taskhub.domain.credentials.web import is_public
from taskhub.domain.notices.addresses import end_waiting
from taskhub.domain.notices.channels import Channel, is_on
from taskhub.domain.notices.choices import locked, look_again
from taskhub.domain.notices.webhooks import opened, vault
from taskhub.domain.oauth.documents import is_loopback
from taskhub.lib import jsonx
from taskhub.lib.addresses import BadAddress, WebAddress, web_address
from taskhub.lib.signs import without_invisible
from taskhub.store.models import NoticeAddress, PushBrowser

MOST: Final = 10
"""The most browsers of a person that are notified."""
MAX_ENDPOINT: Final = 2_000
"""The most characters of the address that a browser gives."""
MAX_LABEL: Final = 64
OFF: Final = "This hub notifies no browsers: it needs PUBLIC_URL and the extra `push` (uv sync --extra push)."
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the group of P-256: a private key is smaller than this."""
_POINT: Final = 65
_AUTH: Final = 16
_ADDRESS: Final = "those that you chose"
"""What stands where other channels have an address. Here each browser has an address of its own."""


@dataclass(frozen=True, slots=True)
class Browser:
    """A browser that is notified. `host`: the host of its push service. `used_at`: when its push service last took a
    message; `None` if never."""

    id: int
    label: str
    host: str
    made_at: datetime
    used_at: datetime | None


@dataclass(frozen=True, slots=True)
class Subscription:
    """Where and with which keys a browser is reached."""

    id: int
    endpoint: str = field(repr=False)
    p256dh: str = field(repr=False)
    auth: str = field(repr=False)


def vapid_key() -> ec.EllipticCurvePrivateKey:
    """The installation's P-256 key for push services, derived from `SECRET_KEY` like the key of permits."""
    found = hashlib.sha512(b"taskhub.push.v1" + settings.SECRET_KEY.encode()).digest()
    return ec.derive_private_key(int.from_bytes(found) % (_ORDER - 1) + 1, ec.SECP256R1())


def vapid_public() -> str:
    """The public key of `vapid_key`, in base64url, as browsers take it."""
    point = vapid_key().public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return base64.urlsafe_b64encode(point).decode().rstrip("=")


def browsers_of(tenant_id: int, user_id: int) -> list[Browser]:
    """The browsers of a person of the tenant, the newest first."""
    rows = PushBrowser.objects.filter(choices__membership__tenant_id=tenant_id, choices__membership__user_id=user_id)
    return [Browser(row.pk, row.label, row.host, row.made_at, row.used_at) for row in rows.order_by("-id")]


def add_browser(
    *, tenant_id: int, user_id: int, session: str, endpoint: str, p256dh: str, auth: str, label: str, actor: Actor
) -> None:
    """Notify a browser from now on, as long as the session with the key `session` lasts. If the browser is known by its
    endpoint, what it gives now replaces what was stored; if it was another person's, it now belongs to this person
    only.

    Raises `Invalid`, which names the field, `Refused` if this hub notifies no browsers, or `LimitReached`.
    """
    if not is_on(Channel.PUSH):
        raise Refused(OFF)
    address = _checked(endpoint, p256dh, auth)
    endpoint, host = address.href, address.host
    digest = hashlib.sha256(endpoint.encode()).digest()
    label = without_invisible(label).strip()[:MAX_LABEL] or "A browser"
    sealed = vault().encrypt(jsonx.encode([endpoint, p256dh, auth]).decode())
    with transaction.atomic():
        choices = locked(tenant_id, user_id)
        NoticeAddress.objects.get_or_create(choices=choices, channel=Channel.PUSH)
        mine = PushBrowser.objects.filter(choices=choices)
        if mine.exclude(digest=digest).count() >= MOST:
            raise LimitReached(f"At most {MOST} browsers of yours are notified: remove one first.")
        PushBrowser.objects.filter(digest=digest).exclude(choices=choices).delete()
        _, new = PushBrowser.objects.update_or_create(
            digest=digest,
            defaults={"choices": choices, "sealed": sealed, "label": label, "host": host, "session": session},
        )
        NoticeAddress.objects.filter(choices=choices, channel=Channel.PUSH).update(address=_ADDRESS)
        if new:
            after = {"label": label, "host": host}
            record_event("browser.added", tenant_id=tenant_id, target=actor.name, actor=actor, after=after)
        look_again(choices.pk, tenant_id, user_id, Channel.PUSH)


def remove_browser(*, tenant_id: int, user_id: int, browser_id: int, actor: Actor) -> str:
    """Stop notifying a browser of the person, and return its label. Raises `NotFound` if this person has no such
    browser."""
    with transaction.atomic():
        choices = locked(tenant_id, user_id)
        row = PushBrowser.objects.filter(choices=choices, pk=browser_id).first() if browser_id < 2**63 else None
        if row is None:
            raise NotFound("There is no such browser of yours.")
        record_event("browser.removed", tenant_id=tenant_id, target=actor.name, actor=actor, before=_end(row, user_id))
    return str(row.label)


def subscriptions(membership_id: int, message: str) -> list[Subscription]:
    """The browsers of a person for which the push service has not taken the message with the id `message` yet."""
    box = vault()
    found = []
    for row in PushBrowser.objects.filter(choices_id=membership_id).exclude(last_message=message).order_by("id"):
        if text := opened(box, row.sealed):
            endpoint, p256dh, auth = jsonx.decode(text.encode())
            found.append(Subscription(row.pk, endpoint, p256dh, auth))
    return found


def took(browser_id: int, message: str) -> None:
    """Record that the push service has taken this message for the browser."""
    PushBrowser.objects.filter(pk=browser_id).update(used_at=Now(), last_message=message)


def has_taken(membership_id: int, message: str) -> bool:
    """Whether the push service has taken this message for any browser of the person."""
    return PushBrowser.objects.filter(choices_id=membership_id, last_message=message).exists()


def gone(browser_id: int) -> None:
    """Stop notifying a browser that its push service does not know any more."""
    with transaction.atomic():
        rows = PushBrowser.objects.select_related("choices__membership__user")
        row = rows.filter(pk=browser_id).first()
        if row is not None:
            membership = row.choices.membership
            locked(membership.tenant_id, membership.user_id)
            actor = Actor(name="the push service", door=Door.WORKER)
            before = _end(row, membership.user_id)
            name = membership.user.get_username()
            record_event("browser.gone", tenant_id=membership.tenant_id, target=name, actor=actor, before=before)


def may_be_asked(host: str, port: int, place: str) -> bool:
    """Whether requests may go to this host at the IP address `place`: if the address is public, or an administrator has
    named the host, with or without its port, as a push service of their own."""
    return is_public(place) or _named(host, f"{host}:{port}")


def _named(*hosts: str) -> bool:
    return not frozenset(hosts).isdisjoint(settings.TASKHUB_PUSH_HOSTS)


def _end(row: PushBrowser, user_id: int) -> dict[str, str]:
    """Delete the row of a person's browser. Returns what events say of the browser."""
    choices_id, tenant_id = row.choices_id, row.choices.membership.tenant_id
    row.delete()
    if not PushBrowser.objects.filter(choices_id=choices_id).exists():
        end_waiting(tenant_id, user_id, Channel.PUSH)
    return {"label": row.label, "host": row.host}


def _checked(endpoint: str, p256dh: str, auth: str) -> WebAddress:
    """The address of the browser at its push service. Raises `Invalid`, which names the field. Whether the name of the
    host leads to a public address is checked when a message is sent."""
    if len(endpoint) > MAX_ENDPOINT:
        raise Invalid(f"The address of the browser has more than {MAX_ENDPOINT:,} characters.", field="endpoint")
    try:
        address = web_address(endpoint)
    except BadAddress as error:
        raise Invalid(f"The address of the browser is not used: {error}.", field="endpoint") from None
    named = _named(address.name, address.host)
    local = is_loopback(address.name)
    if address.scheme != "https" and not (named and local):
        raise Invalid("The address of the browser is not used: it is not https.", field="endpoint")
    if not named and (local or not _may_be_public(address.name)):
        raise Invalid(
            f"The address of the browser is not used: {address.host} is in no public network, and not in"
            " TASKHUB_PUSH_HOSTS.",
            field="endpoint",
        )
    try:
        point = base64.urlsafe_b64decode(p256dh + "=" * (-len(p256dh) % 4))
        if len(point) != _POINT:
            raise ValueError
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        raise Invalid("The key of the browser is no point of P-256.", field="p256dh") from None
    try:
        secret = base64.urlsafe_b64decode(auth + "=" * (-len(auth) % 4))
    except ValueError:
        secret = b""
    if len(secret) != _AUTH:
        raise Invalid(f"The secret of the browser has not {_AUTH} bytes.", field="auth")
    return address


def _may_be_public(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return True
    return is_public(name.strip("[]"))
