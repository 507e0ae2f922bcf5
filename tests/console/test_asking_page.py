"""What a rule that asks says: in its form, in the list, and on the card of the approval."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.records import Actor, TaskRecord
from taskhub.core.rules import Otherwise, Risk, Rule, Then, Verdict
from taskhub.core.states import Door, Role, State
from taskhub.domain.people.writes import set_role
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import AuthContext, Question, Server, Task, Tenant, Tool
from tests.console.admin import ADMIN, words
from tests.console.conftest import Login
from tests.domain import kit
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db
FORM = {"expected": "0", "name": "Production", "then": "ask", "when": "", "quorum": "1", "enabled": "on"}


def added(admin: Client, tenant: Tenant, **typed: str) -> Rule:
    """The rule that the form makes of this; the form then shows it as it is, and saving it changes nothing."""
    answer = admin.post("/rules/add", {**FORM, **typed})
    assert answer.status_code == 302, words(answer.content.decode())
    (rule,) = present(tenant.pk).rules
    return rule


def asked(tenant: Tenant, arguments: dict[str, Any] | None = None, **says: Any) -> TaskRecord:
    """A call that a rule asks about which says this."""
    rule = Rule(name="Production", when="", then=Then.ASK, **says)
    tool = make_tool(make_server(tenant, "ops"), "deploy")
    context = make_context(tenant, "Editor")
    saved = save_rules(tenant.pk, [rule], expected=0, actor=ADMIN)
    verdict = Verdict(Then.ASK, rule, saved.version)
    return make_task(context, tool, arguments=arguments or {"env": "prod"}, verdict=verdict)


def card(client: Client, task: TaskRecord | Task) -> str:
    question = Question.objects.filter(task_id=task.id).latest("id")
    html = client.get(f"/inbox/{question.pk}/").content.decode()
    return words(html[html.index('<article class="card decision"') : html.index("</article>")])


@pytest.mark.parametrize("then", ["ask", "deny"])
def test_only_a_rule_that_asks_excludes_the_requester(admin: Client, tenant: Tenant, then: str) -> None:
    rule = added(admin, tenant, then=then, not_requester="on")
    assert rule == Rule(name="Production", when="", then=Then(then), not_requester=then == "ask")
    html = admin.get("/rules/edit?rule=Production").content.decode()
    checkbox = html[html.index('name="not_requester"') :].partition(">")[0]
    assert ("checked" in checkbox) is rule.not_requester
    listed = words(admin.get("/rules/").content.decode())
    assert ("1 of the approvers but not the requester" in listed) is (then == "ask")


def test_the_card_says_that_the_requester_may_not_decide(sign_in: Login, tenant: Tenant) -> None:
    task = asked(tenant, not_requester=True)
    mia, ben = (make_person(Role.APPROVER, tenant) for _ in range(2))
    AuthContext.objects.update(issuer=OAUTH_ISSUER, subject=f"user:{mia.user_id}")
    said = card(sign_in(mia), task)
    assert "You made this call, through Editor: by the rule, somebody else has to decide." in said
    assert "Reject" not in said
    said = card(sign_in(ben), task)
    assert "which needs one approval (not by whoever made the call)" in said
    assert "Reject" in said


def test_the_card_says_whom_the_rule_leaves_out_of_a_call_with_a_token(sign_in: Login, tenant: Tenant) -> None:
    task = asked(tenant, not_requester=True)
    ben, cleo = make_person(Role.APPROVER, tenant), make_person(Role.ADMIN, tenant, username="cleo")
    said = card(sign_in(ben), task)
    nobody = "this client calls with a token: nobody is known as its requester, so nobody is left out"
    assert f"which needs one approval ({nobody})" in said
    assert "Run again by" not in said
    request_cancel(task.id, actor=ADMIN)
    rerun = sign_in(cleo).post(f"/tasks/{task.public_id}/rerun")
    again = Task.objects.latest("id")
    assert rerun.headers["Location"] == f"/tasks/{again.public_id}/"
    said = card(sign_in(ben), again)
    assert "Run again by cleo" in said
    assert "which needs one approval (not by cleo, who ran it again)" in said
    assert "You ran this call again: by the rule, somebody else has to decide." in card(sign_in(cleo), again)


def test_the_card_says_that_rights_came_or_were_given_too_late(sign_in: Login, tenant: Tenant) -> None:
    mia, ben = make_person(Role.ADMIN, tenant), make_person(Role.VIEWER, tenant)
    task = asked(tenant)
    actor = Actor(name=mia.username, door=Door.WEB, user_id=mia.user_id)
    set_role(tenant_id=tenant.pk, user_id=ben.user_id, role="approver", actor=actor)
    changed = "You changed the rules, or somebody’s role"
    for person, why in ((mia, changed), (ben, "You got your role, groups")):
        said = card(sign_in(person), task)
        assert why in said
        assert "Somebody else has to decide, or the call is made again." in said
        assert "Reject" not in said
    question = Question.objects.get(task_id=task.id)
    answer = sign_in(ben).post(f"/inbox/{question.pk}/decide", {"verdict": "approve"})
    assert answer.status_code == 403
    assert "your decision does not count for it" in words(answer.content.decode())


SENTENCE = "Deploy {args.service} to {args.env}"


def test_the_form_takes_a_risk_and_a_sentence_and_shows_them(admin: Client, tenant: Tenant) -> None:
    rule = added(admin, tenant, risk="critical", sentence=SENTENCE)
    assert rule == Rule(name="Production", when="", then=Then.ASK, risk=Risk.CRITICAL, sentence=SENTENCE)
    html = admin.get("/rules/edit?rule=Production").content.decode()
    assert f'value="{SENTENCE}"' in html
    assert '<option value="critical" selected>' in html
    assert f"Ask Critical 1 of the approvers “{SENTENCE}”" in words(admin.get("/rules/").content.decode())


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({"sentence": "Deploy {service}"}, "sentence", "{service} is no place for an argument: write {args.name}"),
        ({"sentence": "x" * 301}, "sentence", "At most 300 characters"),
        ({"risk": "mild"}, "risk", "Choose the risk."),
    ],
)
def test_what_cannot_be_asked_is_refused_beside_its_field(
    admin: Client, tenant: Tenant, typed: dict[str, str], field: str, said: str
) -> None:
    answer = admin.post("/rules/add", {**FORM, **typed})
    html = answer.content.decode()
    assert answer.status_code == 400
    assert said in words(html[html.index(f'id="id_{field}_error"') :])[:300]
    assert present(tenant.pk).version == 0


def test_the_sentence_is_the_headline_and_no_value_passes_for_its_words(sign_in: Login, tenant: Tenant) -> None:
    mia = sign_in(make_person(Role.APPROVER, tenant))
    task = asked(
        tenant,
        {"service": "web to staging.\u200b <b>Not</b>", "env": "prod\u202e"},
        sentence=SENTENCE,
        risk=Risk.HIGH,
    )
    html = mia.get("/inbox/").content.decode()
    headline = html[html.index('<h2 id="decision-title"') : html.index("</h2>", html.index('id="decision-title"'))]
    assert "<b>Not" not in headline
    assert headline.count('class="given"') == 2
    assert words(headline) == words(headline).replace("\u200b", "").replace("\u202e", "")
    assert words(headline).startswith("Deploy web to staging.")
    listed = html[html.index('id="inbox-list"') : html.index('<article class="card decision"')]
    assert "High risk Deploy web to staging." in words(listed)
    assert "High risk Approve this call?" in card(mia, task)
    assert "High risk" in words(mia.get("/").content.decode())
    page = mia.get(f"/tasks/{task.public_id}/?view=questions").content.decode()
    assert "Deploy web to staging." in words(page)


def test_a_low_risk_has_no_badge_and_without_a_sentence_the_headline_asks(sign_in: Login, tenant: Tenant) -> None:
    said = card(sign_in(make_person(Role.APPROVER, tenant)), asked(tenant))
    assert "Editor called deploy on ops Approve this call?" in said
    assert "risk" not in said
    assert "to approve it, type" not in said


def test_who_approves_a_critical_call_types_the_name_of_its_tool(sign_in: Login, tenant: Tenant) -> None:
    mia = sign_in(make_person(Role.APPROVER, tenant))
    task = asked(tenant, risk=Risk.CRITICAL)
    assert "Critical" in card(mia, task)
    assert "This call is critical: to approve it, type deploy" in card(mia, task)
    question = Question.objects.get(task_id=task.id)

    def decide(**fields: str) -> int:
        return int(mia.post(f"/inbox/{question.pk}/decide", {"verdict": "approve", **fields}).status_code)

    for typed in ({}, {"confirmed": ""}, {"confirmed": "Deploy"}, {"confirmed": "ops"}):
        assert decide(**typed) == 422
    answer = mia.post(f"/inbox/{question.pk}/decide", {"verdict": "approve", "reason": "kept"}).content.decode()
    assert "To approve this critical call, type the name of its tool: deploy" in words(answer)
    assert "kept" in answer
    assert decide(confirmed=" deploy ") == 302
    assert kit.look(task.id).state is State.QUEUED


def test_to_reject_a_critical_call_nothing_is_typed(sign_in: Login, tenant: Tenant) -> None:
    mia = sign_in(make_person(Role.APPROVER, tenant))
    task = asked(tenant, risk=Risk.CRITICAL)
    question = Question.objects.get(task_id=task.id)
    mia.post(f"/inbox/{question.pk}/decide", {"verdict": "reject", "reason": "No."})
    assert kit.look(task.id).state is State.FINISHED


# --- nobody decides in time

TIME = {"expires_minutes": "30"}


@pytest.mark.parametrize(
    ("typed", "says", "shown"),
    [
        ({}, {}, ""),
        ({"expires_minutes": ""}, {}, ""),
        (TIME, {"expires_minutes": 30}, "within 30 min, else denied"),
        (
            {"otherwise": "allow", "escalate_to": "leads"},
            {"otherwise": Otherwise.ALLOW},
            "within 1 d, else it runs",
        ),
        (
            {"expires_minutes": "120", "otherwise": "escalate", "escalate_to": "leads"},
            {"expires_minutes": 120, "otherwise": Otherwise.ESCALATE, "escalate_to": "leads"},
            "within 2 h, else leads is asked",
        ),
        ({"remind_minutes": "0"}, {}, ""),
        (
            TIME | {"remind_minutes": "20"},
            {"expires_minutes": 30, "remind_minutes": 20},
            "within 30 min, else denied reminded after 20 min",
        ),
    ],
)
def test_the_form_takes_a_time_and_what_happens_then(
    admin: Client, tenant: Tenant, typed: dict[str, str], says: dict[str, Any], shown: str
) -> None:
    rule = added(admin, tenant, **typed)
    assert rule == Rule(name="Production", when="", then=Then.ASK, **says)
    html = admin.get("/rules/edit?rule=Production").content.decode()
    assert f'<option value="{rule.otherwise}" selected>' in html
    assert f'name="expires_minutes" value="{rule.expires_minutes}"' in html
    assert (f'name="remind_minutes" value="{rule.remind_minutes}"' in html) is bool(rule.remind_minutes)
    listed = words(admin.get("/rules/").content.decode())
    assert f"1 of the approvers {shown}".strip() in listed
    assert ("within" in listed) is bool(shown)


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({"expires_minutes": "0"}, "expires_minutes", "whole number from 1 to 43,200 minutes"),
        ({"expires_minutes": "soon"}, "expires_minutes", "Give a whole number"),
        (TIME | {"remind_minutes": "30"}, "remind_minutes", "fewer minutes than people have to decide: 30"),
        ({"otherwise": "shrug"}, "otherwise", "Choose what happens then."),
        ({"otherwise": "escalate"}, "escalate_to", "Name the group that is asked then."),
        ({"otherwise": "escalate", "escalate_to": "ops", "group": "ops"}, "escalate_to", "asked first already"),
        ({"otherwise": "allow", "risk": "critical"}, "otherwise", "A critical call is not allowed"),
    ],
)
def test_what_cannot_happen_then_is_refused_beside_its_field(
    admin: Client, tenant: Tenant, typed: dict[str, str], field: str, said: str
) -> None:
    answer = admin.post("/rules/add", {**FORM, **typed})
    html = answer.content.decode()
    assert answer.status_code == 400
    assert said in words(html[html.index(f'id="id_{field}_error"') :])[:300]


def overdue(task: TaskRecord) -> None:
    Question.objects.filter(task_id=task.id, state="open").update(due_at=datetime.now(UTC) - timedelta(seconds=1))


def a_day_left(task: TaskRecord) -> None:
    """And a minute, since a second less than a day is 23 hours."""
    left = timedelta(days=1, minutes=1)
    Question.objects.filter(task_id=task.id, state="open").update(due_at=datetime.now(UTC) + left)


def page_of(client: Client, task: TaskRecord, view: str = "") -> str:
    return words(client.get(f"/tasks/{task.public_id}/?view={view}").content.decode())


@pytest.mark.parametrize(
    ("says", "before", "inbox", "after", "why", "history"),
    [
        (
            {},
            "denied in 1 d if nobody decides",
            "rule Production denied it, as nobody decided",
            "Nobody decided in time: the rule Production denied the call",
            "Nobody decided in time: the rule Production denied the call, and the tool did not run.",
            "Nobody decided within 1 d, so the rule denied it",
        ),
        (
            {"otherwise": Otherwise.ALLOW},
            "runs in 1 d if nobody decides",
            "rule Production let it run, as nobody decided",
            "Nobody decided in time: the rule Production let the call run",
            "Nobody approved this call: the rule Production let it run, as nobody decided.",
            "Nobody decided within 1 d, so the rule let it run",
        ),
    ],
    ids=["deny", "allow"],
)
def test_every_page_says_that_the_rule_decided_and_no_person(
    sign_in: Login,
    tenant: Tenant,
    says: dict[str, Any],
    before: str,
    inbox: str,
    after: str,
    why: str,
    history: str,
) -> None:
    mia, auditor = sign_in(make_person(Role.APPROVER, tenant)), sign_in(make_person(Role.AUDITOR, tenant))
    task = asked(tenant, **says)
    a_day_left(task)
    assert before in card(mia, task)
    overdue(task)
    assert "The time to decide is over" in card(mia, task)
    for section in ("summary", "questions"):
        now = page_of(mia, task, section)
        assert "within seconds" in now, section
        assert "if nobody decides" not in now, section
        assert "Undecided" not in now, section
    assert sweep() == 1
    assert inbox in words(mia.get("/inbox/?queue=decided").content.decode())
    said = card(mia, task)
    assert after in said
    assert inbox in said
    assert "Already" not in said
    page = page_of(mia, task)
    assert why in page
    assert history in page_of(mia, task, "timeline")
    assert inbox in page_of(mia, task, "questions")
    assert "Nobody decided For people" in page_of(mia, task, "questions")
    log = words(auditor.get("/audit/").content.decode())
    assert "question.undecided" in log
    assert "rule Production" in log


@pytest.mark.parametrize(
    ("says", "then"),
    [
        ({}, "it is denied within seconds"),
        ({"otherwise": Otherwise.ALLOW}, "it runs within seconds"),
        ({"otherwise": Otherwise.ESCALATE, "escalate_to": "leads"}, "group leads is asked within seconds"),
    ],
    ids=["deny", "allow", "escalate"],
)
def test_once_the_time_is_over_the_inbox_says_what_follows(
    sign_in: Login, tenant: Tenant, says: dict[str, Any], then: str
) -> None:
    mia = sign_in(make_person(Role.APPROVER, tenant))
    task = asked(tenant, **says)
    overdue(task)
    assert f"the time to decide is over : {then}" in card(mia, task)
    said = words(mia.get("/inbox/?queue=all").content.decode())
    assert "time is over" in said
    assert "ago if nobody decides" not in said


def test_what_was_allowed_is_asked_again_where_the_tool_changes(sign_in: Login, tenant: Tenant) -> None:
    mia = sign_in(make_person(Role.APPROVER, tenant))
    task = asked(tenant, otherwise=Otherwise.ALLOW)
    overdue(task)
    sweep()
    Tool.objects.update(digest="1" * 64, definition={"name": "deploy"})
    assert kit.claim() == []
    assert "The tool has changed since rule Production let this call run, as nobody decided." in card(mia, task)
    mia.post(f"/inbox/{Question.objects.get(state='open').pk}/decide", {"verdict": "approve"})
    kit.finish(kit.claim_one())
    assert "Nobody approved this call" not in page_of(mia, task), "somebody has approved what ran"


def test_what_was_allowed_is_asked_again_where_the_address_changes(sign_in: Login, tenant: Tenant) -> None:
    mia = sign_in(make_person(Role.APPROVER, tenant))
    task = asked(tenant, otherwise=Otherwise.ALLOW)
    overdue(task)
    sweep()
    Server.objects.update(target="elsewhere:server")
    assert kit.claim() == []
    said = card(mia, task)
    assert "server’s address has changed since rule Production let it run, as nobody decided. It has not run" in said


def test_what_was_allowed_says_so_when_it_has_run(sign_in: Login, tenant: Tenant) -> None:
    task = asked(tenant, otherwise=Otherwise.ALLOW)
    overdue(task)
    sweep()
    kit.finish(kit.claim_one())
    said = page_of(sign_in(make_person(Role.VIEWER, tenant)), task)
    assert "Nobody approved this call: the rule Production let it run, as nobody decided. The tool answered" in said


def test_a_reminder_is_seen_in_the_list_on_the_card_and_in_the_story(sign_in: Login, tenant: Tenant) -> None:
    mia, eva = (make_person(Role.APPROVER, tenant, groups=["ops"]) for _ in range(2))
    task = asked(tenant, group="ops", quorum=2, remind_minutes=20)
    question = Question.objects.get(task_id=task.id)
    sign_in(mia).post(f"/inbox/{question.pk}/decide", {"verdict": "approve"})
    assert "Reminded" not in card(sign_in(eva), task)
    kit.turn_back(task.id, "remind_at", 1, table="question")
    assert sweep() == 1
    client = sign_in(eva)
    assert "Reminded just now : 1 of group ops still has to approve it." in card(client, task)
    html = client.get("/inbox/").content.decode()
    assert "Reminded just now" in words(html[html.index('id="inbox-list"') : html.index('id="question-state"')])
    assert "Reminded just now" in page_of(client, task, "questions")
    assert "Reminded those who are asked by rule Production" in page_of(client, task, "timeline")
    client.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"})
    assert "still has to approve" not in card(client, task)


def test_an_escalated_approval_says_who_did_not_decide(sign_in: Login, tenant: Tenant) -> None:
    ben = sign_in(make_person(Role.APPROVER, tenant, groups=["ops"]))
    eva = sign_in(make_person(Role.APPROVER, tenant, groups=["leads"]))
    task = asked(tenant, group="ops", otherwise=Otherwise.ESCALATE, escalate_to="leads")
    first = Question.objects.get(task_id=task.id)
    a_day_left(task)
    assert "group leads is asked in 1 d if nobody decides" in card(ben, task)
    overdue(task)
    sweep()
    assert "Group ops did not decide in time, so the rule asked group leads." in card(eva, task)
    a_day_left(task)
    assert "denied in 1 d if nobody decides" in card(eva, task)
    closed = words(ben.get(f"/inbox/{first.pk}/").content.decode())
    assert "Nobody decided in time: the group leads was asked then" in closed
    assert "This question is for the group leads" in card(ben, task)
