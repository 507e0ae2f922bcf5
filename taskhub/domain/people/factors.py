"""The second factor of a person: an authenticator app (TOTP, RFC 6238), and recovery codes in case the phone is lost.
The records and their codes are allauth's (`allauth.mfa`).

Two things that allauth keeps in the cache of one process are in the database here, so that they hold for all web
processes: which codes were used, since each is valid only once, and how many wrong codes a person has tried."""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from allauth.mfa.adapter import DefaultMFAAdapter, get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from taskhub.core.errors import Invalid, LimitReached, NotFound, Refused
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.catalogue.reads import vault
from taskhub.domain.people.browser_sessions import row_key
from taskhub.domain.rules.changes import note_governed
from taskhub.lib.signing import InvalidToken
from taskhub.store import statements
from taskhub.store.models import Membership

TRIES: Final = 10
"""The most wrong codes of one person within `TRIES_SECONDS`, in all web processes together."""
TRIES_SECONDS: Final = 900
SET_UP_SECONDS: Final = 900
"""Seconds that a person has to scan the QR code for a new authenticator app and type its first code."""

_TRY = statements.one("try_code", int)
_TRIED = statements.none("forget_tries")
_USE = statements.rowcount("use_code")
_END = statements.rowcount("end_sign_ins_but")
_KINDS: Final = {Authenticator.Type.TOTP, Authenticator.Type.RECOVERY_CODES}


class SealedFactors(DefaultMFAAdapter):
    """allauth's records, with secrets encrypted under `SECRET_KEY`, as all secrets are stored. `site`: the host of this
    hub, which an authenticator app shows beside the username."""

    site = ""

    def encrypt(self, text: str) -> str:
        """The secret, encrypted, to be stored."""
        return vault().encrypt(text).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """The secret. Raises `InvalidToken` when it was encrypted under another `SECRET_KEY`."""
        return vault().decrypt(encrypted_text.encode())

    def get_totp_issuer(self) -> str:
        """The name under which an authenticator app shows this hub."""
        return f"TaskHub {self.site}".strip()


@dataclass(frozen=True, slots=True)
class Factor:
    """A person's second factor. `codes_left`: how many recovery codes were not used yet. `readable`: whether the factor
    was encrypted under the present `SECRET_KEY`."""

    added_at: datetime
    used_at: datetime | None
    codes_left: int
    readable: bool


@dataclass(frozen=True, slots=True)
class NewApp:
    """An authenticator app that is being set up, in three forms: its `secret` in Base32; an `image` with a QR code, as
    a `data:` URL; and an `address` (`otpauth:`) that opens an app on the same device."""

    secret: str
    image: str
    address: str


@dataclass(frozen=True, slots=True)
class Checked:
    """The factor of which a code was. `id`: of the factor's record. `kind`: `totp` or `recovery_codes`."""

    id: int
    kind: str
    record: Any


def factor_of(user_id: int) -> Factor | None:
    """The person's second factor; `None` if they have none."""
    rows = {row.type: row for row in Authenticator.objects.filter(user_id=user_id, type__in=_KINDS)}
    if (app := rows.get(Authenticator.Type.TOTP)) is None:
        return None
    codes = rows.get(Authenticator.Type.RECOVERY_CODES)
    used = [row.last_used_at for row in rows.values() if row.last_used_at is not None]
    try:
        get_adapter().decrypt(app.data["secret"])
        left = 0 if codes is None else len(codes.wrap().get_unused_codes())
    except InvalidToken:
        return Factor(app.created_at, max(used, default=None), 0, readable=False)
    return Factor(app.created_at, max(used, default=None), left, readable=True)


def with_factor(column: str) -> Exists:
    """A condition for a query: whether the user whose id is in `column` has a second factor."""
    return Exists(Authenticator.objects.filter(user_id=OuterRef(column), type=Authenticator.Type.TOTP))


def is_of(user_id: int, factor: int) -> bool:
    """Whether the factor with the id `factor` is the person's."""
    return Authenticator.objects.filter(user_id=user_id, pk=factor).exists()


def new_app(user_id: int, site: str, secret: str = "") -> NewApp:
    """An app for the person, with a new secret or, if it is not empty, with `secret`. `site`: the host of this hub.
    Nothing is stored."""
    secret = secret or totp.generate_totp_secret()
    adapter = SealedFactors()
    adapter.site = site
    address = adapter.build_totp_url(_user(user_id), secret)
    image = base64.b64encode(adapter.build_totp_svg(address).encode()).decode()
    return NewApp(secret, f"data:image/svg+xml;base64,{image}", address)


def set_up(
    *, tenant_id: int, user_id: int, secret: str, code: str, actor: Actor, kept: str = ""
) -> tuple[int, tuple[str, ...]]:
    """Make the app with this secret the person's second factor, if `code` shows that they have the app. Returns the id
    of the factor's record, and the recovery codes, which cannot be shown again. The person's browser sessions, which
    began without the factor, end, except for the session with the cookie `kept`.

    Raises `Invalid` for a wrong code, `LimitReached` after too many wrong codes, or `Refused` if the person has an app
    already.
    """
    _count_try(user_id)
    if (step := _step(secret, code)) is None:
        raise Invalid("That is not the code that this secret has now. Is the time of your device right?", field="code")
    with transaction.atomic():
        user = _user(user_id, lock=True)
        if Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists():
            raise Refused("You have an authenticator app already. Remove it first.")
        if not _USE(user=user_id, step=step):
            raise Invalid("This code was used before. Wait for the next one.", field="code")
        Authenticator.objects.filter(user=user, type=Authenticator.Type.RECOVERY_CODES).delete()
        app = totp.TOTP.activate(user, secret).instance
        codes = RecoveryCodes.activate(user).generate_codes()
        record_event(
            "person.factor.added",
            tenant_id=tenant_id,
            target=user.get_username(),
            actor=actor,
            after={"factor": app.type, "codes": len(codes)},
        )
        _end_others(tenant_id, user, kept, actor)
        _TRIED(user=user_id)
    return int(app.pk), tuple(codes)


def renew_codes(*, tenant_id: int, user_id: int, actor: Actor) -> tuple[str, ...]:
    """Give the person new recovery codes, and return these; they cannot be shown again. The earlier recovery codes are
    not valid any more. Raises `NotFound` for somebody without a second factor."""
    with transaction.atomic():
        user = _user(user_id, lock=True)
        if not Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists():
            raise NotFound("There is no second factor: set one up, and you get recovery codes.")
        Authenticator.objects.filter(user=user, type=Authenticator.Type.RECOVERY_CODES).delete()
        codes = RecoveryCodes.activate(user).generate_codes()
        record_event(
            "person.codes.renewed",
            tenant_id=tenant_id,
            target=user.get_username(),
            actor=actor,
            after={"codes": len(codes)},
        )
    return tuple(codes)


def remove_own(*, tenant_id: int, user_id: int, actor: Actor, kept: str = "") -> bool:
    """Remove the person's second factor and recovery codes, and end their browser sessions, except for the session with
    the cookie `kept`. Returns `False`, and does nothing, if the person has no second factor."""
    with transaction.atomic():
        return _remove(tenant_id, _user(user_id, lock=True), actor, kept)


def remove_of(*, tenant_id: int, user_id: int, actor: Actor) -> tuple[str, bool]:
    """Remove the second factor of another person. Returns that person's username, and whether they had a second factor.
    If they had one, their browser sessions end, and neither of the two people may decide on calls that were made before
    (`th_barred`), as with a password that somebody else sets. Raises `NotFound`."""
    with transaction.atomic():
        found = Membership.objects.select_related("user").filter(tenant_id=tenant_id, user_id=user_id).first()
        if found is None:
            raise NotFound("No such person.")
        user = _user(user_id, lock=True)
        if done := _remove(tenant_id, user, actor):
            Membership.objects.filter(pk=found.pk).update(granted_at=Now())
            note_governed(tenant_id, actor)
    return str(user.get_username()), done


def forget(user_id: int) -> None:
    """Delete the factors of a person who has no role any more, because the account may be used again later."""
    Authenticator.objects.filter(user_id=user_id).delete()


def check_code(*, tenant_id: int | None, user_id: int, code: str, actor: Actor) -> Checked:
    """Check a code of the person, and return the factor of which it is. Each code is valid only once: a code of an app
    is refused from then on, as are the app's earlier codes; a recovery code is deleted, which is recorded.

    Raises `Invalid` for a wrong code, or if the person has no factor, and `LimitReached` after too many wrong codes.
    """
    _count_try(user_id)
    typed = "".join(code.split())
    for row in Authenticator.objects.filter(user_id=user_id, type__in=_KINDS).order_by("-type"):
        try:
            good = _is_code(row, typed, tenant_id, actor)
        except InvalidToken:
            continue  # encrypted under another SECRET_KEY: an admin has to remove it
        if good:
            _TRIED(user=user_id)
            row.record_usage()
            return Checked(int(row.pk), str(row.type), row)
    record_event("person.code.refused", tenant_id=tenant_id, target=_user(user_id).get_username(), actor=actor)
    raise Invalid(
        "That is not a code of yours, or it was used before: an app has the next one within 30 seconds.", field="code"
    )


def _is_code(row: Any, typed: str, tenant_id: int | None, actor: Actor) -> bool:
    if row.type == Authenticator.Type.TOTP:
        step = _step(get_adapter().decrypt(row.data["secret"]), typed)
        return step is not None and bool(_USE(user=row.user_id, step=step))
    with transaction.atomic():
        codes = row.wrap()
        if not codes.validate_code(typed):
            return False
        row.refresh_from_db()
        record_event(
            "person.code.used",
            tenant_id=tenant_id,
            target=_user(row.user_id).get_username(),
            actor=actor,
            after={"left": len(row.wrap().get_unused_codes())},
        )
    return True


def _step(secret: str, code: str) -> int | None:
    """The number of the period of 30 seconds in which an app shows this code: the present period, the one before or the
    one after. `None` if the app shows it in none of these."""
    typed = "".join(code.split()).encode()
    for step in cast("Any", totp.yield_hotp_counters_from_time()):
        if hmac.compare_digest(totp.format_hotp_value(totp.hotp_value(secret, step)).encode(), typed):
            return int(step)
    return None


def _count_try(user_id: int) -> None:
    """Count one more try. This comes before the code is checked, so that many tries at the same moment cannot exceed
    the limit. Raises `LimitReached`."""
    if _TRY(user=user_id, seconds=TRIES_SECONDS) > TRIES:
        raise LimitReached(
            f"Too many wrong codes: at most {TRIES} in {TRIES_SECONDS // 60} minutes. Try again later.",
            retry_after=TRIES_SECONDS,
        )


def _remove(tenant_id: int, user: Any, actor: Actor, kept: str = "") -> bool:
    found = Authenticator.objects.filter(user=user)
    kinds = sorted({str(kind) for kind in found.values_list("type", flat=True)} - {"recovery_codes"})
    found.delete()
    for kind in kinds:
        record_event(
            "person.factor.removed",
            tenant_id=tenant_id,
            target=user.get_username(),
            actor=actor,
            before={"factor": kind},
        )
    if kinds:
        _end_others(tenant_id, user, kept, actor)
    return bool(kinds)


def _end_others(tenant_id: int, user: Any, kept: str, actor: Actor) -> None:
    """End the person's browser sessions, except for the session with the cookie `kept`, and record how many."""
    if ended := _END(user=user.pk, kept=row_key(kept)):
        record_event(
            "person.sessions.ended",
            tenant_id=tenant_id,
            target=user.get_username(),
            actor=actor,
            after={"sessions": ended},
        )


def _user(user_id: int, *, lock: bool = False) -> Any:
    users: Any = get_user_model()
    return (users.objects.select_for_update() if lock else users.objects).get(pk=user_id)
