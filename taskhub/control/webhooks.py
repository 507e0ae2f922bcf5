"""Use cases for webhooks: add, change, enable, disable, remove and test them, renew a secret, and send again."""

from __future__ import annotations

from taskhub.control.caller import Caller
from taskhub.core.errors import NotFound
from taskhub.domain.audit.record import record_event
from taskhub.domain.notices import outbox, webhooks
from taskhub.domain.notices.outbox import NoticeRow
from taskhub.domain.notices.queueing import begin_queueing, new_id
from taskhub.domain.notices.webhooks import Wanted, WebhookRow


def list_webhooks(caller: Caller) -> list[WebhookRow]:
    """The webhooks of the caller's tenant, by name. Raises `Forbidden`."""
    caller.require("settings.view", what="list webhooks")
    return webhooks.webhooks(caller.tenant_id)


def find_webhook(caller: Caller, webhook_id: int) -> WebhookRow:
    """A webhook of the caller's tenant. Raises `Forbidden` or `NotFound`."""
    caller.require("settings.view", f"see webhook {webhook_id}")
    return webhooks.webhook(caller.tenant_id, webhook_id)


def webhook_log(caller: Caller, webhook_id: int) -> list[NoticeRow]:
    """The messages that were sent to a webhook or that wait for it, newest first. Raises `Forbidden` or `NotFound`."""
    find_webhook(caller, webhook_id)
    return outbox.notice_log(caller.tenant_id, webhook_id)


def add_webhook(caller: Caller, wanted: Wanted) -> tuple[int, str]:
    """Add a webhook. Returns its id and its secret, which cannot be shown again. It gets notices of events from now on.
    Raises `Forbidden`, and what `webhooks.add_webhook` raises."""
    caller.require("settings.view", f"add webhook {wanted.name[:64]}")
    begin_queueing()
    return webhooks.add_webhook(tenant_id=caller.tenant_id, wanted=wanted, actor=caller.actor)


def change_webhook(caller: Caller, webhook_id: int, wanted: Wanted) -> bool:
    """Change a webhook. Returns `False` if nothing differed. Raises `Forbidden`, and what `webhooks.change_webhook`
    raises."""
    caller.require("settings.view", f"change webhook {webhook_id}")
    return webhooks.change_webhook(tenant_id=caller.tenant_id, webhook_id=webhook_id, wanted=wanted, actor=caller.actor)


def set_webhook_enabled(caller: Caller, webhook_id: int, *, enabled: bool) -> bool:
    """Enable or disable a webhook. Returns `False` if it was enabled or disabled already. Raises `Forbidden` or
    `NotFound`."""
    caller.require("settings.view", f"{'enable' if enabled else 'disable'} webhook {webhook_id}")
    return webhooks.set_enabled(tenant_id=caller.tenant_id, webhook_id=webhook_id, enabled=enabled, actor=caller.actor)


def remove_webhook(caller: Caller, webhook_id: int) -> str:
    """Remove a webhook with its log. Returns its name. Raises `Forbidden` or `NotFound`."""
    caller.require("settings.view", f"remove webhook {webhook_id}")
    return webhooks.remove_webhook(tenant_id=caller.tenant_id, webhook_id=webhook_id, actor=caller.actor)


def renew_webhook_secret(caller: Caller, webhook_id: int) -> str:
    """Give a webhook a new secret, and return it: it cannot be shown again. Raises `Forbidden` or `NotFound`."""
    caller.require("settings.view", f"renew the secret of webhook {webhook_id}")
    return webhooks.renew_secret(tenant_id=caller.tenant_id, webhook_id=webhook_id, actor=caller.actor)


def test_webhook(caller: Caller, webhook_id: int) -> str:
    """Have a test sent to a webhook, and return the message's id. Raises `Forbidden`, `NotFound`, or `Refused` if it is
    disabled."""
    caller.require("settings.view", f"send a test to webhook {webhook_id}")
    public_id = new_id()
    webhooks.send_test(tenant_id=caller.tenant_id, webhook_id=webhook_id, actor=caller.actor, public_id=public_id)
    return public_id


def send_again(caller: Caller, webhook_id: int, message: str) -> None:
    """Send a message to a webhook again, under the same id. Raises `Forbidden`, `NotFound` (also for a message that is
    being sent), or `Refused` if the webhook is disabled."""
    caller.require("settings.view", f"send again to webhook {webhook_id}")
    found = webhooks.webhook(caller.tenant_id, webhook_id)
    if not found.enabled:
        raise webhooks.disabled(found.name)
    if not outbox.send_again(caller.tenant_id, webhook_id, message):
        raise NotFound("There is no such message any more, or it is just being sent.")
    record_event(
        "webhook.sent.again",
        tenant_id=caller.tenant_id,
        target=found.name,
        actor=caller.actor,
        after={"message": message},
    )
