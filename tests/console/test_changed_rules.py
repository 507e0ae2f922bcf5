"""Approvals of calls that other rules decide by now: what the card and the message say, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.control.questions import decide_approval
from taskhub.core.records import TaskRecord, ToolRecord
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Role, State
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import AuthContext, Question, Tenant
from tests.console.admin import ADMIN, words
from tests.console.conftest import Login
from tests.console.test_asking_page import card
from tests.domain import kit
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db

ASKS = Rule(name="Production", when="", then=Then.ASK)
OTHER = Rule(name="Other", when='client.name == "nobody"', then=Then.DENY)
RUNS = "The tool runs now."


@pytest.fixture
def client_of(tenant: Tenant) -> AuthContext:
    return make_context(tenant, "Editor")


@pytest.fixture
def tool(tenant: Tenant) -> ToolRecord:
    return make_tool(make_server(tenant, "ops"), "deploy")


def save(client: AuthContext, *rules: Rule) -> int:
    return save_rules(client.tenant_id, rules, expected=present(client.tenant_id).version, actor=ADMIN).version


def asked(client: AuthContext, tool: ToolRecord, rule: Rule = ASKS) -> TaskRecord:
    return make_task(client, tool, arguments={"env": "prod"}, verdict=Verdict(Then.ASK, rule, save(client, rule)))


def approve(browser: Any, task: TaskRecord) -> str:
    """The page after an approval of what is asked now."""
    question = Question.objects.get(task_id=task.id, state="open")
    answer = browser.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}, follow=True)
    return words(answer.content.decode())


CHANGES: dict[str, tuple[tuple[Rule, ...], str, str, str]] = {
    "the rule asks more people": (
        (OTHER, Rule(name="Production", when="", then=Then.ASK, quorum=2)),
        "The rule has changed since (version {0}, now {1}): if approved, people are asked again as it is now.",
        "The rule has changed since (version {0}, now {1}): people are asked again as it is now.",
        "asked again, as the rules had changed",
    ),
    "another rule asks": (
        (Rule(name="Leads", when="", then=Then.ASK), ASKS),
        "Another rule asks since (version {0}, now {1}): if approved, people are asked again as it is now.",
        "Another rule asks since (version {0}, now {1}): people are asked again as it is now.",
        "asked again, as the rules had changed",
    ),
    "a rule denies it": (
        (Rule(name="Frozen", when="", then=Then.DENY, words="The week is frozen."), ASKS),
        "By the rules in force now this call is denied: it does not run, whatever is decided.",
        "Not run: The week is frozen.",
        "not run, as a rule denied it by then",
    ),
    "a rule hides it": (
        (Rule(name="Unseen", when="", then=Then.HIDE), ASKS),
        "By the rules in force now this call is hidden from Editor: it does not run, whatever is decided.",
        "Not run: a rule of this hub hides this tool from its client.",
        "not run, as a rule hid it by then",
    ),
}
"""The rules that are saved while a call waits, what its card says then, what the message says if a worker took it
meanwhile, and what the list of decided questions says."""


@pytest.mark.parametrize("claimed", [False, True])
def test_what_an_approval_comes_to_is_said_before_and_after(
    sign_in: Login, client_of: AuthContext, tool: ToolRecord, monkeypatch: pytest.MonkeyPatch, claimed: bool
) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    mia = sign_in(make_person(Role.APPROVER, client_of.tenant, username="mia"))

    def decide(*args: Any, **named: Any) -> AnswerOutcome:
        """A worker claims the call before the page is answered."""
        outcome = decide_approval(*args, **named)
        assert kit.claim() == []
        return outcome

    if claimed:
        monkeypatch.setattr("taskhub.control.questions.decide_approval", decide)
    for name, (rules, before, ended, _) in CHANGES.items():
        task = asked(client_of, tool)
        assert "By the rules in force" not in card(mia, task), name
        version = save(client_of, *rules)
        before, ended = (text.format(version - 1, version) for text in (before, ended))
        page = card(mia, task)
        assert before in page, name
        assert "If approved now" not in page, name
        found = approve(mia, task)
        assert f"Approved. {ended if claimed else before.replace('if approved, ', '')}" in found, name
        assert RUNS not in found, name
        if not claimed:
            assert kit.claim() == []
        if "again" not in before:
            assert kit.look(task.id).message.rstrip(".") == ended.rstrip("."), name
            did = "hidden" if "hides" in name else "denied"
            assert f"{did} by {rules[0].name}" in words(mia.get(f"/tasks/{task.public_id}/").content.decode()), name
            continue
        assert kit.look(task.id).state is State.INPUT_REQUIRED, name
        page = card(mia, task)  # which is by the rules in force
        assert "since (version" not in page, name
        assert "By the rules in force" not in page, name
    listed, _, shown = mia.get("/inbox/?queue=decided").content.decode().partition("<article")
    said = [after for *_, after in CHANGES.values()]
    assert all(words(listed).count(f"; {after}") == said.count(after) for after in said), words(listed)
    assert "Already approved by mia," in words(shown)
    assert f"; {said[-1]}." in words(shown)


def test_an_approval_that_counts_says_what_it_comes_to_before_the_others_have_approved(
    sign_in: Login, client_of: AuthContext, tool: ToolRecord
) -> None:
    mia = sign_in(make_person(Role.APPROVER, client_of.tenant))
    task = asked(client_of, tool, Rule(name="Production", when="", then=Then.ASK, quorum=2))
    save(client_of, Rule(name="Frozen", when="", then=Then.DENY))
    denied = "By the rules in force now this call is denied: it does not run, whatever is decided."
    assert f"Approved: 1 of 2. {denied}" in approve(mia, task)


def test_rules_that_change_nothing_for_the_call_are_not_spoken_of(
    sign_in: Login, client_of: AuthContext, tool: ToolRecord
) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    mia = sign_in(make_person(Role.APPROVER, client_of.tenant))
    for rules in ((OTHER, ASKS), (Rule(name="Free", when="", then=Then.ALLOW),), ()):
        task = asked(client_of, tool)
        save(client_of, *rules)
        page = card(mia, task)
        assert "since (version" not in page
        assert "By the rules in force" not in page
        assert f"Approved. {RUNS}" in approve(mia, task)
        assert kit.claim_one().task_id == task.id


def test_what_changes_rules_or_rights_says_beforehand_that_others_decide_then(
    sign_in: Login, client_of: AuthContext, tool: ToolRecord
) -> None:
    tenant = client_of.tenant
    person = make_person(Role.ADMIN, tenant)
    mia, other = sign_in(person), sign_in(make_person(Role.ADMIN, tenant))
    version = save(client_of, OTHER) + 1
    save(client_of, ASKS)
    pages = (
        "/rules/",
        "/rules/add",
        "/rules/edit?rule=Production",
        f"/rules/versions/{version - 1}/",
        "/rules/bypass",
        "/settings/",
        f"/settings/?person={person.user_id}",
    )

    def said(address: str) -> str:
        answer = mia.get(address)
        assert answer.status_code == 200, address
        return words(answer.content.decode())

    general = "only others decide on calls that were made before"
    for address in pages:
        assert f"{general}." in said(address), address
    assert general not in said("/inbox/")
    for count, then in ((1, "1 call that waits"), (2, "2 calls that wait")):
        make_task(client_of, tool, verdict=Verdict(Then.ASK, ASKS, version))
        make_task(client_of, tool, verdict=Verdict(Then.ASK, Rule(name="Ops", when="", then=Then.ASK, group="x"), 1))
        for address in pages:
            assert f"{general}: also on the {then} for you now." in said(address), (address, count)
        assert general not in said("/inbox/")
    added = mia.post("/settings/people/add", {"username": "new", "role": "approver", "groups": ""})
    assert added.status_code in (200, 302)
    others = "2 calls in All open are for others to decide"
    after = f"{others}: you changed the rules or somebody’s rights after they were made."
    assert after in said("/inbox/")
    assert "Nothing waits for you." in said("/inbox/")
    assert f"{general}." in said("/rules/")
    assert "for others to decide" not in said("/inbox/?queue=all")
    assert "for others to decide" not in words(other.get("/inbox/").content.decode())
    make_task(client_of, tool, verdict=Verdict(Then.ASK, ASKS, version))
    assert after in said("/inbox/")
    assert "Nothing waits for you." not in said("/inbox/")


def test_the_page_of_calls_that_are_alike_says_it_too(
    client_of: AuthContext, tool: ToolRecord, tenant: Tenant, sign_in: Login
) -> None:
    tasks = [asked(client_of, tool)]
    verdict = Verdict(Then.ASK, ASKS, present(tenant.pk).version)
    tasks += [make_task(client_of, tool, arguments={"env": f"prod-{n}"}, verdict=verdict) for n in range(2)]
    mia = sign_in(make_person(Role.APPROVER, tenant))
    page = f"/inbox/{Question.objects.get(task_id=tasks[0].id).pk}/alike"
    assert "it does not run" not in words(mia.get(page).content.decode())
    save(client_of, Rule(name="Frozen", when="", then=Then.DENY), ASKS)
    assert "The oldest: By the rules in force now this call is denied: it does not run" in words(
        mia.get(page).content.decode()
    )
