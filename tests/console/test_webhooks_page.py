"""Webhooks in the console: their list, the page of one, and what it never shows."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from taskhub.core.states import Role
from taskhub.domain.notices.kinds import Kind
from taskhub.domain.notices.outbox import Delivered, end_delivery, take_notices
from taskhub.domain.notices.webhooks import webhook, webhooks
from taskhub.store.models import Notice, Tenant, Webhook
from tests.console.admin import browser, words
from tests.factories import make_context, make_person, make_tenant

pytestmark = pytest.mark.django_db
PAGE = "/settings/webhooks/"
URL = "https://receiver.example/hooks/s3cret-path"
SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{32}")


def add(admin: Client, name: str = "ours", **given: object) -> tuple[int, str]:
    """A webhook, added by the form; its id and secret."""
    answer = admin.post(f"{PAGE}add", {"name": name, "url": URL, "kinds": list(Kind), **given})
    assert answer.status_code == 200
    (secret,) = set(SECRET.findall(answer.content.decode()))
    return Webhook.objects.get(name=name).pk, secret


def test_it_is_added_and_its_secret_is_shown_once(admin: Client, tenant: Tenant) -> None:
    assert f'href="{PAGE}"' in admin.get("/settings/").content.decode()
    assert "No webhook yet." in words(admin.get(PAGE).content.decode())
    form = admin.get(f"{PAGE}?new").content.decode()
    assert all(f"<code>{kind}</code>" in form for kind in Kind)
    make_context(tenant, "ci")
    pk, secret = add(admin, kinds=[Kind.FAILED], client="ci")
    (row,) = webhooks(tenant.pk)
    assert (row.kinds, row.client, row.origin) == (("task.failed",), "ci", "https://receiver.example")
    for path in (PAGE, f"{PAGE}{pk}/", f"{PAGE}{pk}/?edit", f"{PAGE}{pk}/?do=rotate", "/audit/"):
        html = admin.get(path).content.decode()
        assert secret not in html, path
        assert "s3cret-path" not in html, path
    assert "https://receiver.example" in words(admin.get(PAGE).content.decode())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "A name has 1 to 64 visible characters."),
        ({"name": "a\u202eb"}, "A name has 1 to 64 visible characters."),
        ({"url": ""}, "Say where to send: an http or https address."),
        ({"url": "javascript:alert(1)"}, "Nothing is sent to this address: it is no http or https address."),
        ({"url": "https://receiver.example\\@evil.example/"}, "it holds a backslash"),
        ({"kinds": []}, "Choose what is sent."),
        ({"client": "nobody"}, "No client is named nobody."),
    ],
)
def test_what_is_wrong_stands_beside_its_field(
    admin: Client, tenant: Tenant, given: dict[str, object], said: str
) -> None:
    sent = {"name": "ours", "url": URL, "kinds": list(Kind), **given}
    answer = admin.post(f"{PAGE}add", sent)
    assert (answer.status_code, said in words(answer.content.decode())) == (400, True)
    assert 'aria-invalid="true"' in answer.content.decode()
    assert not Webhook.objects.exists()
    pk, _ = add(admin, "known")
    taken = admin.post(f"{PAGE}add", {**sent, "name": "known", "url": URL, "kinds": ["task.failed"], "client": ""})
    assert (taken.status_code, "a webhook named known already" in taken.content.decode()) == (400, True)
    if "url" in given and given["url"] == "":
        return  # which leaves the address as it is
    answer = admin.post(f"{PAGE}{pk}/change", sent)
    assert (answer.status_code, said in words(answer.content.decode())) == (400, True)
    assert webhook(tenant.pk, pk).name == "known"


def test_it_is_changed_and_an_empty_address_stays(admin: Client, tenant: Tenant) -> None:
    pk, _ = add(admin)
    sealed = bytes(Webhook.objects.get().sealed_url)
    form = admin.get(f"{PAGE}{pk}/?edit").content.decode()
    assert 'value="ours"' in form
    assert "Leave it empty to keep the present one." in words(form)
    answer = admin.post(f"{PAGE}{pk}/change", {"name": "theirs", "url": "", "kinds": ["task.failed"], "client": ""})
    assert answer.status_code == 302
    row = Webhook.objects.get()
    assert (row.name, row.kinds, bytes(row.sealed_url)) == ("theirs", ["task.failed"], sealed)
    admin.post(f"{PAGE}{pk}/change", {"name": "theirs", "url": "http://other.example", "kinds": ["task.failed"]})
    assert webhook(tenant.pk, pk).origin == "http://other.example"
    assert "Saved." in words(admin.get(f"{PAGE}{pk}/").content.decode())


def test_a_test_is_sent_and_its_way_is_shown(admin: Client, tenant: Tenant) -> None:
    pk, _ = add(admin)
    assert "No message yet." in words(admin.get(f"{PAGE}{pk}/").content.decode())
    admin.post(f"{PAGE}{pk}/test")
    page = words(admin.get(f"{PAGE}{pk}/").content.decode())
    assert "webhook.test" in page
    assert "Waits" in page
    assert "Waiting 1 message, being sent" in page
    (taken,) = take_notices(1)
    page = words(admin.get(f"{PAGE}{pk}/").content.decode())
    assert "On its way" in page
    assert "Send again" not in page
    end_delivery(taken, Delivered(ok=False, status=500, answer="<b>no\u202e</b>", problem="The receiver answered 500"))
    html = admin.get(f"{PAGE}{pk}/").content.decode()
    page = words(html)
    assert "The receiver answered 500" in page
    assert "It does not answer; the first failure was" in page
    assert "The latest: The receiver answered 500." in page
    assert "Waiting 1 message, next try in" in page
    assert "<b>no" not in html
    assert "\u202e" not in html
    assert "Does not answer" in words(admin.get(PAGE).content.decode())
    admin.post(f"{PAGE}{pk}/again", {"message": taken.public_id})
    (again,) = take_notices(1)
    assert (again.public_id, again.number) == (taken.public_id, 2)
    end_delivery(again, Delivered(ok=True, status=200, answer="thanks"))
    page = words(admin.get(f"{PAGE}{pk}/").content.decode())
    assert "Delivered 2 attempts" in page
    assert "It does not answer" not in page
    assert "Waiting no message" in page


def test_it_is_disabled_enabled_rotated_and_removed(admin: Client, tenant: Tenant) -> None:
    pk, secret = add(admin)
    assert "Disable ours?" in words(admin.get(f"{PAGE}{pk}/?do=disable").content.decode())
    admin.post(f"{PAGE}{pk}/toggle", {"enabled": "0"})
    page = words(admin.get(f"{PAGE}{pk}/").content.decode())
    assert "Disabled: nothing is sent." in page
    assert f"{PAGE}{pk}/test" not in admin.get(f"{PAGE}{pk}/").content.decode()
    admin.post(f"{PAGE}{pk}/test")
    answer = admin.post(f"{PAGE}{pk}/again", {"message": "msg_of_a_page_that_is_old"})
    assert answer.status_code == 302
    assert "ours is disabled; enable it first." in words(admin.get(f"{PAGE}{pk}/").content.decode())
    assert not Notice.objects.exists()
    admin.post(f"{PAGE}{pk}/toggle", {"enabled": "1"})
    assert webhook(tenant.pk, pk).enabled
    lost = "a receiver that does not have the present one yet refuses all messages"
    assert lost not in words(admin.get(f"{PAGE}{pk}/?do=rotate").content.decode())
    answer = admin.post(f"{PAGE}{pk}/rotate").content.decode()
    (new,) = set(SECRET.findall(answer))
    assert new != secret
    assert "The one before signs too for 24 hours." in words(answer)
    assert "Secret before" in words(admin.get(f"{PAGE}{pk}/").content.decode())
    assert lost in words(admin.get(f"{PAGE}{pk}/?do=rotate").content.decode())
    assert "Remove ours?" in words(admin.get(f"{PAGE}{pk}/?do=remove").content.decode())
    assert admin.post(f"{PAGE}{pk}/remove").headers["Location"] == PAGE
    assert "ours is removed." in words(admin.get(PAGE).content.decode())
    assert not Webhook.objects.exists()


def test_of_another_tenant_there_is_nothing(admin: Client) -> None:
    pk, _ = add(admin)
    other = browser(make_person("admin", make_tenant()))
    assert "No webhook yet." in words(other.get(PAGE).content.decode())
    assert other.get(f"{PAGE}{pk}/").status_code == 404
    for does in ("change", "toggle", "remove", "rotate", "test", "again"):
        answer = other.post(f"{PAGE}{pk}/{does}", {"name": "x", "kinds": ["task.failed"], "enabled": "0"})
        assert answer.status_code == 404, does
    assert Webhook.objects.get().enabled


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.AUDITOR])
def test_only_admins_see_them(tenant: Tenant, role: Role) -> None:
    person = browser(make_person(role, tenant))
    assert person.get(PAGE).status_code == 403
    assert person.post(f"{PAGE}add", {"name": "x", "url": URL, "kinds": ["task.failed"]}).status_code == 403
    assert not Webhook.objects.exists()
