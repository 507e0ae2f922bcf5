"""A server is authorized by OAuth on its page and in the inbox, with a real authorization server."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import httpx2
import pytest
from django.conf import LazySettings
from django.test import Client

from taskhub.core.records import NewQuestion
from taskhub.core.states import Audience, QuestionKind, State
from taskhub.domain.credentials import flow
from taskhub.domain.credentials.listing import not_listed
from taskhub.lib.throttle import Throttle
from taskhub.store.models import AuthContext, Event, GrantRequest, Question, Server, ServerGrant, ServerOAuth, Tenant
from tests.console.admin import words
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_task, make_tool
from tests.support.guarded import Guarded

pytestmark = pytest.mark.django_db


@pytest.fixture
def guarded(settings: LazySettings) -> Iterator[Guarded]:
    settings.TASKHUB_OAUTH_LOCAL_SERVERS = True
    with Guarded() as server:
        yield server


@pytest.fixture
def page(admin: Client, tenant: Tenant, guarded: Guarded) -> str:
    form = {"name": "guarded", "spec": f"{guarded.base}/mcp"}
    assert admin.post("/servers/add", form).status_code == 302
    return f"/servers/{Server.objects.get(tenant=tenant).pk}/"


def sent(browser: Client, path: str, form: dict[str, str] | None = None) -> str:
    """Where the page with the link leads."""
    answer = browser.post(path, form or {})
    assert answer.status_code == 200, answer.content.decode()
    found = re.search(r'class="button primary host" href="([^"]+)"', answer.content.decode())
    assert found is not None
    return html.unescape(found[1])


def links(page: str) -> set[tuple[str, str]]:
    """Where the links of a page lead, each with its words."""
    return {(to, words(said)) for to, said in re.findall(r'<a [^>]*href="([^"]+)"[^>]*>(.*?)</a>', page, re.DOTALL)}


def come_back(browser: Client, answer: dict[str, str]) -> str:
    response = browser.get("/servers/oauth/callback/", answer)
    assert response.status_code == 302, words(response.content.decode())
    return str(response["location"])


def waiting(tenant: Tenant, server: Server, context: AuthContext, params: dict[str, object]) -> Question:
    """A call that waits until the server is authorized."""
    asked = NewQuestion(
        key="authorization-1",
        kind=QuestionKind.AUTHORIZATION,
        params={"server": server.name, "message": f"Server {server.name} needs to be authorized", **params},
        audience=Audience.OPERATOR,
    )
    tool = make_tool(server)
    task = make_task(context, tool, state="input_required", question=asked)
    return Question.objects.get(task_id=task.id)


def test_an_admin_authorizes_it_for_all_sees_by_whom_and_revokes_it(
    admin: Client, page: str, guarded: Guarded, tenant: Tenant
) -> None:
    assert admin.post(f"{page}oauth", {"way": "shared"}).status_code == 302
    shown = words(admin.get(page).content.decode())
    assert "Nobody has authorized it yet." in shown
    assert "Authorize guarded for everyone" in words(
        admin.post(f"{page}authorize", {"for": "everyone"}).content.decode()
    )
    address = sent(admin, f"{page}authorize", {"for": "everyone"})
    assert address.startswith(f"{guarded.base}/authorize?")
    assert "code_challenge_method=S256" in address
    assert "resource=" in address
    answer = guarded.answer(address)
    assert come_back(admin, answer) == page
    grant = ServerGrant.objects.get()
    assert (grant.granted_by, grant.scopes) == ("root", "tools")
    shown = admin.get(page).content.decode()
    assert "everyone" in words(shown)
    for secret in [*guarded.issued, ServerOAuth.objects.get().registered["secret"]]:
        assert secret not in shown
    stored = bytes(grant.access or b"") + bytes(grant.refresh or b"")
    assert not any(token.encode() in stored for token in guarded.issued)
    response = admin.post(f"{page}grants/{grant.pk}/revoke", follow=True)
    assert "The authorization is revoked." in words(response.content.decode())
    assert len(guarded.revoked) == 1
    assert not ServerGrant.objects.exists()
    assert Event.objects.get(action="grant.revoked").before == {"for": "everyone"}


def test_an_answer_counts_once_and_in_its_own_browser_session_only(
    admin: Client,
    page: str,
    guarded: Guarded,
    tenant: Tenant,
    sign_in: Login,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level("INFO", flow.__name__)
    monkeypatch.setattr(flow, "_TELLS", Throttle(60))
    admin.post(f"{page}oauth", {"way": "shared"})
    answer = guarded.answer(sent(admin, f"{page}authorize", {"for": "everyone"}))
    other = sign_in(make_person("admin", tenant))
    refused = other.get("/servers/oauth/callback/", answer)
    assert refused.status_code == 409
    assert "belongs to no authorization" in refused.content.decode()
    assert come_back(admin, answer) == page
    assert admin.get("/servers/oauth/callback/", answer).status_code == 409
    for _ in range(3):
        assert admin.get("/servers/oauth/callback/", {"code": "x", "state": "made-up"}).status_code == 409
    told = [record.getMessage() for record in caplog.records if record.name == flow.__name__]
    assert len(told) == 1
    assert "belongs to no authorization" in told[0]
    assert not any(part in told[0] for part in answer.values())
    assert not GrantRequest.objects.exists()


def test_a_refusal_and_an_answer_of_another_issuer_make_no_grant(admin: Client, page: str, guarded: Guarded) -> None:
    admin.post(f"{page}oauth", {"way": "shared"})
    state = guarded.answer(sent(admin, f"{page}authorize", {"for": "everyone"}))["state"]
    refused = admin.get("/servers/oauth/callback/", {"error": "access_denied", "state": state})
    assert refused.status_code == 400
    assert "did not authorize TaskHub: access_denied" in refused.content.decode()
    assert f'href="{page}"' in refused.content.decode(), "the way back"
    answer = guarded.answer(sent(admin, f"{page}authorize", {"for": "everyone"}))
    mixed_up = admin.get("/servers/oauth/callback/", {**answer, "iss": "https://evil.example"})
    assert "another authorization server" in mixed_up.content.decode()
    assert not ServerGrant.objects.exists()
    denied, mixed = Event.objects.filter(action="grant.refused").order_by("id")
    assert (denied.target, denied.actor, denied.after["for"]) == ("guarded", "root", "everyone")
    assert "access_denied" in denied.after["problem"]
    assert "another authorization server" in mixed.after["problem"]
    assert answer["code"] not in str(mixed.after)


def test_an_authorization_server_that_forgot_the_hub_is_shown_a_new_client(
    admin: Client, page: str, guarded: Guarded, tenant: Tenant, sign_in: Login
) -> None:
    admin.post(f"{page}oauth", {"way": "shared"})
    come_back(admin, guarded.answer(sent(admin, f"{page}authorize", {"for": "everyone"})))
    (forgotten,) = guarded.provider.clients
    guarded.provider.clients.clear()
    address = sent(admin, f"{page}authorize", {"for": "everyone"})
    assert "not found" in httpx2.get(address).text, "nobody comes back from there"
    operator = sign_in(make_person("operator", tenant))
    assert "Register anew" not in operator.get(page).content.decode()
    assert operator.post(f"{page}register").status_code == 403
    assert "Register anew" in admin.get(page).content.decode()
    said = words(admin.post(f"{page}register", follow=True).content.decode())
    assert "TaskHub registers itself anew when somebody authorizes the server next." in said
    assert "Register anew" not in said
    assert Event.objects.get(action="server.registration.dropped").before["client_id"] == forgotten
    assert ServerGrant.objects.get().client_id == forgotten, "it may be known again"
    assert "There is no registration" in admin.post(f"{page}register", follow=True).content.decode()
    come_back(admin, guarded.answer(sent(admin, f"{page}authorize", {"for": "everyone"})))
    assert [ServerGrant.objects.get().client_id] == [*guarded.provider.clients] != [forgotten]


def test_only_an_admin_authorizes_for_everyone(
    admin: Client, page: str, guarded: Guarded, tenant: Tenant, sign_in: Login
) -> None:
    admin.post(f"{page}oauth", {"way": "shared"})
    operator = sign_in(make_person("operator", tenant))
    assert operator.post(f"{page}oauth", {"way": "each"}).status_code == 403
    assert operator.post(f"{page}authorize", {"for": "everyone"}).status_code == 403
    assert operator.post(f"{page}authorize").status_code == 409
    question = waiting(tenant, Server.objects.get(), make_context(tenant), {"everyone": True})
    shown = words(operator.get(f"/inbox/{question.pk}/").content.decode())
    assert "A server is authorized for everyone by an admin; your role is operator." in shown
    assert operator.post(f"/inbox/{question.pk}/authorize").status_code == 403
    answer = guarded.answer(sent(admin, f"/inbox/{question.pk}/authorize"))
    assert come_back(admin, answer) == f"/tasks/{question.task.public_id}/"
    question.refresh_from_db()
    assert question.state == "answered"
    assert question.task.__class__.objects.get(pk=question.task_id).state == State.QUEUED


def test_a_person_authorizes_for_their_own_programs_and_nobody_else_does(
    admin: Client, page: str, guarded: Guarded, tenant: Tenant, sign_in: Login
) -> None:
    admin.post(f"{page}oauth", {"way": "each"})
    server = Server.objects.get()
    ada, ben = make_person("operator", tenant), make_person("operator", tenant)
    question, theirs = (waiting(tenant, server, make_context(tenant), {"user": each.user_id}) for each in (ada, ben))
    for each, waits in ((ada, question), (ben, theirs)):
        contexts = AuthContext.objects.filter(pk=waits.task.context_id)
        contexts.update(issuer="taskhub/oauth", subject=f"user:{each.user_id}")
    other = sign_in(ben)
    assert "Only the person for whom" in words(other.get(f"/inbox/{question.pk}/").content.decode())
    assert other.post(f"/inbox/{question.pk}/authorize").status_code == 403
    assert admin.post(f"/inbox/{question.pk}/authorize").status_code == 403
    own = sign_in(ada)
    guarded.account = "ada-upstream"
    come_back(own, guarded.answer(sent(own, f"/inbox/{question.pk}/authorize")))
    grant = ServerGrant.objects.get()
    assert (grant.user_id, grant.context_id) == (ada.user_id, None)
    states = [Question.objects.get(pk=each.pk).state for each in (question, theirs)]
    assert states == ["answered", "open"]
    assert other.post(f"{page}grants/{grant.pk}/revoke").status_code == 403
    assert ada.username not in other.get(page).content.decode()
    assert admin.post(f"/settings/people/{ada.user_id}/remove", {"confirm": "1"}).status_code == 302
    assert not ServerGrant.objects.exists()


def test_a_call_that_needs_more_scopes_has_them_asked_for(
    admin: Client, page: str, guarded: Guarded, tenant: Tenant
) -> None:
    admin.post(f"{page}oauth", {"way": "shared"})
    params: dict[str, object] = {"everyone": True, "scopes": "tools more"}
    question = waiting(tenant, Server.objects.get(), make_context(tenant), params)
    shown = admin.post(f"/inbox/{question.pk}/authorize").content.decode()
    assert "tools more" in words(shown)
    come_back(admin, guarded.answer(sent(admin, f"/inbox/{question.pk}/authorize")))
    assert ServerGrant.objects.get().scopes == "tools more"


def test_a_person_authorizes_beforehand_on_the_page_and_revokes_it(
    admin: Client, page: str, guarded: Guarded, tenant: Tenant, sign_in: Login
) -> None:
    admin.post(f"{page}oauth", {"way": "each"})
    viewer = make_person("viewer", tenant)
    own = sign_in(viewer)
    assert "Authorize guarded for your programs" in words(own.post(f"{page}authorize").content.decode())
    lists = words(admin.post(f"{page}authorize", {"for": "everyone"}).content.decode())
    assert "Authorize guarded for its lists" in lists
    assert "no call is made with it" in lists
    assert come_back(own, guarded.answer(sent(own, f"{page}authorize"))) == page
    grant = ServerGrant.objects.get()
    assert grant.user_id == viewer.user_id
    assert viewer.username in words(own.get(page).content.decode())
    come_back(admin, guarded.answer(sent(admin, f"{page}authorize", {"for": "everyone"})))
    given = Event.objects.filter(action="grant.given").order_by("id")
    assert [event.after["for"] for event in given] == [viewer.username, "its lists"]
    ServerGrant.objects.filter(user=None).delete()
    assert own.post(f"{page}grants/{grant.pk}/revoke").status_code == 302
    assert not ServerGrant.objects.exists()


def test_a_client_is_authorized_by_whoever_answers_questions(
    admin: Client, page: str, guarded: Guarded, tenant: Tenant, sign_in: Login
) -> None:
    admin.post(f"{page}oauth", {"way": "each"})
    context = make_context(tenant, "ci")
    question = waiting(tenant, Server.objects.get(), context, {})
    operator = sign_in(make_person("operator", tenant))
    shown = words(operator.get(f"/inbox/{question.pk}/").content.decode())
    assert "It is authorized for ci alone" in shown
    leads = words(operator.post(f"/inbox/{question.pk}/authorize").content.decode())
    assert "Authorize guarded for client ci" in leads
    assert "an admin does that on the server’s page" in leads
    come_back(operator, guarded.answer(sent(operator, f"/inbox/{question.pk}/authorize")))
    assert ServerGrant.objects.get().context_id == context.pk
    shown = words(operator.get(page).content.decode())
    assert "ci tools" in shown[shown.index("Who has authorized it (admins see what is for other people)") :]
    assert "admins see" not in words(admin.get(page).content.decode())


def test_what_does_not_fit_is_said_beside_its_field(admin: Client, page: str) -> None:
    for form, says in (
        ({"way": "client"}, "give both"),
        ({"way": "else"}, "Choose one of these ways"),
        ({"way": "shared", "issuer": "http://login.example"}, "without https"),
        ({"way": "shared", "secret": "s3cret"}, "A secret belongs to a client id"),
        ({"way": "shared", "scopes": 'with "quotes"'}, "Scopes are words"),
    ):
        answer = admin.post(f"{page}oauth", form)
        assert (answer.status_code, says in answer.content.decode()) == (400, True), form
    assert not ServerOAuth.objects.exists()
    admin.post(f"{page}token", {"token": "fixed"})
    assert "drop it first" in admin.post(f"{page}oauth", {"way": "shared"}).content.decode()


def test_another_way_drops_all_authorizations_says_so_and_revokes_them(
    admin: Client, page: str, guarded: Guarded
) -> None:
    admin.post(f"{page}oauth", {"way": "each"})
    for form in ({}, {"for": "everyone"}):
        guarded.account = f"account-{len(form)}"
        come_back(admin, guarded.answer(sent(admin, f"{page}authorize", form)))
    said = words(admin.post(f"{page}oauth", {"way": "shared"}, follow=True).content.decode())
    assert "Saved. Authorizations that are dropped: 2. Their tokens are revoked." in said
    assert (len(guarded.revoked), guarded.provider.refresh) == (2, {})
    assert Event.objects.filter(action="server.oauth.changed").latest("id").after["dropped"] == 2
    come_back(admin, guarded.answer(sent(admin, f"{page}authorize", {"for": "everyone"})))
    guarded.provider.clients.clear()
    said = words(admin.post(f"{page}oauth", {"way": ""}, follow=True).content.decode())
    assert "did not confirm that their tokens are revoked for 1 of them" in said
    assert not ServerGrant.objects.exists()


def test_another_address_forgets_all_of_it(admin: Client, page: str, guarded: Guarded) -> None:
    admin.post(f"{page}oauth", {"way": "shared"})
    come_back(admin, guarded.answer(sent(admin, f"{page}authorize", {"for": "everyone"})))
    form = {"spec": "https://other.example/mcp", "prefix": "", "calls_at_once": ""}
    assert admin.post(f"{page}edit", form).status_code == 302
    assert not ServerOAuth.objects.exists()
    assert not ServerGrant.objects.exists()


def test_the_hub_describes_itself_to_authorization_servers(client: Client) -> None:
    found = client.get("/servers/oauth/client.json").json()
    assert found["client_id"] == "http://testserver/servers/oauth/client.json"
    assert found["redirect_uris"] == ["http://testserver/servers/oauth/callback/"]


def test_a_server_that_has_to_be_authorized_says_so_and_leads_an_admin_there(
    admin: Client, page: str, guarded: Guarded, tenant: Tenant, sign_in: Login
) -> None:
    server = Server.objects.get()
    not_listed(server.pk, "HTTP 401 Unauthorized", "")
    shown = admin.get(page).content.decode()
    assert "Needs to be authorized HTTP 401 Unauthorized" in words(shown)
    assert ("?oauth#oauth-form", "Set its authorization") in links(shown)
    admin.post(f"{page}oauth", {"way": "shared"})
    not_listed(server.pk, "HTTP 401 Unauthorized", "tools more")
    for path, leads in ((page, "#oauth"), ("/servers/", f"{page}#oauth")):
        shown = admin.get(path).content.decode()
        assert "Needs to be authorized Nobody has authorized it yet" in words(shown)
        assert (leads, "Authorize it") in links(shown)
        viewer = sign_in(make_person("viewer", tenant)).get(path).content.decode()
        assert "Needs to be authorized" in viewer
        assert "Authorize it" not in words(viewer)
    assert "it has to be authorized again, with these scopes" in words(admin.get(page).content.decode())
    come_back(admin, guarded.answer(sent(admin, f"{page}authorize", {"for": "everyone"})))
    assert ServerGrant.objects.get().scopes == "tools more", "what its lists lack is asked for"
    assert ServerOAuth.objects.get().lacking == ""


def test_where_it_is_authorized_depends_on_how(admin: Client, page: str, tenant: Tenant) -> None:
    credentials = {"way": "client", "client_id": "robot", "secret": "s"}
    assert admin.post(f"{page}oauth", credentials).status_code == 302
    not_listed(Server.objects.get().pk, "HTTP 403 Forbidden", "more")
    shown = admin.get(page).content.decode()
    assert ("?oauth#oauth-form", "Correct its authorization") in links(shown)
    assert "an admin has to name these scopes" in words(shown)
    admin.post(f"{page}oauth", {"way": ""})
    admin.post(f"{page}token", {"token": "t0ken"})
    not_listed(Server.objects.get().pk, "HTTP 401 Unauthorized", "")
    assert ("?token#token-form", "Set another token") in links(admin.get(page).content.decode())
