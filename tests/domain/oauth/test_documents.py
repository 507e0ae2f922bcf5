"""Programs that are known by a document of their own, fetched from a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from oauth2_provider.cimd import CIMDError

from taskhub.core.records import Person
from taskhub.domain.oauth.consents import Registration
from taskhub.domain.oauth.documents import Documents as Fetcher
from taskhub.store.models import Application
from tests.console.admin import browser
from tests.factories import make_person
from tests.support.documents import Documents, served
from tests.support.oauth import CALLBACK, Program

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Person:
    return make_person("operator", username="ada")


@pytest.fixture
def documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Documents]:
    """Served on this machine, which the setting allows here."""
    with served(tmp_path) as found:
        monkeypatch.setenv("SSL_CERT_FILE", str(found.authority))
        settings.TASKHUB_OAUTH_LOCAL_DOCUMENTS = True
        yield found


def test_a_program_with_a_document_signs_people_in(documents: Documents, ada: Person) -> None:
    program = Program(browser(ada), documents.publish())
    page = program.ask().content.decode()
    assert "Notebook" in page
    assert documents.base.removeprefix("https://") in page, "the host that vouches for it"
    assert set(program.sign_in()["scope"].split())
    row = Application.objects.select_related("registration").get(tenant_id=ada.tenant_id)
    assert Registration.objects.get().client_type == "public"
    assert documents.asked == ["/client.json"], "kept for a while"
    assert row.blocked_at is None


@pytest.mark.parametrize("url", ["https://evil.example\\@good.example/c.json", "https://good.example\u200b/c.json"])
def test_a_document_at_an_address_with_two_readings_is_not_fetched(url: str) -> None:
    with pytest.raises(CIMDError, match="no address to go by"):
        Fetcher().fetch(url)


def test_what_a_program_can_do_elsewhere_is_no_reason_to_refuse_it(documents: Documents, ada: Person) -> None:
    url = documents.publish(
        grant_types=["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        redirect_uris=["editor://callback", "http://10.0.0.1/cb", CALLBACK, "http://127.0.0.1/"],
    )
    Program(browser(ada), url).sign_in()
    assert Registration.objects.get().redirect_uris == f"{CALLBACK} http://127.0.0.1/"
    assert Program(browser(ada), url, redirect_uri="http://10.0.0.1/cb").ask().status_code == 400


def test_a_document_that_names_a_new_address_is_asked_about(documents: Documents, ada: Person) -> None:
    elsewhere = "https://elsewhere.example.com/callback"
    url = documents.publish(redirect_uris=[CALLBACK])
    program = Program(browser(ada), url)
    program.sign_in()
    assert program.ask().status_code == 302
    documents.publish(redirect_uris=[CALLBACK, elsewhere])
    Registration.objects.update(cimd_expires_at=timezone.now())
    moved = Program(program.person, url, redirect_uri=elsewhere)
    page = moved.ask()
    assert page.status_code == 200
    assert "elsewhere.example.com" in page.content.decode()
    assert program.ask().status_code == 302
    moved.sign_in()
    assert moved.ask().status_code == 302
    assert documents.asked == ["/client.json"] * 2


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("  Note\u202ebook\n\0", "Notebook"),
        ("x" * 300, "<bdi>" + "x" * 100 + "</bdi>"),
        ("", "127.0.0.1"),
        ("<b>Bold</b>", "&lt;b&gt;Bold"),
    ],
)
def test_a_programs_own_word_for_itself_is_only_a_word(
    documents: Documents, ada: Person, name: str, shown: str
) -> None:
    page = Program(browser(ada), documents.publish(client_name=name)).ask().content.decode()
    assert f'class="name">{shown}' in page


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "https://app.example.com/client.json"},
        {"client_id": None},
        {"redirect_uris": []},
        {"redirect_uris": None},
        {"redirect_uris": "https://app.example.com/callback"},
        {"redirect_uris": ["http://app.example.com/callback"]},
        {"token_endpoint_auth_method": "client_secret_post"},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"client_secret": "x"},
        {"grant_types": ["client_credentials"]},
        {"client_name": 7},
    ],
)
def test_a_document_that_will_not_do_is_no_client(documents: Documents, ada: Person, changes: dict[str, Any]) -> None:
    response = Program(browser(ada), documents.publish(**changes)).ask()
    assert response.status_code == 400
    assert not Registration.objects.exists()


@pytest.mark.parametrize(
    "answer",
    [
        (302, "application/json", {}, {"Location": "/other.json"}),
        (500, "application/json", {}, {}),
        (200, "application/json", b"{", {}),
        (200, "application/json", [], {}),
        (200, "application/json", b" " * 65_537 + b"{}", {}),
    ],
)
def test_an_answer_that_is_no_document_is_no_client(documents: Documents, ada: Person, answer: Any) -> None:
    url = documents.publish()
    documents.publish("/other.json", client_id=url)
    documents.pages["/client.json"] = answer
    assert Program(browser(ada), url).ask().status_code == 400
    assert documents.asked == ["/client.json"], "no redirect is followed"


def test_a_failure_is_not_tried_again_at_once(documents: Documents, ada: Person) -> None:
    program = Program(browser(ada), f"{documents.base}/missing.json")
    for _ in range(3):
        assert program.ask().status_code == 400
    assert documents.asked == ["/missing.json"]


def test_a_stranger_makes_this_server_call_nobody(documents: Documents, ada: Person) -> None:
    url = documents.publish()
    stranger = Program(browser(), url)
    assert stranger.ask().status_code == 302, "signs in first"
    for answer in (stranger.exchange("x"), stranger.refresh("x"), stranger.revoke("x")):
        assert answer.status_code in (400, 401)
    assert documents.asked == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
)
def test_without_the_setting_this_machine_is_out_of_reach(
    documents: Documents, ada: Person, settings: Any, host: str
) -> None:
    settings.TASKHUB_OAUTH_LOCAL_DOCUMENTS = False
    documents.publish()
    url = documents.base.replace("127.0.0.1", host) + "/client.json"
    assert Program(browser(ada), url).ask().status_code == 400
    assert documents.asked == []


def _carries_another(address: Any) -> bool:
    """Judged by the address inside, which may be public."""
    return address.version == 6 and bool(address.sixtofour or address.teredo)


@given(st.ip_addresses().filter(lambda found: not found.is_global and not _carries_another(found)))
def test_no_address_that_is_not_public_is_ever_called(address: Any) -> None:
    host = f"[{address}]" if address.version == 6 else str(address)
    with pytest.raises(CIMDError, match=r"non-public|not resolve"):
        Fetcher().fetch(f"https://{host}/client.json")


@pytest.mark.parametrize(
    "url",
    [
        "http://app.example.com/client.json",
        "https://u@app.example.com/client.json",
        "https://app.example.com/client.json#x",
        "https://app.example.com",
        "https://app.example.com/../client.json",
        "https://app.example.com:99999/client.json",
        "https:///client.json",
    ],
)
def test_only_plain_https_addresses_are_fetched(url: str) -> None:
    with pytest.raises(CIMDError):
        Fetcher().fetch(url)
