"""A person's own mails: what they choose, the link that confirms an address, and the one that ends all mails."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from django.conf import LazySettings
from django.test import Client

from taskhub.core.states import Role
from taskhub.domain.notices.mailing import CONFIRMATIONS, confirm_token, stop_token
from taskhub.store.models import Event, Mailing, Membership, Notice, Tenant
from tests.console.admin import browser, words
from tests.factories import make_person

pytestmark = pytest.mark.django_db

PAGE = "/accounts/mails/"
GIVEN = {
    "address": "ada@example.com",
    "kinds": ["approval.asked"],
    "pace": "soon",
    "daily_at": "",
    "quiet_from": "",
    "quiet_until": "",
    "zone": "Europe/Berlin",
    "away_until": "",
}


@pytest.fixture(autouse=True)
def _sends(settings: LazySettings) -> None:
    settings.EMAIL_HOST = "mail.example.com"


@pytest.fixture
def ada(tenant: Tenant) -> Client:
    return browser(make_person("approver", tenant, username="ada"))


def mailing() -> Mailing:
    return Mailing.objects.get(membership__user__username="ada")


def given(ada: Client, address: str = "ada@example.com") -> Mailing:
    """Her choices, with a confirmed address."""
    ada.post(PAGE, GIVEN)
    Mailing.objects.update(address=address, pending="")
    return mailing()


def page_of(client: Client, path: str = PAGE) -> str:
    return words(client.get(path).content.decode())


def test_a_hub_without_a_mail_server_says_so(ada: Client, settings: LazySettings) -> None:
    settings.EMAIL_HOST = ""
    assert "This hub sends no mails." in page_of(ada, "/accounts/")
    assert "This hub sends no mails." in page_of(ada)
    refused = ada.post(PAGE, GIVEN)
    assert refused.status_code == 400
    assert not Mailing.objects.exists()


def test_everybody_chooses_their_own(tenant: Tenant) -> None:
    for role in Role:
        person = browser(make_person(role, tenant))
        assert "Which mails, and when" in page_of(person)
        page = page_of(person)
        assert ("does not include approving" in page) == (role not in (Role.APPROVER, Role.ADMIN))
    assert Client().get(PAGE)["Location"] == "/accounts/login/?next=%2Faccounts%2Fmails%2F"


def test_what_is_for_administrators_they_alone_choose(tenant: Tenant) -> None:
    for role in Role:
        person = browser(make_person(role, tenant))
        assert ("that nobody can decide" in page_of(person)) == (role is Role.ADMIN)
        person.post(PAGE, {**GIVEN, "kinds": ["approval.asked", "approval.undecidable"]})
    chosen = {row.membership.role: row.kinds for row in Mailing.objects.select_related("membership")}
    assert {role for role, kinds in chosen.items() if "approval.undecidable" in kinds} == {"admin"}


def test_what_is_chosen_is_stored_and_shown(ada: Client) -> None:
    away = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0, second=0, tzinfo=None)
    wanted = {
        **GIVEN,
        "pace": "daily",
        "daily_at": "08:30",
        "quiet_from": "22:00",
        "quiet_until": "07:00",
        "zone": "UTC",
        "away_until": away.isoformat(),
    }
    told = ada.post(PAGE, wanted, follow=True).content.decode()
    assert "Saved. A mail to ada@example.com has a link that confirms it." in words(told)
    row = mailing()
    assert (row.address, row.pending, row.kinds, row.pace) == ("", "ada@example.com", ["approval.asked"], "daily")
    assert (row.daily_at, row.quiet_from, row.quiet_until) == (time(8, 30), time(22), time(7))
    assert row.away_until == away.replace(tzinfo=UTC)
    for value in ("08:30", "22:00", "07:00", f"{away:%Y-%m-%dT%H:%M}", "ada@example.com"):
        assert f'value="{value}"' in told
    assert "ada@example.com is still to be confirmed." in page_of(ada, "/accounts/")
    (notice,) = Notice.objects.all()
    assert (notice.kind, notice.channel) == ("mail.confirm", "mail")
    event = Event.objects.get(action="mail.chosen")
    assert "ada@example.com" not in f"{event.before} {event.after}"
    ada.post(PAGE, wanted)
    assert Notice.objects.count() == 1, "the same address is not asked again"


BAD = (
    ({"address": "ada"}, "address"),
    ({"address": "a b@example.com"}, "address"),
    ({"address": "ada@example.com\r\nBcc: eve@example.com"}, "address"),
    ({"address": "ada@exämple.com"}, "address"),
    ({"address": "a@" + "b" * 300}, "address"),
    ({"address": '"ada"@example.com'}, "address"),
    ({"address": "ada@example.com,eve@example.com"}, "address"),
    ({"pace": "hourly"}, "pace"),
    ({"pace": "daily"}, "daily_at"),
    ({"daily_at": "25:00"}, "daily_at"),
    ({"quiet_from": "22:00"}, "quiet_until"),
    ({"quiet_until": "07:00"}, "quiet_from"),
    ({"quiet_from": "07:00", "quiet_until": "07:00"}, "quiet_until"),
    ({"zone": "Mars/Olympus"}, "zone"),
    ({"zone": "../../etc/passwd"}, "zone"),
    ({"away_until": "tomorrow"}, "away_until"),
    ({"away_until": "9999-01-01T00:00"}, "away_until"),
    ({"away_until": "2999-01-01T00:00"}, "away_until"),
)


def test_what_cannot_be_changes_nothing(ada: Client) -> None:
    for change, field in BAD:
        answer = ada.post(PAGE, {**GIVEN, **change})
        assert answer.status_code == 400, change
        assert list(answer.context["form"].errors) == [field], change
    assert not Mailing.objects.exists()
    assert not Notice.objects.exists()


def test_an_address_is_asked_so_often_and_no_more(ada: Client) -> None:
    for number in range(CONFIRMATIONS):
        assert ada.post(PAGE, {**GIVEN, "address": f"ada{number}@example.com"}).status_code == 302
    refused = ada.post(PAGE, {**GIVEN, "address": "more@example.com"})
    assert refused.status_code == 429
    assert mailing().pending == f"ada{CONFIRMATIONS - 1}@example.com"
    told = words(ada.post(f"{PAGE}again", follow=True).content.decode())
    assert f"You were sent {CONFIRMATIONS} mails" in told
    assert Notice.objects.count() == CONFIRMATIONS


def test_the_mail_with_the_link_is_sent_again(ada: Client) -> None:
    ada.post(PAGE, GIVEN)
    assert "Another mail to ada@example.com is on its way." in words(
        ada.post(f"{PAGE}again", follow=True).content.decode()
    )
    assert Notice.objects.count() == 2


def test_a_link_confirms_the_address_of_who_asked_for_it(ada: Client, tenant: Tenant) -> None:
    given(ada, "old@example.com")
    ada.post(PAGE, {**GIVEN, "address": "new@example.com"})
    row = mailing()
    assert (row.address, row.pending) == ("old@example.com", "new@example.com")
    link = f"{PAGE}confirm/{confirm_token(row.pk, 'new@example.com')}"
    assert Client().get(link)["Location"].startswith("/accounts/login/?next=")
    eve = browser(make_person("approver", tenant))
    eve.post(PAGE, {**GIVEN, "address": "new@example.com"})
    assert eve.post(link).status_code == 409
    for other in (confirm_token(row.pk, "old@example.com"), stop_token(row.pk, "new@example.com"), "x", "a" * 200):
        assert ada.post(f"{PAGE}confirm/{other}").status_code == 409, other
    assert ada.get(link).status_code == 200
    assert mailing().address == "old@example.com", "a GET changes nothing"
    assert "Confirmed. Mails go to new@example.com." in words(ada.post(link, follow=True).content.decode())
    row = mailing()
    assert (row.address, row.pending) == ("new@example.com", "")
    assert ada.post(link).status_code == 409
    assert Event.objects.filter(action="mail.confirmed").count() == 1


def test_the_link_in_a_mail_ends_all_mails_without_a_sign_in(ada: Client) -> None:
    row = given(ada)
    link = f"/mails/stop/{stop_token(row.pk, 'ada@example.com')}"
    stranger = Client(enforce_csrf_checks=True)
    assert "End all mails" in page_of(stranger, link)
    assert mailing().kinds == ["approval.asked"], "a GET changes nothing"
    for _ in range(2):
        answer = stranger.post(link, {"List-Unsubscribe": "One-Click"})
        assert answer.status_code == 200
        assert "no more mails to ada@example.com" in words(answer.content.decode())
    assert mailing().kinds == []
    event = Event.objects.get(action="mail.stopped")
    assert (event.actor, event.target) == ("the link in a mail", "ada")
    assert "No mail tells you" in page_of(ada, "/accounts/")


def test_no_other_link_ends_mails(ada: Client) -> None:
    row = given(ada)
    others = (stop_token(row.pk, "eve@example.com"), confirm_token(row.pk, "ada@example.com"), "x", "a" * 200)
    for token in others:
        assert Client().post(f"/mails/stop/{token}").status_code == 404, token
    assert mailing().kinds == ["approval.asked"]


def test_without_an_address_no_mail_comes(ada: Client) -> None:
    given(ada)
    ada.post(PAGE, {**GIVEN, "address": ""})
    assert (mailing().address, mailing().pending) == ("", "")


def test_what_was_sent_is_listed(ada: Client, tenant: Tenant) -> None:
    row = given(ada)
    user = Membership.objects.get(pk=row.membership_id).user_id
    ended = datetime.now(UTC)
    base = {"tenant": tenant, "user_id": user, "kind": "approval.asked", "channel": "mail", "body": '{"question": 1}'}
    for number in range(3):
        Notice.objects.create(
            **base, public_id=f"msg_{number}", event_id=number, mail="msg_0", state="sent", ended_at=ended
        )
    Notice.objects.create(**base, public_id="msg_3", event_id=3, mail="msg_3", attempts=2, problem="No answer")
    page = page_of(ada)
    assert "About 3 approvals msg_0" in page
    assert "Delivered" in page
    assert "About an approval msg_3" in page
    assert "No answer" in page
    other = browser(make_person("approver", tenant))
    assert "msg_0" not in page_of(other)
