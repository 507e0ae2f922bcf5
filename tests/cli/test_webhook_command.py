"""`manage.py webhook`: from a shell, in the default tenant."""

from __future__ import annotations

import re

import pytest
from django.core.management.base import CommandError

from taskhub.domain.clients.principals import default_tenant
from taskhub.domain.notices.kinds import Kind
from taskhub.domain.notices.outbox import Delivered, end_delivery, take_notices
from taskhub.domain.notices.webhooks import webhooks
from taskhub.store.models import Event, Notice, Webhook
from tests.cli.shell import run
from tests.factories import make_context

pytestmark = pytest.mark.django_db
URL = "https://receiver.example:8443/hooks/s3cret?x=1"


def test_it_is_added_changed_tried_and_removed() -> None:
    client = make_context(default_tenant(), "ci")
    code, secret, _ = run("webhook", "add", "ours", URL, "--events", "task.failed", "approval.asked", "--client", "ci")
    assert (code, bool(re.fullmatch(r"whsec_[A-Za-z0-9+/]{32}\n", secret))) == (0, True)
    (row,) = webhooks(default_tenant().pk)
    assert (row.kinds, row.context_id, row.origin) == (
        ("approval.asked", "task.failed"),
        client.pk,
        "https://receiver.example:8443",
    )
    said = run("webhook", "list")[1]
    assert said == "ours https://receiver.example:8443 approval.asked,task.failed client=ci: enabled\n"
    assert run("webhook", "change", "ours", "--client", "")[1] == "Changed.\n"
    assert run("webhook", "change", "ours", "--client", "")[1] == "Nothing to change.\n"
    assert run("webhook", "change", "ours", "--url", URL)[1] == "Nothing to change.\n"
    message = run("webhook", "test", "ours")[1].strip()
    assert run("webhook", "log", "ours")[1].startswith(message)
    assert Notice.objects.get().public_id == message
    assert run("webhook", "list")[1].endswith(": enabled; 1 wait\n")
    (taken,) = take_notices(1)
    end_delivery(taken, Delivered(ok=False, status=500, problem="The receiver answered 500"))
    said = run("webhook", "list")[1]
    assert re.search(
        r"does not answer since [-0-9: ]+ UTC: The receiver answered 500; 1 wait, next try at [0-9:]{8} UTC\n", said
    )
    assert run("webhook", "again", "ours", message)[1] == "It is sent again.\n"
    assert run("webhook", "rotate", "ours")[1] not in (secret, "")
    assert run("webhook", "disable", "ours")[1] == "Disabled.\n"
    assert run("webhook", "disable", "ours")[1] == "It was disabled already.\n"
    with pytest.raises(CommandError, match="ours is disabled; enable it first"):
        run("webhook", "test", "ours")
    with pytest.raises(CommandError, match="ours is disabled; enable it first"):
        run("webhook", "again", "ours", message)
    assert Notice.objects.get().state == "failed", "what waited was given up, and nothing waits unseen"
    assert run("webhook", "enable", "ours")[1] == "Enabled.\n"
    assert run("webhook", "remove", "ours")[1] == "ours is removed.\n"
    assert not Webhook.objects.exists()
    assert not Notice.objects.exists()
    told = list(Event.objects.filter(action__startswith="webhook.").order_by("id").values_list("action", "door"))
    assert [action.removeprefix("webhook.") for action, _ in told] == [
        *("added", "changed", "tested", "sent.again", "secret.renewed", "disabled", "enabled", "removed")
    ]
    assert {door for _, door in told} == {"cli"}
    assert "s3cret" not in str(list(Event.objects.values()))
    assert secret.strip() not in str(list(Event.objects.values()))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "", URL), "1 to 64 visible characters"),
        (("add", "ours", "ftp://receiver.example/"), "no http or https address"),
        (("add", "ours", "https://me:pw@receiver.example/"), "Nothing is sent to this address"),
        (("add", "ours", "https://receiver.example/#x"), "it has a fragment"),
        (("add", "ours", "https://receiver.example/" + "x" * 2_000), "at most 2,000 characters"),
        (("add", "ours", URL, "--client", "nobody"), "No client is named nobody"),
        (("add", "known", URL), "a webhook named known already"),
        (("change", "nothing"), "There is no webhook named nothing"),
        (("again", "known", "msg_none"), "no such message"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(words: tuple[str, ...], why: str) -> None:
    run("webhook", "add", "known", URL)
    before = list(Webhook.objects.values())
    with pytest.raises(CommandError, match=re.escape(why)):
        run("webhook", *words)
    assert list(Webhook.objects.values()) == before
    assert webhooks(default_tenant().pk)[0].kinds == tuple(Kind)


def test_an_event_that_is_none_is_answered_with_those_that_are() -> None:
    with pytest.raises(CommandError, match=r"invalid choice: 'task\.finised'") as refused:
        run("webhook", "add", "ours", URL, "--events", "task.finised")
    assert all(str(kind) in str(refused.value) for kind in Kind)
    assert "Kind" not in str(refused.value)


def test_there_is_a_bound() -> None:
    for number in range(20):
        run("webhook", "add", f"hook {number}", URL)
    with pytest.raises(CommandError, match="There are 20 webhooks"):
        run("webhook", "add", "one more", URL)
