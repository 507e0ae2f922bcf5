"""Who gets in, and what strangers see."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from taskhub.core.states import Role
from tests.console.conftest import Login
from tests.factories import (
    PASSWORD,
    make_context,
    make_person,
    make_server,
    make_task,
    make_tenant,
    make_tool,
    make_user,
)
from tests.support.undone import undone

pytestmark = pytest.mark.django_db

ROLES = [*Role, "stranger", "anonymous"]
SEE = frozenset(Role)
OPERATE = frozenset({Role.OPERATOR, Role.ADMIN})
ANSWER = frozenset({Role.OPERATOR, Role.APPROVER, Role.ADMIN})
APPROVE = frozenset({Role.APPROVER, Role.ADMIN})

MATRIX = [
    ("GET", "/", {}, SEE),
    ("GET", "/disk", {}, SEE),
    ("GET", "/tasks/", {}, SEE),
    ("GET", "/tasks/{done}/", {}, SEE),
    ("GET", "/tasks/{done}/result", {}, SEE),
    ("GET", "/tasks/{done}/arguments", {}, SEE),
    ("GET", "/tasks/{live}/cancel", {}, OPERATE),
    ("POST", "/tasks/{live}/cancel", {}, OPERATE),
    ("GET", "/tasks/{done}/rerun", {}, OPERATE),
    ("POST", "/tasks/{done}/rerun", {}, OPERATE),
    ("GET", "/tasks/{done}/rerun/arguments", {}, OPERATE),
    ("POST", "/tasks/{done}/rerun/arguments", {}, OPERATE),
    ("GET", "/inbox/", {}, ANSWER),
    ("GET", "/inbox/count", {}, ANSWER),
    ("GET", "/news/", {}, ANSWER),
    ("GET", "/news/count", {}, ANSWER),
    ("GET", "/inbox/{form}/", {}, ANSWER),
    ("GET", "/inbox/{form}/state", {}, ANSWER),
    ("GET", "/inbox/{form}/arguments", {}, ANSWER),
    ("GET", "/inbox/{form}/next", {}, ANSWER),
    ("GET", "/inbox/{approval}/alike", {}, APPROVE),
    ("POST", "/inbox/undo", {"questions": "{approval}"}, APPROVE),
    ("GET", "/inbox/{approval}/block", {}, frozenset({Role.ADMIN})),
    ("POST", "/inbox/{form}/comment", {"text": "why?"}, ANSWER),
    ("GET", "/inbox/{form}/hand-over", {}, ANSWER),
    ("POST", "/inbox/{form}/answer", {"action": "decline"}, ANSWER),
    ("POST", "/inbox/{approval}/decide", {"verdict": "approve"}, APPROVE),
]


def things() -> tuple[object, dict[str, object]]:
    tenant = make_tenant()
    context = make_context(tenant)
    server = make_server(tenant)
    form = make_task(context, make_tool(server, "ask"), state="input_required")
    approval = make_task(context, make_tool(server, "deploy", asks={}))
    return tenant, {
        "done": make_task(context, make_tool(server, "echo"), state="finished").public_id,
        "live": make_task(context, make_tool(server, "slow")).public_id,
        "form": question_id(form.id),
        "approval": question_id(approval.id),
    }


def question_id(task_id: int) -> int:
    from taskhub.store.models import Question

    return Question.objects.get(task_id=task_id).pk


@pytest.mark.parametrize("who", ROLES)
def test_each_role_reaches_what_it_may_and_nothing_else(sign_in: Login, who: str) -> None:
    tenant, names = things()
    if who == "anonymous":
        client = Client()
    elif who == "stranger":
        client = sign_in(make_user())
    else:
        client = sign_in(make_person(who, tenant))  # type: ignore[arg-type]
    for method, url, data, allowed in MATRIX:
        posted = {name: value.format(**names) for name, value in data.items()}
        with undone((method, url)):
            response = ask(client, method, url.format(**names), posted)
            if who == "anonymous":
                assert response.status_code == 302
                assert response["Location"].startswith("/accounts/login/?next=")
            elif who in allowed:
                assert response.status_code in (200, 302), response.content
            else:
                assert response.status_code == 403
                assert b"Not allowed" in response.content


def ask(client: Client, method: str, url: str, data: dict[str, str]) -> Any:
    return client.post(url, data) if method == "POST" else client.get(url)


def test_another_tenants_things_do_not_exist(sign_in: Login) -> None:
    _, names = things()
    client = sign_in(make_person(Role.ADMIN))
    missing = {
        "done": "no-such-task-no-such-task",
        "live": "no-such-task-no-such-task",
        "form": 999999,
        "approval": 999999,
    }
    for method, url, data, _ in MATRIX:
        if "{" in url:
            with undone((method, url)):
                response = ask(client, method, url.format(**names), data)
                unknown = ask(client, method, url.format(**missing), data)
                assert response.status_code == unknown.status_code == 404


def test_lists_hold_nothing_of_another_tenant(sign_in: Login) -> None:
    tenant = make_tenant()
    make_task(
        make_context(tenant, "secret-client"), make_tool(make_server(tenant), "secret-tool"), state="input_required"
    )
    client = sign_in(make_person(Role.ADMIN))
    for url in ("/", "/tasks/", "/inbox/?queue=all", "/inbox/?queue=decided"):
        assert b"secret" not in client.get(url).content


def test_an_htmx_request_without_a_session_leads_the_whole_page_to_sign_in() -> None:
    response = Client().get(
        "/tasks/", headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/tasks/?state=working"}
    )
    assert response["HX-Redirect"] == "/accounts/login/?next=%2Ftasks%2F%3Fstate%3Dworking"
    assert response.content == b""


def test_sign_in_leads_back_and_sign_out_is_a_post() -> None:
    person = make_person(Role.VIEWER)
    client = Client()
    response = client.post(
        "/accounts/login/", {"login": person.username, "password": PASSWORD, "next": "/tasks/?state=working"}
    )
    assert response["Location"] == "/tasks/?state=working"
    assert client.get("/accounts/logout/").status_code == 200
    assert client.get("/tasks/").status_code == 200
    client.post("/accounts/logout/")
    assert client.get("/tasks/").status_code == 302


def test_a_wrong_password_is_said_beside_the_form() -> None:
    person = make_person(Role.VIEWER)
    response = Client().post("/accounts/login/", {"login": person.username, "password": "wrong"})
    assert response.status_code == 200
    assert b'role="alert"' in response.content


def test_pages_forbid_inline_scripts_and_caching(sign_in: Login) -> None:
    response = sign_in(make_person(Role.ADMIN)).get("/tasks/")
    policy = response["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "no-store" in response["Cache-Control"]
    page = response.content.decode()
    assert "<style" not in page
    assert " style=" not in page
    assert " onclick=" not in page
    assert "<script>" not in page


def test_the_rail_shows_only_what_the_role_may_open(sign_in: Login) -> None:
    tenant = make_tenant()
    seen = {
        role: [
            path
            for path in ("/inbox/", "/audit/", "/clients/", "/settings/")
            if f'<a href="{path}"' in sign_in(make_person(role, tenant)).get("/").content.decode()
        ]
        for role in Role
    }
    assert seen == {
        Role.VIEWER: [],
        Role.OPERATOR: ["/inbox/", "/clients/"],
        Role.APPROVER: ["/inbox/"],
        Role.AUDITOR: ["/audit/", "/clients/"],
        Role.ADMIN: ["/inbox/", "/audit/", "/clients/", "/settings/"],
    }


def test_post_without_the_csrf_token_changes_nothing(sign_in: Login) -> None:
    tenant, names = things()
    person = make_person(Role.ADMIN, tenant)  # type: ignore[arg-type]
    client = Client(enforce_csrf_checks=True)
    client.login(username=person.username, password=PASSWORD)
    response = client.post(f"/tasks/{names['live']}/cancel")
    assert response.status_code == 403
    assert b"Queued" in client.get(f"/tasks/{names['live']}/").content
