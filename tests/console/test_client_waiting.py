"""How the calls of a client wait, as its page tells and changes it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from taskhub.core.names import TASKS_EXTENSION
from taskhub.core.states import Role
from taskhub.domain.clients import patience
from taskhub.domain.clients.patience import learn
from taskhub.store.models import AuthContext, Event, Tenant
from tests.console.admin import words
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_task

pytestmark = pytest.mark.django_db


@pytest.fixture
def context(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> AuthContext:
    monkeypatch.setattr(patience, "notify", lambda hint: None)
    return make_context(tenant, "agent-a")


def called(context: AuthContext, name: str, revision: str = "2025-06-18", **capabilities: Any) -> None:
    make_task(context, client_info={"name": name}, client_capabilities=capabilities, revision=revision)


def card(browser: Client, context: AuthContext) -> str:
    """The text of the card."""
    page = browser.get(f"/clients/{context.pk}/").content.decode()
    return words(page.partition('id="waiting"')[2].partition("</section>")[0])


def test_each_program_has_its_patience_and_the_reason(admin: Client, context: AuthContext, settings: Any) -> None:
    assert "Any program without tasks 25 s, the default listed" in card(admin, context)
    for name in ("claude-code", "Visual Studio Code", "quick", "unsure"):
        called(context, name)
    called(context, "modern", "2026-07-28", extensions={TASKS_EXTENSION: {}})
    called(context, "modern", "2025-11-25", tasks={})
    called(context, "stateless", "2026-07-28")
    called(context, "proposal", "sep-1686")
    learn(context.pk, {"name": "quick"}, 5_000, certain=True)
    learn(context.pk, {"name": "unsure"}, 7_600)
    learn(context.pk, {"name": "gone since"}, 10_000, certain=True)
    shown = card(admin, context)
    for row in (
        "claude-code 100 s, known for this program listed",
        "Visual Studio Code as long as it takes, known for this program listed",
        "quick 4 s, learned: a caller left after 5 s listed",
        "gone since 8 s, learned: a caller left after 10 s listed",
        "unsure 25 s, the default; a caller left after 7.6 s, which counts the second time listed",
        "modern no limit: it declares tasks not listed",
        "stateless 25 s, the default listed",
        "proposal no limit: it declares tasks not listed",
    ):
        assert row in shown
    assert shown.count("modern") == 1
    settings.TASKHUB_PATIENCE_SECONDS, settings.TASKHUB_HUB_TOOLS = 0, False
    assert "stateless as long as it takes, the default not listed" in card(admin, context)


def test_it_is_changed_where_it_is_shown(admin: Client, context: AuthContext) -> None:
    page = f"/clients/{context.pk}/"
    assert 'name="patience"' not in admin.get(page).content.decode()
    form = admin.get(f"{page}?waiting").content.decode()
    assert 'name="patience"' in form
    assert "As the setting says (listed)" in form
    assert admin.post(f"{page}waiting", {"patience": "10", "hub_tools": "no"}).status_code == 302
    assert "10 s, set here not listed" in card(admin, context)
    form = admin.get(f"{page}?waiting").content.decode()
    assert 'value="10"' in form
    assert '<option value="no" selected>' in form
    assert admin.post(f"{page}waiting", {"patience": "", "hub_tools": ""}).status_code == 302
    assert "25 s, the default listed" in card(admin, context)
    assert Event.objects.filter(action="client.waiting.changed", actor="root").count() == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"patience": "0"}, "From 1 to 3,600 seconds."),
        ({"patience": "3601"}, "From 1 to 3,600 seconds."),
        ({"patience": "soon"}, "Give a whole number, not"),
        ({"hub_tools": "perhaps"}, "Choose yes, no, or as the setting says."),
    ],
)
def test_what_cannot_be_is_refused_where_it_was_typed(
    admin: Client, context: AuthContext, given: dict[str, str], said: str
) -> None:
    answer = admin.post(f"/clients/{context.pk}/waiting", {"patience": "", "hub_tools": "", **given})
    assert answer.status_code == 400
    assert said in words(answer.content.decode())
    assert not Event.objects.exists()


def test_who_may_not_change_it_sees_it(tenant: Tenant, context: AuthContext, sign_in: Login) -> None:
    operator = sign_in(make_person(Role.OPERATOR, tenant))
    assert "25 s, the default listed" in card(operator, context)
    page = operator.get(f"/clients/{context.pk}/?waiting").content.decode()
    assert 'name="patience"' not in page
    assert "#waiting-form" not in page
