"""The preview of a rule that asks: in its form, in the list, on the card, and before a decision counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from taskhub.console.changes import LINES, Line, line_changes
from taskhub.core.records import TaskRecord
from taskhub.core.rules import Preview, Rule, Then, Verdict
from taskhub.core.states import QuestionState, Role
from taskhub.domain.questions.previews import Answer, answer_of, failed, shown_preview
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks import previews
from taskhub.store.models import Decision, Question, Tenant
from tests.console.admin import ADMIN, HTMX, words
from tests.console.conftest import Login
from tests.domain import kit
from tests.factories import WORKER, make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db
FORM = {"expected": "0", "name": "Production", "then": "ask", "when": "", "quorum": "1", "enabled": "on"}
EVIL = "</pre><script>alert(1)</script>\u202e"


def asked(tenant: Tenant, preview: Preview | None, **says: Any) -> TaskRecord:
    """A call that a rule with this preview asks about."""
    rule = Rule(name="Production", when="", then=Then.ASK, preview=preview, **says)
    server = make_server(tenant, "ops")
    tool = make_tool(server, "deploy")
    make_tool(server, "plan", read_only=True)
    saved = save_rules(tenant.pk, [rule], expected=0, actor=ADMIN)
    verdict = Verdict(Then.ASK, rule, saved.version)
    return make_task(make_context(tenant, "Editor"), tool, arguments={"env": "prod"}, verdict=verdict)


def text(says: str, **more: Any) -> Answer:
    return answer_of({"content": [{"type": "text", "text": says}], **more})


def end(answer: Answer) -> None:
    """A worker runs the preview that is due."""
    (call,) = previews.take_previews("worker-1", most=5)
    previews.end_preview(call, answer, actor=WORKER)


def latest(task: TaskRecord) -> Question:
    return Question.objects.filter(task_id=task.id).latest("id")


def card(client: Client, task: TaskRecord) -> str:
    html = client.get(f"/inbox/{latest(task).pk}/").content.decode()
    return html[html.index('<article class="card decision"') : html.index("</article>")]


def decide(client: Client, task: TaskRecord, **posted: str) -> Any:
    return client.post(f"/inbox/{latest(task).pk}/decide", {"verdict": "approve", **posted})


def digest(task: TaskRecord) -> str:
    found = shown_preview(latest(task).pk)
    assert found is not None
    return found.digest


@pytest.mark.parametrize(
    ("typed", "preview", "listed"),
    [
        ({"preview": "plan"}, Preview(tool="plan"), "preview: plan"),
        (
            {"preview_arguments": '{"dry_run": true}'},
            Preview(arguments='{"dry_run":true}'),
            "preview: {&quot;dry_run&quot;:true}",
        ),
    ],
)
def test_the_form_takes_a_preview_and_shows_it(
    admin: Client, tenant: Tenant, typed: dict[str, str], preview: Preview, listed: str
) -> None:
    assert admin.post("/rules/add", {**FORM, **typed}).status_code == 302
    (rule,) = present(tenant.pk).rules
    assert rule == Rule(name="Production", when="", then=Then.ASK, preview=preview)
    html = admin.get("/rules/edit?rule=Production").content.decode()
    assert (preview.tool or "dry_run&quot;:true") in html
    assert listed in words(admin.get("/rules/").content.decode())


def test_only_a_rule_that_asks_has_a_preview(admin: Client, tenant: Tenant) -> None:
    assert admin.post("/rules/add", {**FORM, "then": "deny", "preview": "plan"}).status_code == 302
    assert present(tenant.pk).rules[0].preview is None


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({"preview": "plan", "preview_arguments": "{}"}, "preview_arguments", "A preview is"),
        ({"preview": "plan", "preview_arguments": '{"a": 1}'}, "preview", "one of the two"),
        ({"preview": "p" * 129}, "preview", "at most 128 printable characters"),
        ({"preview_arguments": "dry_run"}, "preview_arguments", "That is no JSON"),
        ({"preview_arguments": "[1]"}, "preview_arguments", "A preview is"),
        ({"preview_arguments": json.dumps({"a": "x" * 3_995})}, "preview", "at most 4,000 bytes"),
    ],
)
def test_what_is_no_preview_is_refused_beside_its_field(
    admin: Client, tenant: Tenant, typed: dict[str, str], field: str, said: str
) -> None:
    answer = admin.post("/rules/add", {**FORM, **typed})
    html = answer.content.decode()
    assert answer.status_code == 400
    assert said in words(html[html.index(f'id="id_{field}_error"') :])[:300]
    assert present(tenant.pk).version == 0


def test_while_it_runs_nobody_can_approve(sign_in: Login, tenant: Tenant) -> None:
    mia = sign_in(make_person(Role.APPROVER, tenant))
    task = asked(tenant, Preview(tool="plan"))
    said = card(mia, task)
    assert "The preview is running: nobody can approve before it is here." in words(said)
    assert 'value="approve"' not in said
    assert 'value="reject"' in said
    answer = decide(mia, task, preview="")
    assert answer.status_code == 422
    assert "The preview is still running: wait until it is here, then decide." in words(answer.content.decode())
    assert Decision.objects.count() == 0
    rejected = mia.post(f"/inbox/{latest(task).pk}/decide", {"verdict": "reject", "reason": "No."})
    assert rejected.status_code in (200, 302)
    assert latest(task).state == QuestionState.ANSWERED


def test_what_it_shows_is_approved_by_whoever_saw_it(sign_in: Login, tenant: Tenant) -> None:
    mia = sign_in(make_person(Role.APPROVER, tenant))
    task = asked(tenant, Preview(tool="plan"))
    end(text(EVIL))
    said = card(mia, task)
    assert "<script>alert" not in said
    assert "&lt;/pre&gt;&lt;script&gt;" in said
    assert "\u202e" not in said
    assert "What plan says" in words(said)
    # Sent from a page that was loaded before it had ended.
    answer = decide(mia, task, preview="")
    assert answer.status_code == 422
    assert "The preview was not here yet when you decided" in words(answer.content.decode())
    assert decide(mia, task, preview=digest(task)).status_code in (200, 302)
    assert bytes(Decision.objects.get().preview_digest or b"").hex() == digest(task)


def test_the_state_of_the_question_brings_the_button(sign_in: Login, tenant: Tenant) -> None:
    mia, viewer = (sign_in(make_person(role, tenant)) for role in (Role.APPROVER, Role.OPERATOR))
    task = asked(tenant, Preview(tool="plan"))
    address = f"/inbox/{latest(task).pk}/state"
    assert 'value="approve"' not in mia.get(address).content.decode()
    end(text("1 pod"))
    brought = mia.get(address).content.decode()
    assert brought.count('hx-swap-oob="true"') == 1
    assert f'name="preview" value="{digest(task)}"' in brought
    assert 'value="approve"' in brought
    assert "hx-swap-oob" not in viewer.get(address).content.decode()
    assert "hx-swap-oob" not in card(mia, task)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (failed("no \u202e luck"), "The preview failed: no"),
        (text("none", isError=True), "The preview reported an error. none"),
        (text(""), "It answered nothing."),
        (text("x" * 65_540), "4 further characters were not kept. They are compared all the same."),
    ],
)
def test_what_else_may_come_of_it(sign_in: Login, tenant: Tenant, answer: Answer, said: str) -> None:
    mia = sign_in(make_person(Role.APPROVER, tenant))
    task = asked(tenant, Preview(tool="plan"))
    end(answer)
    shown = card(mia, task)
    assert said in words(shown)
    assert 'value="approve"' in shown
    assert "\u202e" not in shown


def test_a_try_that_came_to_nothing_is_told(sign_in: Login, tenant: Tenant) -> None:
    task = asked(tenant, Preview(tool="plan"))
    (call,) = previews.take_previews("worker-1", most=5)
    previews.put_off(call, "Server ops cannot be reached")
    said = words(card(sign_in(make_person(Role.APPROVER, tenant)), task))
    assert "It could not be run yet: Server ops cannot be reached. It is tried again." in said


def test_what_differs_at_the_claim_stands_on_top(sign_in: Login, tenant: Tenant) -> None:
    mia = sign_in(make_person(Role.APPROVER, tenant))
    task = asked(tenant, Preview(tool="plan"))
    end(text("pods:\n1 pod\ndone"))
    decide(mia, task, preview=digest(task))
    taken = kit.claim_one()
    assert taken.previewed
    call = previews.approved_preview(task.id)
    assert call is not None
    now = text(f"pods:\n9 pods {EVIL}\ndone")
    assert previews.compare_preview(call, taken, now, actor=WORKER) is previews.Compared.CHANGED
    said = card(mia, task)
    assert said.index("shows something else than when this call was approved") < said.index("It will run with")
    assert "<script>alert" not in said
    assert "Approved: 1 pod Now: 9 pods" in words(said)
    assert decide(mia, task, preview=digest(task)).status_code in (200, 302)
    assert previews.approved_preview(task.id) is not None
    listed = words(mia.get(f"/tasks/{task.public_id}/?view=questions").content.decode())
    assert "approved" in listed


def test_a_call_without_one_has_none(sign_in: Login, tenant: Tenant) -> None:
    task = asked(tenant, None)
    said = card(sign_in(make_person(Role.APPROVER, tenant)), task)
    assert "review" not in words(said)
    assert 'name="preview"' not in said
    decide(sign_in(make_person(Role.APPROVER, tenant)), task)
    assert not kit.claim_one().previewed


def test_what_comes_while_somebody_edits_brings_no_button_to_approve(sign_in: Login, tenant: Tenant) -> None:
    client = sign_in(make_person(Role.APPROVER, tenant))
    question = Question.objects.get(task_id=asked(tenant, Preview(tool="plan"), editable=("*",)).id).pk
    state = f"/inbox/{question}/state"
    for page, path in ((f"/inbox/{question}/", state), (f"/inbox/{question}/edit", f"{state}?form=edit")):
        assert f'hx-get="{path}"' in client.get(page).content.decode()
        came = client.get(path, headers=HTMX).content.decode()
        assert f'hx-get="{path}"' in came
        assert ('id="approve"' in came) is (path == state)


def test_lines_that_differ() -> None:
    found = line_changes("\n".join("abcdefgh"), "\n".join("abcdexgh"))
    assert found.lines == (
        Line("left out", ""),
        Line("same", "d"),
        Line("same", "e"),
        Line("removed", "f"),
        Line("added", "x"),
        Line("same", "g"),
        Line("same", "h"),
    )
    assert not found.cut
    far = line_changes("a\n" * LINES, "a\n" * LINES + "b")
    assert (far.lines, far.cut) == ((), True)
    assert line_changes("", "x" * 600).lines[-1].text == f"{'x' * 500}…"


def test_what_people_would_read_the_same_has_the_same_digest() -> None:
    pretty = {"content": [{"type": "text", "text": '{"b": 1, "a": 2}'}], "structuredContent": {"a": 2, "b": 1}}
    plain = {"content": [], "structuredContent": {"b": 1, "a": 2}, "_meta": {"took": 3}}
    assert answer_of(pretty) == answer_of(plain)
    assert (answer_of(plain).text or "").splitlines() == ["{", '  "a": 2,', '  "b": 1', "}"]
    image = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    one, other = (answer_of({"content": [image | {"data": data}]}) for data in ("AAAA", "AAAB"))
    assert one.digest != other.digest
    assert "4 characters, SHA-256" in (one.text or "")
    assert "AAAA" not in (one.text or "")
    assert text("a", structuredContent={"result": "a"}) == text("a")
    assert text("a", structuredContent={"result": "b"}).text == 'a\n\n{\n  "result": "b"\n}'
    assert text("a").digest != text("a", isError=True).digest
    assert failed("a").digest == failed("b").digest
    assert answer_of({"content": "x"}).text == ""
    assert "\x00" not in (text("a\0\ud800").text or "")
