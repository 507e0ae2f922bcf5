"""Webhooks: receivers over HTTP. Their addresses and secrets are stored encrypted; no page and no event has them."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import IntegrityError, transaction

from taskhub.core.errors import Invalid, LimitReached, NotFound, Refused
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.notices.kinds import TEST, Kind
from taskhub.lib import jsonx
from taskhub.lib.addresses import BadAddress, web_address
from taskhub.lib.signing import InvalidToken, Vault
from taskhub.lib.signs import invisible, spelled
from taskhub.store import statements
from taskhub.store.models import AuthContext, Webhook

MOST: Final = 20
"""The most webhooks of a tenant."""
MAX_NAME: Final = 64
MAX_URL: Final = 2_000
COUNTED: Final = 10_000
"""Notices that wait for one webhook and are counted for its page."""
SILENT_SECONDS: Final = 60.0
"""How long a webhook has not answered before the overview says so."""
BEFORE_HOURS: Final = 24
"""Hours for which the previous secret signs too, after a webhook got a new one."""
_SECRET_BYTES: Final = 24
_PREFIX: Final = "whsec_"


@dataclass(frozen=True, slots=True)
class WebhookRow:
    """A webhook for its page. `client`: the client whose news alone is sent; `None` for all clients. `problem`: why the
    latest delivery failed; empty if the webhook answers. `waiting`: how many notices wait for it, counted up to
    `COUNTED`. `next_at`: when the next of them is delivered; `None` if none waits, or it is delivered as soon as a
    worker takes it. `before_until`: until when the previous secret signs too."""

    id: int
    name: str
    origin: str
    kinds: tuple[str, ...]
    context_id: int | None
    client: str | None
    enabled: bool
    disabled_why: str
    failing_since: datetime | None
    problem: str
    waiting: int
    next_at: datetime | None
    made_at: datetime
    before_until: datetime | None
    sent_at: datetime | None


@dataclass(frozen=True, slots=True)
class SilentWebhook:
    """A webhook that has not answered since the first failure, `failing_since`."""

    id: int
    name: str
    failing_since: datetime


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a webhook is to be. `url`: `None` if the address stays as it is. `client`: the name of the client whose news
    alone is sent; empty for all clients."""

    name: str
    url: str | None = field(repr=False)
    kinds: Sequence[str]
    client: str = ""


_ROWS = statements.many("webhook_rows", WebhookRow)
_SILENT = statements.many("silent_webhooks", SilentWebhook)
_FAIL = statements.rowcount("fail_waiting")
_HASTEN = statements.rowcount("hasten_waiting")
_TEST = statements.none("queue_test")


def vault() -> Vault:
    """Encrypts addresses and secrets of webhooks under `SECRET_KEY`."""
    return Vault(settings.SECRET_KEY.encode())


def opened(box: Vault, sealed: bytes | memoryview) -> str:
    """The text that is encrypted in `sealed`; empty if it was encrypted under another `SECRET_KEY`."""
    try:
        return box.decrypt(bytes(sealed))
    except InvalidToken:
        return ""


def webhooks(tenant_id: int) -> list[WebhookRow]:
    """The webhooks of a tenant, by name."""
    return _ROWS(tenant=tenant_id, webhook=None, most=COUNTED)


def silent_webhooks(tenant_id: int) -> list[SilentWebhook]:
    """The tenant's enabled webhooks that have not answered for `SILENT_SECONDS`, the longest first."""
    return _SILENT(tenant=tenant_id, seconds=SILENT_SECONDS)


def webhook(tenant_id: int, webhook_id: int) -> WebhookRow:
    """A webhook of the tenant. Raises `NotFound`."""
    found = _ROWS(tenant=tenant_id, webhook=webhook_id, most=COUNTED) if webhook_id < 2**63 else []
    if not found:
        raise NotFound("There is no such webhook.")
    return found[0]


def add_webhook(*, tenant_id: int, wanted: Wanted, actor: Actor) -> tuple[int, str]:
    """Add a webhook. Returns its id and its secret, which cannot be shown again. Raises `Invalid`, which names the
    field, `Refused` for a name that is taken, or `LimitReached`."""
    origin = _checked(wanted)
    if wanted.url is None:
        raise Invalid("Say where to send: an http or https address.", field="url")
    context_id = _client(tenant_id, wanted.client)
    secret = _new_secret()
    with transaction.atomic():
        if Webhook.objects.select_for_update().filter(tenant_id=tenant_id).count() >= MOST:
            raise LimitReached(f"There are {MOST} webhooks: remove one first.")
        try:
            with transaction.atomic():
                row = Webhook.objects.create(
                    tenant_id=tenant_id,
                    name=wanted.name,
                    sealed_url=vault().encrypt(wanted.url),
                    origin=origin,
                    kinds=_ordered(wanted.kinds),
                    context_id=context_id,
                    sealed_secret=vault().encrypt(secret),
                )
        except IntegrityError:
            raise _taken(wanted.name) from None
        record_event("webhook.added", tenant_id=tenant_id, target=wanted.name, actor=actor, after=_shown(row))
    return int(row.pk), secret


def change_webhook(*, tenant_id: int, webhook_id: int, wanted: Wanted, actor: Actor) -> bool:
    """Change a webhook. If its address changes, notices that wait for it are sent to the new address at once. Returns
    `False` if nothing differed. Raises `NotFound`, `Invalid`, which names the field, or `Refused` for a name that is
    taken."""
    origin = _checked(wanted)
    with transaction.atomic():
        row = _locked(tenant_id, webhook_id)
        before, address = (row.name, _shown(row)), opened(vault(), row.sealed_url)
        if wanted.client != ("" if row.context is None else row.context.name):
            row.context_id = _client(tenant_id, wanted.client)
        row.name, row.kinds = wanted.name, _ordered(wanted.kinds)
        moved = wanted.url is not None and wanted.url != address
        if moved:
            assert wanted.url is not None
            row.sealed_url, row.origin = vault().encrypt(wanted.url), origin
            row.failing_since, row.problem = None, ""
        after = _shown(row)
        if before == (row.name, after) and not moved:
            return False
        try:
            with transaction.atomic():
                row.save()
        except IntegrityError:
            raise _taken(wanted.name) from None
        if moved:
            _HASTEN(webhook=row.pk)
        record_event(
            "webhook.changed",
            tenant_id=tenant_id,
            target=row.name,
            actor=actor,
            before=before[1],
            after={**after, "moved": moved},
        )
    return True


def set_enabled(*, tenant_id: int, webhook_id: int, enabled: bool, actor: Actor, why: str = "") -> bool:
    """Enable or disable a webhook. Disabling makes the notices that wait for it fail. Returns `False` if nothing
    changed. Raises `NotFound`."""
    with transaction.atomic():
        row = _locked(tenant_id, webhook_id)
        if row.enabled == enabled:
            return False
        row.enabled, row.disabled_why, row.failing_since, row.problem = enabled, why, None, ""
        row.save(update_fields=["enabled", "disabled_why", "failing_since", "problem"])
        if not enabled:
            _FAIL(webhook=row.pk, problem="Not sent: the webhook was disabled")
        record_event(
            "webhook.enabled" if enabled else "webhook.disabled",
            tenant_id=tenant_id,
            target=row.name,
            actor=replace(actor, reason=why or actor.reason),
        )
    return True


def remove_webhook(*, tenant_id: int, webhook_id: int, actor: Actor) -> str:
    """Remove a webhook with its notices. Returns its name. Raises `NotFound`."""
    with transaction.atomic():
        row = _locked(tenant_id, webhook_id)
        record_event("webhook.removed", tenant_id=tenant_id, target=row.name, actor=actor, before=_shown(row))
        row.delete()
    return str(row.name)


def renew_secret(*, tenant_id: int, webhook_id: int, actor: Actor) -> str:
    """Give a webhook a new secret, and return the secret, which cannot be shown again. For `BEFORE_HOURS`, the previous
    secret signs too. Notices that wait for the webhook are sent at once, because it may have refused them for their
    signature. Raises `NotFound`."""
    secret = _new_secret()
    with transaction.atomic():
        row = _locked(tenant_id, webhook_id)
        row.sealed_secret_before, row.sealed_secret = row.sealed_secret, vault().encrypt(secret)
        row.before_until = datetime.now(UTC) + timedelta(hours=BEFORE_HOURS)
        row.save(update_fields=["sealed_secret", "sealed_secret_before", "before_until"])
        _HASTEN(webhook=row.pk)
        record_event("webhook.secret.renewed", tenant_id=tenant_id, target=row.name, actor=actor)
    return secret


def send_test(*, tenant_id: int, webhook_id: int, actor: Actor, public_id: str) -> None:
    """Queue a notice without news, as a test. Raises `NotFound`, or `Refused` for a disabled webhook."""
    with transaction.atomic():
        row = _locked(tenant_id, webhook_id)
        if not row.enabled:
            raise disabled(row.name)
        body = {"type": TEST, "timestamp": datetime.now(UTC).isoformat(), "data": {"webhook": row.name}}
        sent = jsonx.encode(body).decode()
        _TEST(public_id=public_id, tenant=tenant_id, webhook=row.pk, kind=TEST, body=sent)
        record_event("webhook.tested", tenant_id=tenant_id, target=row.name, actor=actor)


def disabled(name: str) -> Refused:
    """The error for somebody who wants a notice sent to a disabled webhook."""
    return Refused(f"{name} is disabled; enable it first.")


def _locked(tenant_id: int, webhook_id: int) -> Webhook:
    found = None
    if webhook_id < 2**63:
        found = Webhook.objects.select_for_update().filter(tenant_id=tenant_id, pk=webhook_id).first()
    if found is None:
        raise NotFound("There is no such webhook.")
    return found


def _client(tenant_id: int, name: str) -> int | None:
    """The id of the client of this name; `None` if `name` is empty. Raises `Invalid` if no client, or more than one,
    has this name."""
    if not name:
        return None
    found = list(AuthContext.objects.filter(tenant_id=tenant_id, name=name).values_list("pk", flat=True)[:2])
    if len(found) != 1:
        raise Invalid(f"{'More than one' if found else 'No'} client is named {spelled(name)[:128]}.", field="client")
    return int(found[0])


def _checked(wanted: Wanted) -> str:
    """The origin of the address; empty if the address stays as it is. Raises `Invalid`, which names the field."""
    if not wanted.name.strip() or len(wanted.name) > MAX_NAME or invisible(wanted.name):
        raise Invalid(f"A name has 1 to {MAX_NAME} visible characters.", field="name")
    if not wanted.kinds:
        raise Invalid("Choose what is sent.", field="kinds")
    if unknown := set(wanted.kinds) - set(Kind):
        raise Invalid(f"There is no news of the kind {min(unknown)[:64]!r}.", field="kinds")
    if wanted.url is None:
        return ""
    if len(wanted.url) > MAX_URL:
        raise Invalid(f"The address has at most {MAX_URL:,} characters.", field="url")
    try:
        address = web_address(wanted.url)
    except BadAddress as error:
        raise Invalid(f"Nothing is sent to this address: {error}.", field="url") from None
    if "#" in wanted.url:
        raise Invalid("Nothing is sent to this address: it has a fragment.", field="url")
    return f"{address.scheme}://{address.host}"


def _ordered(kinds: Sequence[str]) -> list[str]:
    return [kind for kind in Kind if kind in kinds]


def _shown(row: Webhook) -> dict[str, Any]:
    """What events say of a webhook: not its address, and not its secret."""
    return {"origin": row.origin, "kinds": list(row.kinds), "client": row.context_id}


def _new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def _taken(name: str) -> Refused:
    return Refused(f"There is a webhook named {name} already.")
