"""What a code or a refresh token is still worth the second time, and what a sign-in may carry over its life."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from taskhub.core.errors import Unavailable
from taskhub.core.names import SCOPES
from taskhub.core.records import Person, Principal
from taskhub.domain.clients import principals
from taskhub.domain.clients.principals import forget_principals, principal_of
from taskhub.domain.oauth import applications, consents
from taskhub.domain.oauth.consents import AccessToken, RefreshToken
from taskhub.store import room
from taskhub.store.chores import ChoresFailed
from taskhub.store.models import Application, Consent, Event, Tenant, TokenFamily
from tests.console.admin import browser
from tests.domain.kit import wait_until
from tests.domain.oauth.test_oauth_races import waiting
from tests.store.flushing import superuser
from tests.support.oauth import ROOT, Program, make_application

pytestmark = pytest.mark.django_db


def refused(answer: Any) -> bool:
    return (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


def reuses() -> list[Event]:
    return list(Event.objects.filter(action="code.reused"))


def _without_writing(token: str) -> Principal | None:
    """The principal where the database only reads."""
    forget_principals()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(principals, "_USE_OAUTH", _refused)
        patch.setattr(room, "only_reads", lambda: True)
        return principal_of(token, "")


def _refused(**named: str) -> None:
    raise Unavailable("The database only reads")


# --- a code that comes again


def test_a_code_that_comes_again_ends_what_it_was_exchanged_for(program: Program, ada: Person, tenant: Tenant) -> None:
    code = program.code()
    tokens = program.exchange(code).json()
    found = principal_of(tokens["access_token"], "")
    assert found is not None
    assert found == _without_writing(tokens["access_token"])
    assert refused(program.exchange(code))
    assert principal_of(tokens["access_token"], "") is None
    assert refused(program.refresh(tokens["refresh_token"]))
    (event,) = reuses()
    assert (event.tenant_id, event.target, event.actor, event.door) == (
        tenant.pk,
        "ada with Deployer",
        "Deployer",
        "client",
    )
    assert event.address == "127.0.0.1"
    assert event.after == {"person": "ada", "client_id": program.client_id}


def test_it_ends_what_came_of_it_by_refreshing_too(program: Program) -> None:
    code = program.code()
    tokens = program.exchange(code).json()
    for _ in range(3):
        tokens = program.refresh(tokens["refresh_token"]).json()
    assert refused(program.exchange(code))
    assert principal_of(tokens["access_token"], "") is None
    assert refused(program.refresh(tokens["refresh_token"]))


@pytest.mark.parametrize(
    "changes", [{"code_verifier": "x" * 50}, {"code_verifier": None}, {"redirect_uri": "https://evil.example.com/"}]
)
def test_it_does_so_in_the_hands_of_a_thief_without_the_verifier(program: Program, changes: dict[str, Any]) -> None:
    code = program.code()
    tokens = program.exchange(code).json()
    assert program.exchange(code, **changes).status_code == 400
    assert principal_of(tokens["access_token"], "") is None
    assert len(reuses()) == 1


def test_another_sign_in_of_the_same_person_goes_on(program: Program) -> None:
    before, code, after = program.sign_in(), program.code(), program.sign_in()
    assert program.exchange(code).status_code == 200
    assert refused(program.exchange(code))
    for tokens in (before, after):
        assert principal_of(tokens["access_token"], "") is not None
        assert program.refresh(tokens["refresh_token"]).status_code == 200


def test_somebody_elses_program_ends_nothing_with_a_code(program: Program, ada: Person, tenant: Tenant) -> None:
    code = program.code()
    tokens = program.exchange(code).json()
    other = Program.of(browser(ada), make_application(tenant, "Other")[0])
    assert refused(other.exchange(code))
    assert principal_of(tokens["access_token"], "") is not None
    assert reuses() == []


def test_without_the_programs_secret_a_code_ends_nothing(ada: Person, tenant: Tenant) -> None:
    application, secret = make_application(tenant, "Server side", confidential=True)
    program = Program.of(browser(ada), application, secret)
    code = program.code()
    tokens = program.exchange(code).json()
    program.secret = "wrong"
    assert program.exchange(code).status_code == 401
    assert principal_of(tokens["access_token"], "") is not None
    program.secret = secret
    assert refused(program.exchange(code))
    assert principal_of(tokens["access_token"], "") is None


def test_a_code_that_was_never_exchanged_ends_nothing(program: Program) -> None:
    tokens = program.sign_in()
    assert refused(program.exchange("unknown"))
    assert program.exchange(program.code(), code_verifier="x" * 50).status_code == 400
    assert principal_of(tokens["access_token"], "") is not None
    assert reuses() == []


@pytest.mark.parametrize("what", ["consent", "application"])
def test_a_code_whose_sign_in_is_gone_is_refused_like_any_other(
    program: Program, tenant: Tenant, application: Application, what: str
) -> None:
    code = program.code()
    program.exchange(code)
    if what == "consent":
        consents.revoke_consent(tenant_id=tenant.pk, consent_id=Consent.objects.get().pk, actor=ROOT)
        assert refused(program.exchange(code))
    else:
        applications.remove_application(tenant_id=tenant.pk, application_id=application.pk, actor=ROOT)
        assert program.exchange(code).status_code == 401
    assert reuses() == []
    assert not TokenFamily.objects.exists()


def test_a_code_that_comes_again_after_signing_out_is_refused(program: Program) -> None:
    code = program.code()
    program.revoke(program.exchange(code).json()["refresh_token"])
    assert refused(program.exchange(code))


# --- less, for a while


def test_asking_for_less_once_does_not_narrow_the_sign_in(program: Program) -> None:
    tokens = program.sign_in()
    less = program.refresh(tokens["refresh_token"], scope="tasks:read").json()
    assert less["scope"] == "tasks:read"
    principal = principal_of(less["access_token"], "")
    assert principal is not None
    assert principal.scopes == {"tasks:read"}
    other = program.refresh(less["refresh_token"], scope="tasks:call tasks:read").json()
    assert set(other["scope"].split()) == {"tasks:call", "tasks:read"}
    whole = program.refresh(other["refresh_token"]).json()
    assert set(whole["scope"].split()) == set(SCOPES)
    principal = principal_of(whole["access_token"], "")
    assert principal is not None
    assert principal.scopes == set(SCOPES)


def test_no_refresh_gives_more_than_the_sign_in(program: Program) -> None:
    tokens = program.sign_in("tasks:read")
    program.sign_in()  # the person allows everything, at another sign-in
    answer = program.refresh(tokens["refresh_token"], scope="tasks:read tasks:call")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_scope")
    assert program.refresh(tokens["refresh_token"]).json()["scope"] == "tasks:read"


def test_what_the_person_takes_back_is_gone_from_the_next_refresh(program: Program) -> None:
    tokens = program.sign_in()
    program.sign_in("tasks:read")  # of all that was asked again
    assert program.refresh(tokens["refresh_token"]).json()["scope"] == "tasks:read"


def test_a_sign_in_from_before_families_were_kept_goes_on(program: Program) -> None:
    code = program.code("tasks:read", "tasks:call")
    tokens = program.exchange(code).json()
    TokenFamily.objects.all().delete()
    tokens = program.refresh(tokens["refresh_token"]).json()
    assert set(tokens["scope"].split()) == {"tasks:read", "tasks:call"}
    assert refused(program.exchange(code)), "and ends nothing, as nobody knows what"
    assert program.refresh(tokens["refresh_token"], scope="tasks:read").json()["scope"] == "tasks:read"


# --- what the sweep leaves


def long_ago() -> None:
    TokenFamily.objects.update(created_at=timezone.now() - timedelta(days=2))


def test_the_sweep_keeps_what_a_living_sign_in_needs(program: Program) -> None:
    code = program.code()
    tokens = program.exchange(code).json()
    long_ago()
    applications.sweep()
    tokens = program.refresh(tokens["refresh_token"], scope="tasks:read").json()
    applications.sweep()
    tokens = program.refresh(tokens["refresh_token"]).json()
    assert set(tokens["scope"].split()) == set(SCOPES), "it still knows what the sign-in may carry"
    assert refused(program.exchange(code))
    assert principal_of(tokens["access_token"], "") is None, "and which tokens came of the code"


@pytest.mark.django_db(transaction=True)
def test_what_cannot_be_swept_keeps_nothing_else(program: Program, caplog: pytest.LogCaptureFixture) -> None:
    program.sign_in()
    RefreshToken.objects.all().delete()
    long_ago()
    with superuser() as other:
        # Codes are swept with the tokens; who holds their table lets that run out of its time.
        other.execute("LOCK TABLE oauth2_provider_grant IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ChoresFailed, match=r"^sweeping tokens$"):
            applications.sweep()
        other.rollback()
    assert not TokenFamily.objects.exists()
    assert "sweeping tokens: The database is too busy; try again shortly." in caplog.messages


def test_the_sweep_forgets_sign_ins_of_which_no_token_is_left(program: Program) -> None:
    program.sign_in()
    kept = program.sign_in()
    gone = RefreshToken.objects.order_by("pk").first()
    AccessToken.objects.filter(pk=gone.access_token_id).update(expires=timezone.now() - timedelta(days=400))
    applications.sweep()
    assert TokenFamily.objects.count() == 2, "a young one stays: its first token may be on its way"
    long_ago()
    applications.sweep()
    assert [row.family for row in TokenFamily.objects.all()] == [RefreshToken.objects.get().token_family]
    assert program.refresh(kept["refresh_token"]).status_code == 200


# --- at the same moment


@pytest.mark.django_db(transaction=True)
def test_a_refresh_that_meets_the_person_taking_it_back_is_refused(program: Program, tenant: Tenant) -> None:
    tokens = program.sign_in()
    answers: list[Any] = []

    def refresh() -> None:
        try:
            answers.append(program.refresh(tokens["refresh_token"]))
        finally:
            connection.close()

    thread = threading.Thread(target=refresh)
    with transaction.atomic():
        consents.revoke_consent(tenant_id=tenant.pk, consent_id=Consent.objects.get().pk, actor=ROOT)
        thread.start()
        wait_until(lambda: waiting() == 1)
    thread.join()
    (answer,) = answers
    assert refused(answer)
    assert not AccessToken.objects.exists()
    assert not RefreshToken.objects.exists()
