"""Grants at a real authorization server: refreshed by one at a time, stored at once, and never looked for in vain."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection

from taskhub.core.errors import Invalid, Refused, Unavailable
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.catalogue.reads import vault
from taskhub.domain.credentials import discovery, flow, grants, reads, writes
from taskhub.domain.credentials.records import (
    Access,
    Busy,
    Due,
    Gone,
    Holder,
    NeedsAuthorization,
    NotAuthorized,
    NotYet,
    OAuthSettings,
    Tokens,
    Way,
)
from taskhub.store.models import AuthContext, Event, Server, ServerGrant, ServerOAuth
from tests.factories import make_person, make_tenant
from tests.support.guarded import Guarded

KEY = "b" * 64


@pytest.fixture
def guarded(settings: LazySettings) -> Iterator[Guarded]:
    settings.TASKHUB_OAUTH_LOCAL_SERVERS = True
    with Guarded() as server:
        yield server


@pytest.fixture
def server(transactional_db: None, guarded: Guarded) -> Server:
    """A server that an admin has authorized for all."""
    tenant = make_tenant()
    person = make_person("admin", tenant)
    made = Server.objects.create(tenant=tenant, name="guarded", transport="http", target=guarded.target.target)
    by = Actor(name=person.username, door=Door.WEB, user_id=person.user_id)
    writes.set_oauth(tenant_id=tenant.pk, server_id=made.pk, wanted=OAuthSettings(Way.SHARED), actor=by)
    authorize(made, guarded, by)
    return made


FOR_ALL = Holder()


def authorize(server: Server, guarded: Guarded, by: Actor, holder: Holder = FOR_ALL, scopes: str = "") -> None:
    """What a person does in their browser."""
    sending = begin(server, by, holder, scopes)
    guarded.account = "acme"
    finish(server, by, guarded.answer(sending.leads_to.href))


def begin(server: Server, by: Actor, holder: Holder, scopes: str = "") -> flow.Sending:
    assert by.user_id is not None
    return flow.begin(
        tenant_id=server.tenant_id,
        server_id=server.pk,
        holder=holder,
        by=by.user_id,
        session_key=KEY,
        base="http://hub.example",
        back="/",
        scopes=scopes,
    )


def finish(server: Server, by: Actor, answer: dict[str, str]) -> None:
    assert by.user_id is not None
    flow.finish(tenant_id=server.tenant_id, session_key=KEY, by=by.user_id, for_all=True, answer=answer, actor=by)


@pytest.fixture
def by(server: Server) -> Actor:
    """Another admin."""
    person = make_person("admin", server.tenant)
    return Actor(name=person.username, door=Door.WEB, user_id=person.user_id)


def expire() -> None:
    ServerGrant.objects.update(expires_at=datetime.now(UTC) - timedelta(seconds=1))


def stored(column: str) -> str:
    return vault().decrypt(bytes(getattr(ServerGrant.objects.get(), column)))


def due(server: Server) -> Due:
    found = grants.look(server.pk, None)
    assert isinstance(found, Due)
    return found


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """What each came to, begun together, each in a thread with a connection of its own."""
    start = threading.Barrier(len(works))
    outcomes: list[Any] = [None] * len(works)

    def run(n: int, work: Callable[[], Any]) -> None:
        try:
            start.wait(10)
            outcomes[n] = work()
        except Exception as error:  # noqa: BLE001 - told to the test
            outcomes[n] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return outcomes


def test_a_token_that_is_good_costs_no_refresh(server: Server, guarded: Guarded) -> None:
    found = grants.look(server.pk, None)
    assert isinstance(found, Access)
    assert found.token == guarded.issued[0]
    assert guarded.refreshes == []


def test_of_several_workers_one_refreshes_and_all_get_the_new_token(server: Server, guarded: Guarded) -> None:
    expire()
    found = at_once(*[lambda: grants.access(server.pk)] * 6)
    assert {each.token for each in found} == {guarded.issued[-2]}
    assert len(guarded.refreshes) == 1
    assert stored("refresh") == guarded.issued[-1]


def test_a_process_that_dies_after_the_answer_leaves_a_grant_to_be_authorized_again(
    server: Server, guarded: Guarded
) -> None:
    expire()
    taken = due(server)
    grants.exchange(taken)  # and nothing is stored
    with pytest.raises(Busy):
        grants.look(server.pk, None)
    ServerGrant.objects.update(refreshing_until=datetime.now(UTC) - timedelta(seconds=1))
    with pytest.raises(NeedsAuthorization, match="needs to be authorized again: its authorization server refuses"):
        grants.access(server.pk)
    grant = ServerGrant.objects.get()
    assert (grant.state, grant.access, grant.refresh) == ("lapsed", None, None)
    for _ in range(3):
        with pytest.raises(NeedsAuthorization):
            grants.access(server.pk)
    assert len(guarded.refreshes) == 2  # no loop: nobody is asked any more
    assert Event.objects.filter(action="grant.lapsed").count() == 1


def test_the_late_answer_of_a_process_that_lost_its_turn_is_dropped(server: Server, guarded: Guarded) -> None:
    expire()
    slow = due(server)
    ServerGrant.objects.update(refreshing_until=datetime.now(UTC) - timedelta(seconds=1))
    fast = due(server)
    assert isinstance(grants.settle(fast, grants.exchange(fast)), Access)
    newest = stored("refresh")
    late = grants.Exchanged(slow.found, tokens=Tokens("late-access", "late-refresh"))
    with pytest.raises(Unavailable, match="changed meanwhile"):
        grants.settle(slow, late)
    assert stored("refresh") == newest


def test_no_answer_leaves_the_tokens_and_gives_the_turn_back(server: Server, guarded: Guarded) -> None:
    expire()
    before = stored("refresh")
    ServerOAuth.objects.update(found={**ServerOAuth.objects.get().found, "token_endpoint": "http://127.0.0.1:9/token"})
    with pytest.raises(Unavailable, match=r"cannot be refreshed: .* cannot be reached"):
        grants.access(server.pk)
    assert stored("refresh") == before
    assert ServerGrant.objects.get().refreshing_until is None


def test_a_refresh_token_is_sent_to_no_other_issuer(server: Server, guarded: Guarded) -> None:
    expire()
    ServerOAuth.objects.update(found={**ServerOAuth.objects.get().found, "issuer": "https://other.example"})
    with pytest.raises(NeedsAuthorization, match=grants.OTHER_ISSUER):
        grants.access(server.pk)
    assert guarded.refreshes == []


def test_a_refusal_repeats_no_secret(server: Server, guarded: Guarded) -> None:
    expire()
    guarded.breaks = "refresh"
    with pytest.raises(NeedsAuthorization, match="the account acme is closed, said •••"):
        grants.access(server.pk)
    assert not any(token in ServerGrant.objects.get().problem for token in guarded.issued)


def test_tokens_under_another_secret_key_are_asked_for_again(server: Server, settings: LazySettings) -> None:
    settings.SECRET_KEY = "another key, forty characters long at least"
    with pytest.raises(NeedsAuthorization, match="another SECRET_KEY"):
        grants.look(server.pk, None)


def test_a_grant_that_is_revoked_while_it_is_refreshed_stays_revoked(server: Server, guarded: Guarded) -> None:
    expire()
    taken = due(server)
    exchanged = grants.exchange(taken)
    by = Actor(name="root", door=Door.WEB)
    writes.revoke(tenant_id=server.tenant_id, server_id=server.pk, grant_id=taken.grant_id, actor=by)
    with pytest.raises(Gone, match="changed meanwhile"):
        grants.settle(taken, exchanged)
    grants.drop(taken, exchanged)
    assert guarded.provider.refresh == {}
    assert not ServerGrant.objects.exists()
    with pytest.raises(NeedsAuthorization):
        grants.look(server.pk, None)


def tables() -> Iterator[tuple[str, str]]:
    """Every row of every table of ours, as text, with the name of its table."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
        for (name,) in cursor.fetchall():
            cursor.execute(f'SELECT t::text FROM "{name}" AS t')
            yield from ((name, row) for (row,) in cursor.fetchall())


def test_no_secret_stands_in_the_database(server: Server, guarded: Guarded) -> None:
    expire()
    grants.access(server.pk)
    (client,) = guarded.provider.clients.values()
    secrets = {*guarded.issued, client.client_secret or ""} - {""}
    assert len(secrets) >= 5
    found = list(tables())
    assert {"server", "server_grant", "server_oauth"} <= {name for name, _ in found}
    for name, row in found:
        written = [secret for secret in secrets if secret in row or secret.encode().hex() in row]
        assert written == [], name


def test_the_programs_of_a_person_share_the_persons_grant_and_nobody_elses(server: Server) -> None:
    by = Actor(name="root", door=Door.WEB)
    writes.set_oauth(tenant_id=server.tenant_id, server_id=server.pk, wanted=OAuthSettings(Way.EACH), actor=by)
    ada, ben = (make_person("operator", server.tenant) for _ in range(2))

    def program(subject: str, client_id: str, issuer: str = "taskhub/oauth") -> int:
        made = AuthContext.objects.create(
            tenant=server.tenant, issuer=issuer, subject=subject, client_id=client_id, name=client_id
        )
        return int(made.pk)

    ide, chat = program(f"user:{ada.user_id}", "ide"), program(f"user:{ada.user_id}", "chat")
    bens, robot = program(f"user:{ben.user_id}", "ide"), program("robot", "robot", "taskhub")
    alike = program(f"user:{ada.user_id}", "elsewhere", "https://login.example")
    for user, context, token in ((ada.user_id, None, "adas-token"), (None, robot, "robots-token")):
        ServerGrant.objects.create(
            server=server, user_id=user, context_id=context, access=vault().encrypt(token), issuer="x"
        )
    for context in (ide, chat):
        found = grants.look(server.pk, context)
        assert isinstance(found, Access)
        assert found.token == "adas-token"
    found = grants.look(server.pk, robot)
    assert isinstance(found, Access)
    assert found.token == "robots-token"
    for context, holder in ((bens, Holder(user_id=ben.user_id)), (alike, Holder(context_id=alike))):
        with pytest.raises(NeedsAuthorization) as needs:
            grants.look(server.pk, context)
        assert needs.value.holder == holder
    assert grants.look(server.pk, None) == Access(0, "")
    ServerGrant.objects.create(server=server, access=vault().encrypt("lists-token"), issuer="x")
    lists = grants.look(server.pk, None)
    assert isinstance(lists, Access)
    assert lists.token == "lists-token"
    gone = AuthContext.objects.get(pk=alike)
    gone.delete()
    assert grants.look(server.pk, alike) == Access(0, "")


def test_an_authorization_server_is_not_asked_again_before_the_time_that_it_names(
    server: Server, guarded: Guarded
) -> None:
    guarded.down, guarded.later = HTTPStatus.TOO_MANY_REQUESTS, "120"
    expire()
    with pytest.raises(NotYet, match="answered HTTP 429, and wants to be asked in 120 s"):
        grants.access(server.pk)
    with pytest.raises(NotYet, match="is not asked again yet") as told:
        grants.access(server.pk)
    assert 100 < told.value.seconds <= 120
    assert guarded.turned_away == 1
    ServerGrant.objects.update(expires_at=datetime.now(UTC) + timedelta(seconds=20))
    assert grants.access(server.pk).token, "the old token, while it is good"
    assert guarded.turned_away == 1
    expire()
    guarded.down = None
    ServerGrant.objects.update(refresh_after=datetime.now(UTC))
    assert grants.access(server.pk).token == guarded.issued[-2]
    assert ServerGrant.objects.get().refresh_after is None


@pytest.mark.parametrize(("later", "seconds"), [("86400", 600), ("soon", None), ("", None), ("0", None)])
def test_a_time_that_is_too_long_is_cut_and_one_that_is_none_is_not_kept(
    server: Server, guarded: Guarded, later: str, seconds: int | None
) -> None:
    guarded.down, guarded.later = HTTPStatus.SERVICE_UNAVAILABLE, later
    expire()
    with pytest.raises(Unavailable) as told:
        grants.access(server.pk)
    assert (told.value.seconds if isinstance(told.value, NotYet) else None) == seconds
    assert (ServerGrant.objects.get().refresh_after is None) == (seconds is None)


def test_a_client_that_the_authorization_server_forgot_is_registered_anew(server: Server, guarded: Guarded) -> None:
    expire()
    guarded.provider.clients.clear()
    with pytest.raises(NeedsAuthorization, match="invalid_client"):
        grants.access(server.pk)
    assert ServerOAuth.objects.get().registered == {}


def test_a_code_that_cannot_be_redeemed_now_says_who_gave_no_answer(
    server: Server, guarded: Guarded, by: Actor
) -> None:
    answer = guarded.answer(begin(server, by, FOR_ALL).leads_to.href)
    guarded.down = HTTPStatus.BAD_GATEWAY
    says = f"The code was not redeemed at {guarded.base}/: the authorization server answered HTTP 502."
    with pytest.raises(NotAuthorized) as failed:
        finish(server, by, answer)
    assert failed.value.message.replace(f"{guarded.base}:", f"{guarded.base}/:") == says


def test_who_refused_client_credentials_is_shown(server: Server, guarded: Guarded, by: Actor) -> None:
    guarded.robots = True
    wanted = OAuthSettings(Way.CLIENT, client_id="robot", secret="wrong")
    writes.set_oauth(tenant_id=server.tenant_id, server_id=server.pk, wanted=wanted, actor=by)
    with pytest.raises(NeedsAuthorization, match="its authorization server refuses it"):
        grants.access(server.pk)
    shown = reads.oauth_of(server.pk)
    assert shown is not None
    assert shown.issuer.rstrip("/") == guarded.base


def test_a_grant_is_refreshed_as_the_client_to_which_it_was_issued(server: Server, guarded: Guarded, by: Actor) -> None:
    """Other scopes need another registration, which leaves those grants as they are that were issued before."""
    ServerOAuth.objects.update(way="each")
    authorize(server, guarded, by, Holder(user_id=by.user_id), scopes="more")
    first, second = ServerGrant.objects.order_by("id")
    assert (first.scopes, second.scopes) == ("tools", "tools more")
    assert first.client_id != second.client_id
    expire()
    assert grants.access(server.pk).grant_id == first.pk
    assert len(guarded.refreshes) == 1
    authorize(server, guarded, by, Holder(user_id=by.user_id))
    assert ServerGrant.objects.latest("id").client_id == second.client_id, "its registration is good for both"
    assert ServerOAuth.objects.get().registered["id"] == second.client_id


def test_a_client_id_that_was_given_is_not_taken_to_another_authorization_server(
    server: Server, guarded: Guarded, by: Actor
) -> None:
    client = next(iter(guarded.provider.clients.values()))
    given = OAuthSettings(Way.SHARED, client_id=str(client.client_id), secret=client.client_secret)
    writes.set_oauth(tenant_id=server.tenant_id, server_id=server.pk, wanted=given, actor=by)
    authorize(server, guarded, by)
    with Guarded() as other:
        ServerOAuth.objects.update(found={**ServerOAuth.objects.get().found, "issuer": other.base})
        with pytest.raises(Refused, match=f"names another authorization server now, {guarded.base}"):
            authorize(server, guarded, by)
    ServerOAuth.objects.update(issuer=guarded.base)
    authorize(server, guarded, by)


def test_an_authorization_that_an_admin_overtakes_changes_nothing(
    server: Server, guarded: Guarded, by: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    discover = discovery.discover

    def slowly(*given: Any, **more: Any) -> Any:
        found = discover(*given, **more)
        each = OAuthSettings(Way.EACH)
        writes.set_oauth(tenant_id=server.tenant_id, server_id=server.pk, wanted=each, actor=by)
        return found

    monkeypatch.setattr(discovery, "discover", slowly)
    with pytest.raises(Refused, match="in another way now"):
        authorize(server, guarded, by)
    assert ServerOAuth.objects.get().found == {}


def test_a_failed_attempt_of_one_leaves_the_grants_of_others_as_they_are(
    server: Server, guarded: Guarded, by: Actor
) -> None:
    """The authorization server forgot the hub for a moment: each grant keeps the client that it was issued to."""
    known = dict(guarded.provider.clients)
    for holder in (Holder(user_id=by.user_id), FOR_ALL):
        ServerOAuth.objects.update(way="each" if holder.user_id else "shared")
        sending = begin(server, by, holder)
        known.update(guarded.provider.clients)
        answer = guarded.answer(sending.leads_to.href)
        guarded.provider.clients.clear()
        with pytest.raises(Invalid, match="invalid_client"):
            finish(server, by, answer)
        assert ServerOAuth.objects.get().registered == {}
    guarded.provider.clients.update(known)
    expire()
    assert grants.access(server.pk).token == guarded.issued[-2]
    assert len(guarded.refreshes) == 1
    grant = ServerGrant.objects.get()
    assert writes.revoke(tenant_id=server.tenant_id, server_id=server.pk, grant_id=grant.pk, actor=by)
    assert len(guarded.revoked) == 1


def test_a_grant_of_a_client_that_its_document_describes_is_revoked_there(
    server: Server, guarded: Guarded, by: Actor
) -> None:
    (known,) = guarded.provider.clients.values()
    found = ServerOAuth.objects.get().found
    ServerOAuth.objects.update(found={**found, "reads_documents": True}, registered={})
    document = "https://hub.example/servers/oauth/client.json"
    guarded.provider.clients[document] = known.model_copy(
        update={"client_id": document, "client_secret": None, "token_endpoint_auth_method": "none"}
    )
    for token, (kept, account) in list(guarded.provider.refresh.items()):
        guarded.provider.refresh[token] = kept.model_copy(update={"client_id": document}), account
    ServerGrant.objects.update(client_id=document, registered={})
    grant = ServerGrant.objects.get()
    assert writes.revoke(tenant_id=server.tenant_id, server_id=server.pk, grant_id=grant.pk, actor=by)
    assert len(guarded.revoked) == 1
