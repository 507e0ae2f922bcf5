"""What a person is told: what they choose, where, the link that confirms an address, and the one that ends mails."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

import pytest
from django.conf import LazySettings
from django.http import HttpResponse
from django.test import Client

from taskhub.core.states import Role
from taskhub.domain.notices.addresses import CONFIRMATIONS, TRIALS, confirm_token, stop_token
from taskhub.domain.notices.kinds import PERSONAL
from taskhub.store.models import Event, Membership, Notice, NoticeAddress, NoticeChoices, Tenant
from tests.console.admin import browser, words
from tests.factories import make_person

pytestmark = pytest.mark.django_db

PAGE = "/accounts/notifications/"
MAIL = f"{PAGE}mail/"
GIVEN = {
    "kinds": ["approval.asked"],
    "pace": "soon",
    "daily_at": "",
    "quiet_from": "",
    "quiet_until": "",
    "zone": "Europe/Berlin",
}


@pytest.fixture(autouse=True)
def _sends(settings: LazySettings) -> None:
    settings.EMAIL_HOST = "mail.example.com"


@pytest.fixture
def ada(tenant: Tenant) -> Client:
    return browser(make_person("approver", tenant, username="ada"))


def mail() -> NoticeAddress:
    return NoticeAddress.objects.get(choices__membership__user__username="ada", channel="mail")


def give(client: Client, address: str) -> HttpResponse:
    answer: HttpResponse = client.post(MAIL, {"address": address})
    return answer


def given(ada: Client, address: str = "ada@example.com") -> NoticeAddress:
    """Her confirmed address."""
    give(ada, address)
    NoticeAddress.objects.update(address=address, pending="")
    return mail()


def page_of(client: Client, path: str = PAGE) -> str:
    return words(client.get(path).content.decode())


def test_a_hub_without_a_mail_server_says_so(ada: Client, settings: LazySettings) -> None:
    settings.EMAIL_HOST = ""
    assert "This hub sends no messages." in page_of(ada, "/accounts/")
    assert "This hub sends no mails." in page_of(ada)
    assert give(ada, "ada@example.com").status_code == 400
    assert not NoticeAddress.objects.exists()


def test_the_zone_of_the_browser_is_taken_until_one_is_chosen(ada: Client) -> None:
    select = re.compile(r'<select name="zone"[^>]* data-zone')
    assert select.search(ada.get(PAGE).content.decode())
    ada.post(MAIL, {"address": "ada@example.com", "zone": "Mars/Olympus"})
    assert not NoticeChoices.objects.exclude(zone="UTC").exists()
    NoticeChoices.objects.all().delete()
    ada.post(MAIL, {"address": "ada@example.com", "zone": "America/Lima"})
    assert NoticeChoices.objects.get().zone == "America/Lima"
    assert not select.search(ada.get(PAGE).content.decode())
    ada.post(MAIL, {"address": "ada@example.org", "zone": "Europe/Berlin"})
    assert NoticeChoices.objects.get().zone == "America/Lima"


def test_everybody_chooses_their_own(tenant: Tenant) -> None:
    for role in Role:
        person = browser(make_person(role, tenant))
        assert "What, and when" in page_of(person)
        page = page_of(person)
        assert ("does not include answering" in page) == (role in (Role.VIEWER, Role.AUDITOR))
    assert Client().get(PAGE)["Location"] == "/accounts/login/?next=%2Faccounts%2Fnotifications%2F"


def test_what_is_for_administrators_they_alone_choose(tenant: Tenant) -> None:
    for role in Role:
        person = browser(make_person(role, tenant))
        assert ("that nobody can decide" in page_of(person)) == (role is Role.ADMIN)
        person.post(PAGE, {**GIVEN, "kinds": ["approval.asked", "approval.undecidable"]})
    chosen = {row.membership.role: row.kinds for row in NoticeChoices.objects.select_related("membership")}
    assert {role for role, kinds in chosen.items() if "approval.undecidable" in kinds} == {"admin"}


def test_what_is_chosen_is_stored_and_shown(ada: Client) -> None:
    wanted = {
        **GIVEN,
        "pace": "daily",
        "daily_at": "08:30",
        "quiet_from": "22:00",
        "quiet_until": "07:00",
        "zone": "UTC",
    }
    told = ada.post(PAGE, wanted, follow=True).content.decode()
    assert "Saved." in words(told)
    row = NoticeChoices.objects.get()
    assert (row.kinds, row.pace) == (["approval.asked"], "daily")
    assert (row.daily_at, row.quiet_from, row.quiet_until) == (time(8, 30), time(22), time(7))
    for value in ("08:30", "22:00", "07:00"):
        assert f'value="{value}"' in told
    assert Event.objects.get(action="notices.chosen").after["pace"] == "daily"


@pytest.mark.parametrize(("begins", "quiet"), [(-1, True), (1, False)])
def test_whoever_chooses_quiet_hours_that_run_now_is_told(ada: Client, begins: int, quiet: bool) -> None:
    hour = timedelta(hours=1)
    start = datetime.now(UTC) + begins * hour
    hours = {"quiet_from": f"{start:%H:%M}", "quiet_until": f"{start + 2 * hour:%H:%M}", "zone": "UTC"}
    told = words(ada.post(PAGE, {**GIVEN, **hours}, follow=True).content.decode())
    assert "Saved." in told
    assert (f"It is quiet now: no message comes before {hours['quiet_until']}." in told) == quiet


def test_an_address_is_asked_and_not_used_before(ada: Client) -> None:
    told = ada.post(MAIL, {"address": "ada@example.com"}, follow=True).content.decode()
    assert "Saved. A mail to ada@example.com has a link that confirms it." in words(told)
    assert (mail().address, mail().pending) == ("", "ada@example.com")
    assert 'value="ada@example.com"' in told
    assert "ada@example.com is still to be confirmed." in page_of(ada, "/accounts/")
    (notice,) = Notice.objects.all()
    assert (notice.kind, notice.channel) == ("address.confirm", "mail")
    event = Event.objects.get(action="address.changed")
    assert "ada@example.com" not in f"{event.before} {event.after}"
    give(ada, "ada@example.com")
    assert Notice.objects.count() == 1, "the same address is not asked again"


def test_who_never_chose_is_told_of_everything(ada: Client) -> None:
    give(ada, "ada@example.com")
    row = NoticeChoices.objects.get()
    assert (set(row.kinds), row.pace) == (set(PERSONAL), "soon")


BAD_ADDRESSES = (
    "ada",
    "a b@example.com",
    "ada@example.com\r\nBcc: eve@example.com",
    "ada@exämple.com",
    "a@" + "b" * 300,
    '"ada"@example.com',
    "ada@example.com,eve@example.com",
)
BAD = (
    ({"pace": "hourly"}, "pace"),
    ({"pace": "daily"}, "daily_at"),
    ({"daily_at": "25:00"}, "daily_at"),
    ({"quiet_from": "22:00"}, "quiet_until"),
    ({"quiet_until": "07:00"}, "quiet_from"),
    ({"quiet_from": "07:00", "quiet_until": "07:00"}, "quiet_until"),
    ({"zone": "Mars/Olympus"}, "zone"),
    ({"zone": "../../etc/passwd"}, "zone"),
)


def test_what_cannot_be_changes_nothing(ada: Client) -> None:
    for change, field in BAD:
        answer = ada.post(PAGE, {**GIVEN, **change})
        assert answer.status_code == 400, change
        assert list(answer.context["form"].errors) == [field], change
    for address in BAD_ADDRESSES:
        answer = give(ada, address)
        assert answer.status_code == 400, address
        assert "Give an address such as name@example.com, in ASCII." in words(answer.content.decode()), address
    assert not NoticeChoices.objects.exists()
    assert not Notice.objects.exists()
    for path in (f"{PAGE}pigeon/", f"{PAGE}pigeon/again", f"{PAGE}webhook/"):
        assert ada.post(path, {"address": "ada@example.com"}).status_code == 404, path


def test_a_slack_account_is_named_by_address_or_id(ada: Client, settings: LazySettings) -> None:
    slack = f"{PAGE}slack/"
    assert "This hub has no Slack." in page_of(ada)
    assert ada.post(slack, {"address": "U012AB3CD"}).status_code == 400
    settings.TASKHUB_SLACK_BOT_TOKEN, settings.TASKHUB_SLACK_APP_TOKEN = "xoxb-1", "xapp-1"
    for bad in ("ada", "u012ab3cd", "@ada", "<@U012AB3CD>", "C012AB3CD", "U" * 40, "U012AB3CD\n"[:9] + " x"):
        answer = ada.post(slack, {"address": bad})
        assert answer.status_code == 400, bad
        assert "Give the address that you have in Slack" in words(answer.content.decode()), bad
    assert not NoticeAddress.objects.exists()
    for number, good in enumerate(("ada@example.com", "U012AB3CD", "T012AB3CD:W012AB3CD"), 1):
        assert ada.post(slack, {"address": good}).status_code == 302
        assert NoticeAddress.objects.get().pending == good
        assert Notice.objects.filter(channel="slack").count() == number


def test_an_address_is_asked_so_often_and_no_more(ada: Client) -> None:
    for number in range(CONFIRMATIONS):
        assert give(ada, f"ada{number}@example.com").status_code == 302
    refused = give(ada, "more@example.com")
    assert refused.status_code == 429
    assert mail().pending == f"ada{CONFIRMATIONS - 1}@example.com"
    told = words(ada.post(f"{MAIL}again", follow=True).content.decode())
    assert f"You were sent {CONFIRMATIONS} messages" in told
    assert Notice.objects.count() == CONFIRMATIONS


def test_the_mail_with_the_link_is_sent_again(ada: Client) -> None:
    give(ada, "ada@example.com")
    assert "Another mail to ada@example.com is on its way." in words(
        ada.post(f"{MAIL}again", follow=True).content.decode()
    )
    assert Notice.objects.count() == 2


def test_a_link_confirms_the_address_of_who_asked_for_it(ada: Client, tenant: Tenant) -> None:
    given(ada, "old@example.com")
    give(ada, "new@example.com")
    row = mail()
    assert (row.address, row.pending) == ("old@example.com", "new@example.com")
    link = f"{MAIL}confirm/{confirm_token(row.pk, 'new@example.com')}"
    assert Client().get(link)["Location"].startswith("/accounts/login/?next=")
    eve = browser(make_person("approver", tenant))
    give(eve, "new@example.com")
    assert eve.post(link).status_code == 409
    for other in (confirm_token(row.pk, "old@example.com"), stop_token(row.pk, "new@example.com"), "x", "a" * 200):
        assert ada.post(f"{MAIL}confirm/{other}").status_code == 409, other
    assert ada.get(link).status_code == 200
    assert mail().address == "old@example.com", "a GET changes nothing"
    assert "Confirmed. Mail goes to new@example.com." in words(ada.post(link, follow=True).content.decode())
    row = mail()
    assert (row.address, row.pending) == ("new@example.com", "")
    assert ada.post(link).status_code == 409
    assert Event.objects.filter(action="address.confirmed").count() == 1


def test_the_link_in_a_mail_ends_all_mails_without_a_sign_in(ada: Client) -> None:
    row = given(ada)
    link = f"/mails/stop/{stop_token(row.pk, 'ada@example.com')}"
    stranger = Client(enforce_csrf_checks=True)
    assert "End all mails" in page_of(stranger, link)
    assert mail().address == "ada@example.com", "a GET changes nothing"
    for _ in range(2):
        answer = stranger.post(link, {"List-Unsubscribe": "One-Click"})
        assert answer.status_code == 200
        assert "no more mails to ada@example.com" in words(answer.content.decode())
    assert mail().address == ""
    event = Event.objects.get(action="address.ended")
    assert (event.actor, event.target) == ("the link in a mail", "ada")
    assert "No message tells you" in page_of(ada, "/accounts/")


def test_no_other_link_ends_mails(ada: Client) -> None:
    row = given(ada)
    others = (stop_token(row.pk, "eve@example.com"), confirm_token(row.pk, "ada@example.com"), "x", "a" * 200)
    for token in others:
        assert Client().post(f"/mails/stop/{token}").status_code == 404, token
    assert mail().address == "ada@example.com"


def test_without_an_address_no_mail_comes(ada: Client) -> None:
    given(ada)
    give(ada, "")
    assert (mail().address, mail().pending) == ("", "")


def test_what_was_sent_is_listed(ada: Client, tenant: Tenant) -> None:
    row = given(ada)
    user = Membership.objects.get(pk=row.choices_id).user_id
    ended = datetime.now(UTC)
    base = {"tenant": tenant, "user_id": user, "kind": "approval.asked", "channel": "mail", "body": '{"question": 1}'}
    for number in range(3):
        Notice.objects.create(
            **base, public_id=f"msg_{number}", event_id=number, message="msg_0", state="sent", ended_at=ended
        )
    Notice.objects.create(**base, public_id="msg_3", event_id=3, message="msg_3", attempts=2, problem="No answer")
    page = page_of(ada)
    assert "About 3 questions Mail · msg_0" in page
    assert "Delivered" in page
    assert "About a question Mail · msg_3" in page
    assert "No answer" in page
    other = browser(make_person("approver", tenant))
    assert "msg_0" not in page_of(other)


def test_a_person_sends_themselves_a_test_and_reads_what_came_of_it(ada: Client) -> None:
    test = f"{MAIL}test"
    assert "There is no confirmed address" in words(ada.post(test, follow=True).content.decode())
    assert "Send me a test" not in page_of(ada)
    NoticeAddress.objects.update_or_create(
        choices=NoticeChoices.objects.get_or_create(membership=Membership.objects.get(user__username="ada"))[0],
        channel="mail",
        defaults={"address": "ada@example.com"},
    )
    assert "Send me a test" in page_of(ada)
    told = words(ada.post(test, follow=True).content.decode())
    assert "A test to ada@example.com is on its way" in told
    assert "A test Mail" in told
    for _ in range(TRIALS):
        told = words(ada.post(test, follow=True).content.decode())
    assert f"You sent {TRIALS} tests within an hour" in told
    assert Notice.objects.filter(kind="address.test").count() == TRIALS
    assert Event.objects.filter(action="address.tested").count() == TRIALS
    assert ada.get(test).status_code == 405
    assert ada.post("/accounts/notifications/pigeon/test").status_code == 404


def test_an_address_of_another_service_is_shown_with_its_beginning_alone(ada: Client, settings: LazySettings) -> None:
    path = f"{PAGE}apprise/"
    assert "This hub reaches no other services" in page_of(ada)
    assert ada.post(path, {"address": "phone:my-secret-topic"}).status_code == 400
    settings.TASKHUB_APPRISE_URLS = {"phone": "ntfys://token-of-the-hub@ntfy.example/{to}"}
    assert "Services of this hub: phone." in page_of(ada)
    for bad in ("my-secret-topic", "other:my-secret-topic", "phone:not one"):
        answer = ada.post(path, {"address": bad})
        assert answer.status_code == 400, bad
    told = ada.post(path, {"address": "phone:my-secret-topic"}, follow=True).content.decode()
    assert "A message to phone:my… has a link that confirms it." in words(told)
    row = NoticeAddress.objects.get(channel="apprise")
    NoticeAddress.objects.filter(pk=row.pk).update(address=row.pending, pending="")
    again = ada.post(path, {"address": "phone:my…"}, follow=True).content.decode()
    assert Notice.objects.filter(channel="apprise").count() == 1
    ada.post(f"{path}test", follow=True)
    assert Notice.objects.filter(channel="apprise").count() == 2
    admin = browser(make_person("admin", row.choices.membership.tenant))
    for page in (told, again, page_of(ada), page_of(ada, "/accounts/"), page_of(admin, "/settings/")):
        assert "secret-topic" not in page
        assert "token-of-the-hub" not in page
    assert "secret-topic" not in f"{list(Event.objects.values())} {list(NoticeAddress.objects.values())}"
    settings.TASKHUB_APPRISE_URLS = {}
    assert "This hub reaches no other services" in page_of(ada)
    settings.TASKHUB_APPRISE_URLS = {"phone": "ntfys://ntfy.example/{to}"}
    ada.post(path, {"address": ""})
    assert NoticeAddress.objects.get(channel="apprise").address == ""
