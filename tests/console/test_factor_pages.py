"""A second factor: set up, used at sign-in, removed; and what somebody cannot do who has a part of it only."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.test import Client

from taskhub.core.records import Person
from taskhub.core.states import Role
from taskhub.domain.clients.principals import person_of_session
from taskhub.domain.people import factors
from taskhub.domain.people.accounts import has_typed_password
from taskhub.store.models import CodeUse, Event, Membership, SignIn, Tenant
from tests.console.admin import browser, words
from tests.factories import PASSWORD, make_person
from tests.support.factors import Phone, code_of, types_password, wrong_code

pytestmark = pytest.mark.django_db

ACCOUNT, SET_UP = "/accounts/", "/accounts/factor/"
SIGN_IN, CODE = "/accounts/login/", "/accounts/login/code/"


def shown_secret(html: str) -> str:
    found = re.search(r'id="factor-secret">(.*?)</code>', html)
    assert found is not None, html
    return re.sub(r"<[^>]+>", "", found[1])


def sealed_in(html: str) -> str:
    found = re.search(r'name="sealed" value="([^"]+)"', html)
    assert found is not None, html
    return found[1]


def shown_codes(html: str) -> list[str]:
    found = re.search(r'<code id="codes"[^>]*>([0-9\s]+)</code>', html)
    assert found is not None, html
    return found[1].split()


def types_name_and_password(who: Person) -> Client:
    """A browser in which the person has typed what they know."""
    client = Client()
    response = client.post(SIGN_IN, {"login": who.username, "password": PASSWORD})
    assert response.status_code == 302
    return client


def is_in(client: Client) -> bool:
    return client.get(ACCOUNT).status_code == 200


def recorded(*actions: str) -> list[tuple[str, str, str]]:
    found = Event.objects.filter(action__in=actions).order_by("id")
    return [(event.action, event.actor, event.target) for event in found]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.APPROVER])
def test_somebody_sets_up_an_app_after_their_password_and_signs_in_with_its_code(tenant: Tenant, role: Role) -> None:
    ada = make_person(role, tenant, username="ada")
    at = browser(ada)
    assert "Only your password signs you in" in words(at.get(ACCOUNT).content.decode())
    # Right after a sign-in too: whoever finds an open browser sets nothing up.
    assert at.get(SET_UP)["Location"] == "/accounts/reauthenticate/?next=%2Faccounts%2Ffactor%2F"
    types_password(at)
    response = at.get(SET_UP)
    page = response.content.decode()
    assert "no-store" in response["Cache-Control"]
    assert 'src="data:image/svg+xml;base64,' in page
    assert "img-src 'self' data:" in response["Content-Security-Policy"]
    secret = shown_secret(page)
    # Nobody scans the screen of the phone that has the camera.
    assert re.search(rf'<a href="otpauth://totp/[^"]*secret={secret}[&"]', page)
    refused = at.post(SET_UP, {"sealed": sealed_in(page), "code": wrong_code(secret)})
    assert refused.status_code == 400
    assert "That is not the code that this secret has now." in words(refused.content.decode())
    assert shown_secret(refused.content.decode()) == secret
    assert not Authenticator.objects.exists()
    code = code_of(secret, steps=-1)
    done = at.post(SET_UP, {"sealed": sealed_in(page), "code": f" {code[:3]} {code[3:]}"})
    assert done.status_code == 200
    assert len(set(shown_codes(done.content.decode()))) == 10
    account = at.get(ACCOUNT).content.decode()
    assert "10 left" in words(account)
    assert shown_codes(done.content.decode())[0] not in account
    [event] = Event.objects.filter(action="person.factor.added")
    assert (event.actor, event.target, event.after) == ("ada", "ada", {"factor": "totp", "codes": 10})
    # Nobody who reads the database gets the secret.
    assert secret not in str(list(Authenticator.objects.values_list("data", flat=True)))

    other = types_name_and_password(ada)
    assert not is_in(other)
    form = other.get(CODE).content.decode()
    assert 'autocomplete="one-time-code"' in form
    assert not re.search(r'<input[^>]*name="code"[^>]*value="[0-9]', form)
    wrong = other.post(CODE, {"code": wrong_code(secret)})
    assert "That is not a code of yours" in words(wrong.content.decode())
    assert not is_in(other)
    right = other.post(CODE, {"code": code_of(secret)})
    assert right["Location"] == "/"
    assert is_in(other)
    assert recorded("person.code.refused", "person.signed.in") == [
        ("person.code.refused", "a stranger", "ada"),
        ("person.signed.in", "ada", "ada"),
    ]


def test_a_code_is_good_for_once_wherever_it_is_typed_again(tenant: Tenant) -> None:
    ada = make_person("operator", tenant)
    phone = Phone(ada)
    first, second, third = types_name_and_password(ada), types_name_and_password(ada), types_name_and_password(ada)
    first.post(CODE, {"code": phone.code()})
    assert is_in(first)
    second.post(CODE, {"code": phone.code()})
    assert not is_in(second)
    # Nor one of before the last that was used, which a bystander may have seen.
    second.post(CODE, {"code": phone.code(-1)})
    assert not is_in(second)
    # A recovery code likewise.
    second.post(CODE, {"code": phone.codes[3]})
    assert is_in(second)
    third.post(CODE, {"code": phone.codes[3]})
    assert not is_in(third)
    [event] = Event.objects.filter(action="person.code.used")
    assert (event.target, event.after) == (ada.username, {"left": 9})


def test_the_code_of_somebody_else_or_none_signs_nobody_in(tenant: Tenant) -> None:
    ada, bob = make_person("operator", tenant), make_person("operator", tenant)
    phone, other = Phone(ada), Phone(bob)
    at = types_name_and_password(ada)
    for code in (other.code(), other.codes[0], "", "０１２３４５", "1" * 5_000, "\x00"):
        assert at.post(CODE, {"code": code}).status_code == 200
        assert not is_in(at)
    assert at.post(CODE, {}).status_code == 302
    assert at.post(CODE, {"credential": "{}"}).status_code == 302
    assert not is_in(at)
    at.post(CODE, {"code": phone.code()})
    assert is_in(at)
    assert Client().get(CODE)["Location"] == SIGN_IN
    assert Client().post(CODE, {"code": phone.code(1)})["Location"] == SIGN_IN


def test_wrong_codes_are_counted_for_all_web_processes_together(tenant: Tenant) -> None:
    ada = make_person("operator", tenant)
    phone = Phone(ada)
    for _ in range(factors.TRIES):
        assert types_name_and_password(ada).post(CODE, {"code": phone.wrong()}).status_code == 200
    at = types_name_and_password(ada)
    # The right one too, or somebody would go on until it is.
    refused = at.post(CODE, {"code": phone.code()})
    assert refused.status_code == 429
    assert "Too many wrong codes: at most 10 in 15 minutes." in words(refused.content.decode())
    assert not is_in(at)
    use = CodeUse.objects.get(user_id=ada.user_id)
    use.tries_since = use.tries_since.replace(year=use.tries_since.year - 1)
    use.save()
    at.post(CODE, {"code": phone.code()})
    assert is_in(at)
    assert CodeUse.objects.get(user_id=ada.user_id).tries == 0


def test_new_recovery_codes_replace_those_of_before(tenant: Tenant) -> None:
    ada = make_person("viewer", tenant)
    phone = Phone(ada)
    at = browser(ada)
    assert at.post(f"{SET_UP}codes")["Location"].startswith("/accounts/reauthenticate/?next=")
    assert at.get(f"{ACCOUNT}?do=codes")["Location"].startswith("/accounts/reauthenticate/?next=")
    types_password(at)
    assert "New recovery codes?" in words(at.get(f"{ACCOUNT}?do=codes").content.decode())
    new = shown_codes(at.post(f"{SET_UP}codes").content.decode())
    assert len(new) == 10
    assert not set(new) & set(phone.codes)
    other = types_name_and_password(ada)
    other.post(CODE, {"code": phone.codes[0]})
    assert not is_in(other)
    other.post(CODE, {"code": new[0]})
    assert is_in(other)
    assert recorded("person.codes.renewed") == [("person.codes.renewed", ada.username, ada.username)]


def test_whoever_has_only_the_open_browser_changes_nothing(tenant: Tenant) -> None:
    """The session, and a code too: without the password the factor stays as it is."""
    ada = make_person("approver", tenant)
    phone = Phone(ada)
    at = types_name_and_password(ada)
    at.post(CODE, {"code": phone.code()})
    assert is_in(at)
    before = list(Authenticator.objects.order_by("id").values())
    for url in (f"{SET_UP}remove", f"{SET_UP}codes", SET_UP):
        response = at.post(url, {"sealed": "x", "code": phone.code(1)})
        assert response.status_code == 302
    assert at.get(f"{ACCOUNT}?do=remove")["Location"].startswith("/accounts/reauthenticate/?next=")
    # No page of allauth takes a code for the password.
    for url in ("/accounts/2fa/reauthenticate/", "/accounts/2fa/totp/deactivate/", "/accounts/2fa/"):
        assert at.post(url, {"code": phone.code(1)}).status_code == 404
    assert at.post("/accounts/reauthenticate/?next=/accounts/", {"password": phone.code(1)}).status_code == 200
    assert at.post("/accounts/reauthenticate/?next=/accounts/", {"code": phone.code(1)}).status_code == 200
    at.post(f"{SET_UP}remove")
    assert list(Authenticator.objects.order_by("id").values()) == before
    types_password(at)
    assert "Remove your second factor?" in words(at.get(f"{ACCOUNT}?do=remove").content.decode())
    done = at.post(f"{SET_UP}remove", follow=True)
    assert "Removed. Your password alone signs you in," in words(done.content.decode())
    assert not Authenticator.objects.exists()
    assert is_in(types_name_and_password(ada))
    assert recorded("person.factor.removed") == [("person.factor.removed", ada.username, ada.username)]
    types_password(at)
    assert "There was none." in words(at.post(f"{SET_UP}remove", follow=True).content.decode())


def test_a_password_is_good_for_one_change(tenant: Tenant) -> None:
    """Who gets hold of the session after its owner made one makes no other."""
    ada, bob = make_person("admin", tenant), make_person("viewer", tenant)
    phone = Phone(ada)
    Phone(bob)
    at = browser(ada)

    def asked(url: str) -> bool:
        return at.post(url).headers.get("Location", "").startswith("/accounts/reauthenticate/?next=")

    for change in (f"{SET_UP}codes", f"/settings/people/{bob.user_id}/factor", f"{SET_UP}remove"):
        types_password(at)
        assert not asked(change)
        assert [asked(url) for url in (f"{SET_UP}codes", f"{SET_UP}remove")] == [True, True]
    assert not Authenticator.objects.exists()
    types_password(at)
    page = at.get(SET_UP).content.decode()
    given = {"sealed": sealed_in(page), "code": code_of(shown_secret(page))}
    assert at.post(SET_UP, {**given, "code": phone.wrong()}).status_code == 400, "a slip asks for no password"
    assert shown_codes(at.post(SET_UP, given).content.decode())
    assert asked(f"{SET_UP}remove")


def test_a_page_to_set_up_is_for_one_person_and_for_a_while(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bob = make_person("viewer", tenant), make_person("viewer", tenant)
    at, there = browser(ada), browser(bob)
    types_password(at)
    types_password(there)
    page = at.get(SET_UP).content.decode()
    given = {"sealed": sealed_in(page), "code": code_of(shown_secret(page))}
    assert "This page is too old to go on with." in words(there.post(SET_UP, given).content.decode())
    later = 901 + int(time.time())
    with monkeypatch.context() as patched:
        patched.setattr("taskhub.lib.signing.time.time", lambda: later)
        assert at.post(SET_UP, given).status_code in (302, 400)
    assert not Authenticator.objects.exists()
    assert at.post(SET_UP, given).status_code == 200
    # Somebody who has one does not get another.
    assert at.post(SET_UP, given)["Location"] == ACCOUNT
    assert at.get(SET_UP)["Location"] == ACCOUNT
    assert Authenticator.objects.filter(type="totp").count() == 1


def test_an_admin_sees_who_has_one_and_removes_it(tenant: Tenant, admin: Client) -> None:
    ada = make_person("approver", tenant, username="ada")
    Phone(ada)
    Membership.objects.update(granted_at="2020-01-01T00:00:00Z", governed_at=None)
    rows = words(admin.get("/settings/").content.decode())
    assert "ada approver none yes never" in rows
    assert "root (you) admin none none" in rows
    remove = f"/settings/people/{ada.user_id}/factor"
    for response in (admin.get(f"/settings/?person={ada.user_id}&do=factor"), admin.post(remove)):
        assert response["Location"].startswith("/accounts/reauthenticate/?next=%2Fsettings%2F%3Fperson%3D")
    types_password(admin)
    asked = admin.get(f"/settings/?person={ada.user_id}&do=factor")
    assert "Remove the second factor of ada?" in words(asked.content.decode())
    done = admin.post(remove, follow=True)
    assert "ada signs in with the password alone, and is signed out everywhere." in words(done.content.decode())
    assert is_in(types_name_and_password(ada))
    [event] = Event.objects.filter(action="person.factor.removed")
    assert (event.actor, event.target, event.before) == ("root", "ada", {"factor": "totp"})
    # As with a password that somebody else sets, it counts for no call of before.
    assert Membership.objects.get(user_id=ada.user_id).granted_at.year > 2020
    assert Membership.objects.get(user__username="root").governed_at is not None
    types_password(admin)
    again = admin.post(remove, follow=True)
    assert "ada had no second factor." in words(again.content.decode())
    types_password(admin)
    assert admin.post(f"/settings/people/{make_person('viewer').user_id}/factor").status_code == 404
    root = User.objects.get(username="root")
    own = admin.post(f"/settings/people/{root.pk}/factor")
    assert own.status_code == 409
    assert "under your account" in words(own.content.decode())


def test_whoever_is_removed_and_comes_back_has_none(tenant: Tenant, admin: Client) -> None:
    ada = make_person("viewer", tenant, username="ada")
    Phone(ada)
    admin.post(f"/settings/people/{ada.user_id}/remove")
    assert not Authenticator.objects.filter(user__username="ada").exists()


def test_a_secret_of_another_key_lets_nobody_in_and_is_said(tenant: Tenant, settings: Any) -> None:
    ada = make_person("viewer", tenant)
    phone = Phone(ada)
    settings.SECRET_KEY = "another-key-that-was-set-later"
    at = types_name_and_password(ada)
    for code in (phone.code(), phone.codes[0]):
        assert at.post(CODE, {"code": code}).status_code == 200
    assert not is_in(at)
    assert "under another secret key" in words(browser(ada).get(ACCOUNT).content.decode())


def test_a_half_signed_in_browser_is_nobody(tenant: Tenant) -> None:
    ada = make_person("admin", tenant)
    Phone(ada)
    at = types_name_and_password(ada)
    for url in ("/", "/tasks/", "/settings/", ACCOUNT, SET_UP):
        assert at.get(url)["Location"].startswith("/accounts/login/")
    assert person_of_session(at.cookies["sessionid"].value) is None
    assert User.objects.get(pk=ada.user_id).last_login is None


@pytest.mark.parametrize("change", ["set up", "removed", "removed by an admin"])
def test_a_change_of_the_factor_ends_the_other_sessions(tenant: Tenant, admin: Client, change: str) -> None:
    """Those that wait for a code too; and nobody else's, nor that in which it was changed."""
    ada, bob = make_person("approver", tenant, username="ada"), make_person("approver", tenant)
    phone = None if change == "set up" else Phone(ada)
    at, other, there = browser(ada), browser(ada), browser(bob)
    half = None if phone is None else types_name_and_password(ada)
    assert all(is_in(one) for one in (at, other, there))
    types_password(admin if change.endswith("admin") else at)
    if change == "set up":
        page = at.get(SET_UP).content.decode()
        assert "other browsers in which you are signed in are signed out" in words(page)
        done = at.post(SET_UP, {"sealed": sealed_in(page), "code": code_of(shown_secret(page))})
        assert "Other browsers in which you were signed in are signed out." in words(done.content.decode())
    elif change == "removed":
        assert "In other browsers you are signed out." in words(at.get(f"{ACCOUNT}?do=remove").content.decode())
        done = at.post(f"{SET_UP}remove", follow=True)
        assert "other browsers where you were signed in are signed out." in words(done.content.decode())
    else:
        asked = admin.get(f"/settings/?person={ada.user_id}&do=factor")
        assert "They are signed out everywhere" in words(asked.content.decode())
        done = admin.post(f"/settings/people/{ada.user_id}/factor", follow=True)
        assert "and is signed out everywhere." in words(done.content.decode())
    assert [is_in(one) for one in (at, other, there, admin)] == [not change.endswith("admin"), False, True, True]
    if half is not None:
        assert half.get(CODE)["Location"] == SIGN_IN
    [event] = Event.objects.filter(action="person.sessions.ended")
    by = "root" if change.endswith("admin") else "ada"
    ended = {"set up": 1, "removed": 2, "removed by an admin": 3}[change]
    assert (event.actor, event.target, event.after) == (by, "ada", {"sessions": ended})


@pytest.mark.parametrize("how", ["another password", "locked out, and let in again"])
def test_a_half_signed_in_browser_starts_anew_once_its_password_is_not_good(tenant: Tenant, how: str) -> None:
    """The password was right when it was typed. Then it is changed, and the code comes with it no more."""
    ada, bob = make_person("approver", tenant), make_person("approver", tenant)
    phone, other = Phone(ada), Phone(bob)
    at, there = types_name_and_password(ada), types_name_and_password(bob)
    account = User.objects.get(pk=ada.user_id)
    if how == "another password":
        account.set_password("another horse altogether")
        account.save()
    else:
        User.objects.filter(pk=ada.user_id).update(is_active=False)
        User.objects.filter(pk=ada.user_id).update(is_active=True)
    code = phone.code()
    assert at.post(CODE, {"code": code})["Location"] == SIGN_IN
    assert not is_in(at)
    assert not SignIn.objects.filter(user_id=ada.user_id).exists()
    assert recorded("person.signed.in") == []
    there.post(CODE, {"code": other.code()})
    assert is_in(there), "nobody else starts anew"


@pytest.mark.parametrize("moment", ["before the code is typed", "as it is typed"])
def test_a_half_signed_in_browser_that_a_change_of_password_did_not_see_starts_anew(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Its password was right a moment before the change, and its session was stored a moment after."""
    ada = make_person("approver", tenant)
    phone, at = Phone(ada), types_name_and_password(ada)

    def changes() -> None:
        [late] = SignIn.objects.filter(user_id=ada.user_id)
        account = User.objects.get(pk=ada.user_id)
        account.set_password("another horse altogether")
        account.save()
        late.save(force_insert=True)

    def found_good(login: Any) -> bool:
        good = has_typed_password(login)
        changes()
        return good

    if moment == "before the code is typed":
        changes()
    else:
        monkeypatch.setattr("taskhub.console.views.factors.has_typed_password", found_good)
    assert at.post(CODE, {"code": phone.code()})["Location"] == SIGN_IN
    assert at.get(CODE)["Location"] == SIGN_IN, "nothing is left of the first step"
    assert not is_in(at)
    assert recorded("person.signed.in") == []
