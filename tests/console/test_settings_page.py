"""People and roles, and the values the environment holds."""

from __future__ import annotations

import re
import threading
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from taskhub.console.views.settings import PERMISSION_WORDS, matrix
from taskhub.core import permissions as gate
from taskhub.core.errors import Refused
from taskhub.core.states import Role
from taskhub.domain.people import writes as people
from taskhub.store.models import Event, Membership, Tenant
from tests.console.admin import ADMIN, browser, words
from tests.factories import make_person, make_tenant
from tests.store.flushing import _flush_past_the_guards

__all__ = ["_flush_past_the_guards"]

pytestmark = pytest.mark.django_db
URL = "/settings/"


def add(admin: Client, **form: str) -> Any:
    return admin.post("/settings/people/add", {"username": "mia", "role": "operator", "groups": "ops, db", **form})


def test_a_new_person_can_sign_in_with_the_password_that_is_shown_once(tenant: Tenant, admin: Client) -> None:
    response = add(admin)
    found = re.search(r'<code id="password"[^>]*>([^<]+)</code>', response.content.decode())
    assert found
    password = found[1]
    assert "no-store" in response["Cache-Control"]
    assert password not in admin.get(URL).content.decode()
    assert password not in str(list(Event.objects.values()))
    member = Membership.objects.get(tenant=tenant, user__username="mia")
    assert (member.role, member.groups) == ("operator", ["db", "ops"])
    fresh = Client()
    assert fresh.post("/accounts/login/", {"login": "mia", "password": password}).status_code == 302
    # What somebody else has seen is good for choosing another only.
    assert fresh.get("/workers/")["Location"] == "/accounts/password/change/?next=%2Fworkers%2F"
    event = Event.objects.get(tenant=tenant, action="person.added")
    assert (event.actor, event.target, event.after) == ("root", "mia", {"role": "operator", "groups": ["db", "ops"]})


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"username": ""}, "A username has"),
        ({"username": "a b"}, "A username has"),
        ({"username": "<script>"}, "A username has"),
        ({"username": "ROOT"}, "There is a person named ROOT already"),
        ({"role": "god"}, "Choose one of"),
        ({"groups": "a\0b"}, "no group&#x27;s name"),
        ({"groups": ", ".join(f"g{n}" for n in range(21))}, "at most 20 groups"),
    ],
)
def test_a_person_that_cannot_be_comes_back_with_the_reason(admin: Client, form: dict[str, str], why: str) -> None:
    response = add(admin, **form)
    assert response.status_code == 400
    assert why in words(response.content.decode())
    assert User.objects.count() == 1


def test_a_changed_role_counts_at_once_and_is_on_record(tenant: Tenant, admin: Client) -> None:
    mia = make_person("viewer", tenant, username="mia", groups=["ops"])
    hers = browser(mia)
    assert hers.get("/audit/").status_code == 403
    assert f"/settings/people/{mia.user_id}/role" in admin.get(URL, {"person": mia.user_id}).content.decode()
    with CaptureQueriesContext(connection) as captured:
        admin.post(f"/settings/people/{mia.user_id}/role", {"role": "auditor", "groups": "ops, audit"})
    assert any("pg_notify('taskhub'::text, 'p'::text)" in query["sql"] for query in captured)
    assert hers.get("/audit/").status_code == 200
    event = Event.objects.get(tenant=tenant, action="person.role.changed")
    assert event.before == {"role": "viewer", "groups": ["ops"]}
    assert event.after == {"role": "auditor", "groups": ["audit", "ops"]}
    admin.post(f"/settings/people/{mia.user_id}/role", {"role": "auditor"})  # no groups sent: kept
    assert Membership.objects.get(user_id=mia.user_id).groups == ["audit", "ops"]
    assert Event.objects.filter(action="person.role.changed").count() == 1


def test_the_last_admin_stays(tenant: Tenant, admin: Client) -> None:
    root = Membership.objects.get(user__username="root")
    response = admin.post(f"/settings/people/{root.user_id}/role", {"role": "viewer"})
    assert response.status_code == 409
    assert "root is the only admin" in response.content.decode()
    other = make_person("admin", tenant)
    User.objects.filter(pk=other.user_id).update(is_active=False)
    assert admin.post(f"/settings/people/{root.user_id}/role", {"role": "viewer"}).status_code == 409
    User.objects.filter(pk=other.user_id).update(is_active=True)
    assert admin.post(f"/settings/people/{root.user_id}/role", {"role": "viewer"}).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_two_admins_who_demote_each_other_leave_one() -> None:
    tenant = make_tenant()
    pair = [make_person("admin", tenant).user_id for _ in range(2)]
    start, refused = threading.Barrier(2), []

    def demote(user_id: int) -> None:
        try:
            start.wait(5)
            people.set_role(tenant_id=tenant.pk, user_id=user_id, role="viewer", actor=ADMIN)
        except Refused:
            refused.append(user_id)
        finally:
            connection.close()

    threads = [threading.Thread(target=demote, args=[user_id]) for user_id in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(refused) == 1
    assert Membership.objects.filter(tenant=tenant, role="admin").count() == 1


def test_the_matrix_is_the_gates_own(admin: Client) -> None:
    rows = dict(matrix())
    assert set(PERMISSION_WORDS) == set().union(*gate.PERMISSIONS.values()), "a permission lacks its words"
    for name, text in PERMISSION_WORDS.items():
        assert rows[text] == [name in gate.PERMISSIONS[role] for role in Role]
    assert "Export the audit log no no no yes yes" in words(admin.get(URL).content.decode().replace("·", ""))


def test_values_of_the_environment_are_named_and_secrets_are_not_shown(
    admin: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setenv("TASKHUB_SLOTS", "9")
    monkeypatch.delenv("TASKHUB_LANES", raising=False)
    settings.TASKHUB_SLOTS = 9
    settings.SECRET_KEY = "the-secret-itself-" + "x" * 40
    monkeypatch.setenv("SECRET_KEY", settings.SECRET_KEY)
    admin.force_login(User.objects.get(username="root"))
    html = admin.get(URL).content.decode()
    text = words(html)
    assert "Tools that one worker runs concurrently. 9 Set by TASKHUB_SLOTS" in text
    assert "Default; set it with TASKHUB_LANES" in text
    assert settings.SECRET_KEY not in html
    assert connection.settings_dict["NAME"] not in html


def test_every_setting_on_the_page_exists(admin: Client) -> None:
    from taskhub.config import env
    from taskhub.domain.people import settings as installation

    for row in (*installation.limits(), *installation.service()):
        assert row.variable in env.VARIABLES


def test_people_of_other_tenants_do_not_exist_here(admin: Client) -> None:
    stranger = make_person("admin", username="zoe")
    assert "zoe" not in words(admin.get(URL).content.decode())  # the token of a form may spell it
    assert admin.get(URL, {"person": stranger.user_id}).status_code == 404
    assert admin.post(f"/settings/people/{stranger.user_id}/role", {"role": "viewer"}).status_code == 404


def test_as_many_queries_for_thirty_people_as_for_one(tenant: Tenant, admin: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin.get(URL).status_code == 200
        return len(captured)

    one = queries()
    for _ in range(30):
        make_person("viewer", tenant, groups=["ops"])
    assert queries() == one
    assert one <= 7


# --- disabled, enabled, removed, another password


def press(admin: Client, verb: str, user_id: int, **form: str) -> Any:
    return admin.post(f"/settings/people/{user_id}/{verb}", form)


def test_disabling_is_confirmed_and_undone(tenant: Tenant, admin: Client) -> None:
    mia = make_person("viewer", tenant, username="mia")
    hers = browser(mia)
    asked = admin.get(URL, {"person": mia.user_id, "do": "disable"}).content.decode()
    assert "Disable mia?" in asked
    assert f'action="/settings/people/{mia.user_id}/disable"' in asked
    assert press(admin, "disable", mia.user_id).status_code == 302
    page = words(admin.get(URL).content.decode())
    assert "mia Disabled" in page
    assert "signed out everywhere" in page
    assert hers.get("/workers/").status_code == 302
    assert "Enable" in words(admin.get(URL, {"person": mia.user_id}).content.decode())
    press(admin, "enable", mia.user_id)
    assert "mia Disabled" not in words(admin.get(URL).content.decode())
    assert hers.get("/workers/").status_code == 302, "signed out for good"
    assert browser(mia).get("/workers/").status_code == 200
    actions = list(Event.objects.filter(target="mia", actor="root").order_by("id").values_list("action", flat=True))
    assert actions == ["person.disabled", "person.enabled"]


def test_removing_is_confirmed_and_takes_the_person_off_the_list(tenant: Tenant, admin: Client) -> None:
    mia = make_person("viewer", tenant, username="mia")
    hers = browser(mia)
    assert "Remove mia?" in admin.get(URL, {"person": mia.user_id, "do": "remove"}).content.decode()
    press(admin, "remove", mia.user_id)
    admin.get(URL)  # says what was done
    assert "mia" not in words(admin.get(URL).content.decode())
    assert admin.get(URL, {"person": mia.user_id}).status_code == 404
    assert hers.get("/workers/").status_code == 302
    assert Event.objects.get(action="person.removed").actor == "root"


@pytest.mark.parametrize("verb", ["disable", "remove"])
def test_the_only_admin_keeps_their_seat(tenant: Tenant, admin: Client, verb: str) -> None:
    root = Membership.objects.get(user__username="root")
    response = press(admin, verb, root.user_id)
    assert response.status_code == 409
    assert "root is the only admin" in response.content.decode()
    assert admin.get(URL).status_code == 200


def given(response: Any) -> str:
    found = re.search(r'<code id="password"[^>]*>([^<]+)</code>', response.content.decode())
    assert found
    return found[1]


def test_a_password_that_somebody_else_knows_is_changed_before_anything_else(tenant: Tenant, admin: Client) -> None:
    mia = make_person("operator", tenant, username="mia")
    hers = browser(mia)
    response = press(admin, "password", mia.user_id)
    password = given(response)
    assert "mia has a new password" in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    assert password not in admin.get(URL).content.decode() + str(list(Event.objects.values()))
    assert hers.get("/tasks/").status_code == 302
    hers.post("/accounts/login/", {"login": "mia", "password": password})
    for path in ("/", "/tasks/", "/inbox/", "/oauth/authorize"):
        assert hers.get(path).headers["Location"] == f"/accounts/password/change/?next={quote(path, safe='')}"
    assert hers.post("/inbox/1/decide").headers["Location"] == "/accounts/password/change/"
    assert hers.get("/tasks/", headers={"HX-Request": "true"})["HX-Redirect"] == "/accounts/password/change/"
    assert "Choose your own password" in hers.get("/accounts/password/change/").content.decode()

    def change(new: str) -> Any:
        form = {"oldpassword": password, "password1": new, "password2": new, "next": "/inbox/7/?key=approval"}
        return hers.post("/accounts/password/change/", form)

    # Who followed a link, say of a mail, goes on to where it leads.
    asked = hers.get("/inbox/7/?key=approval", follow=True).content.decode()
    assert 'name="next" value="/inbox/7/?key=approval"' in asked
    assert "Choose another" in change(password).content.decode()
    assert hers.get("/tasks/").status_code == 302
    assert change("another horse altogether").headers["Location"] == "/inbox/7/?key=approval"
    assert hers.get("/tasks/").status_code == 200


def test_a_password_that_is_typed_is_not_shown_and_a_weak_one_is_refused_beside_the_field(
    tenant: Tenant, admin: Client
) -> None:
    mia = make_person("operator", tenant, username="mia")
    weak = press(admin, "password", mia.user_id, password="short")
    assert weak.status_code == 400
    assert "at least 12 characters" in weak.content.decode()
    assert 'aria-invalid="true"' in weak.content.decode()
    assert press(admin, "password", mia.user_id, password="a horse of another colour").status_code == 302
    assert "a horse of another colour" not in admin.get(URL).content.decode()
    assert User.objects.get(pk=mia.user_id).check_password("a horse of another colour")


def test_a_limit_that_is_off_and_whole_mebibytes_are_readable(admin: Client, settings: Any) -> None:
    settings.TASKHUB_CONTEXT_KIB, settings.TASKHUB_MAX_BODY = 0, 4 * 2**20
    text = words(admin.get(URL).content.decode())
    assert "Requests per client Per web process; 0 means no limit. no limit" in text
    assert "Larger requests are refused. 4 MiB" in text
