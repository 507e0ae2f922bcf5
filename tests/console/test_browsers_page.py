"""The browsers of a person that are notified, on their page; and what a browser needs to install the console."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from taskhub.console.channels import WORDS
from taskhub.domain.notices import channels
from taskhub.domain.notices.browsers import vapid_public
from taskhub.domain.notices.channels import Channel
from taskhub.store.models import PushBrowser, SignIn, Tenant
from tests.console.conftest import Login
from tests.factories import make_person
from tests.support.push_service import Subscribed

pytestmark = pytest.mark.django_db
PAGE = "/accounts/notifications/"
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0"


@pytest.fixture(autouse=True)
def public(settings: Any) -> None:
    settings.PUBLIC_URL = "https://hub.example"


def given(host: str = "push.example") -> dict[str, str]:
    browser = Subscribed("/x")
    return {"endpoint": f"https://{host}/{browser.auth}", "p256dh": browser.p256dh, "auth": browser.auth}


def add(browser: Client, **changes: str) -> Any:
    return browser.post("/accounts/notifications/browsers/add", {**given(), **changes}, headers={"user-agent": AGENT})


def test_a_browser_is_added_listed_and_removed_by_its_person_alone(tenant: Tenant, sign_in: Login) -> None:
    ann, ben = sign_in(make_person("approver", tenant)), sign_in(make_person("approver", tenant))
    page = ann.get(PAGE).content.decode()
    assert f'data-push="{vapid_public()}"' in page
    assert "Firefox" not in page
    assert add(ann).status_code == 204
    page = ann.get(PAGE).content.decode()
    assert "Firefox on Linux" in page
    assert "push.example" in page
    row = PushBrowser.objects.get()
    assert row.session == SignIn.objects.get(user_id=row.choices.membership.user_id).session_key
    assert b"push.example" not in bytes(row.sealed)
    assert "Firefox" not in ben.get(PAGE).content.decode()
    url = f"/accounts/notifications/browsers/{row.pk}/remove"
    assert ben.post(url).status_code == 404
    assert ann.get(url).status_code == 405
    assert ann.post(url, follow=True).content.decode().count("is notified no more") == 1
    assert not PushBrowser.objects.exists()


def test_signing_out_ends_it(tenant: Tenant, sign_in: Login) -> None:
    ann = sign_in(make_person("approver", tenant))
    add(ann)
    ann.post("/accounts/logout/")
    assert not PushBrowser.objects.exists()


def test_what_is_refused_is_said_in_words(tenant: Tenant, sign_in: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = sign_in(make_person("approver", tenant))
    for changes, words in (
        ({"endpoint": "https://192.168.0.9/x"}, "is in no public network"),
        ({"auth": "AAAA"}, "has not 16 bytes"),
        ({"p256dh": "x"}, "no point of P-256"),
    ):
        response = add(ann, **changes)
        assert (response.status_code, words in response.content.decode()) == (400, True), changes
    monkeypatch.setattr("taskhub.domain.notices.browsers.MOST", 1)
    assert [add(ann).status_code, add(ann).status_code] == [204, 429]
    assert add(Client()).status_code == 302
    monkeypatch.setattr(channels, "has_push", lambda: False)
    monkeypatch.setattr("taskhub.console.views.notifications.has_push", lambda: False)
    assert add(ann).status_code == 409
    page = ann.get(PAGE).content.decode()
    assert "uv sync --extra push" in page
    assert "data-push=" not in page
    assert WORDS[Channel.PUSH].off


def test_nobody_types_an_address_of_browsers(tenant: Tenant, sign_in: Login) -> None:
    ann = sign_in(make_person("approver", tenant))
    assert ann.post("/accounts/notifications/push/", {"address": "x"}).status_code == 404


def test_the_console_can_be_installed_and_its_worker_answers_no_request() -> None:
    stranger = Client()
    found = stranger.get("/manifest.webmanifest")
    assert found["content-type"] == "application/manifest+json"
    said = json.loads(found.content)
    assert (said["start_url"], said["scope"], said["display"]) == ("/inbox/", "/", "standalone")
    assert {icon["sizes"] for icon in said["icons"]} == {"any", "192x192", "512x512"}
    page = stranger.get("/accounts/login/")
    assert 'rel="manifest" href="/manifest.webmanifest"' in page.content.decode()
    policy = page["content-security-policy"]
    assert "worker-src 'self'" in policy
    assert "manifest-src 'self'" in policy
    worker = stranger.get("/service-worker.js")
    assert (worker["content-type"], worker["cache-control"]) == ("text/javascript; charset=utf-8", "no-cache")
    script = worker.content.decode()
    assert 'addEventListener("push"' in script
    assert "fetch" not in script
    assert "caches" not in script
