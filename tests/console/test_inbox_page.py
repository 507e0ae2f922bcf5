"""The inbox: forms drawn from what tools ask, approvals, and races between people."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from taskhub.core.records import TaskRecord
from taskhub.core.states import Audience, QuestionKind, Role
from taskhub.domain.questions.inbox import question as one_question
from taskhub.domain.questions.inbox import questions
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Decision, Question, Server, Task
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_question, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}

INBOX_QUERIES = 9

EVERYTHING = {
    "type": "object",
    "properties": {
        "name": {
            "type": "string",
            "title": "Full name",
            "description": "As on the badge",
            "minLength": 2,
            "default": "Ada",
        },
        "email": {"type": "string", "format": "email", "title": "Email"},
        "site": {"type": "string", "format": "uri", "title": "Homepage"},
        "age": {"type": "integer", "minimum": 18, "maximum": 120, "title": "Age"},
        "score": {"type": "number", "minimum": 0, "maximum": 1, "title": "Score", "default": 0.5},
        "news": {"type": "boolean", "title": "Send me news", "default": True},
        "day": {"type": "string", "format": "date", "title": "Day"},
        "at": {"type": "string", "format": "date-time", "title": "Moment", "default": "2026-12-01T10:00:00Z"},
        "size": {"type": "string", "enum": ["s", "m", "l"], "title": "Size", "default": "m"},
        "colour": {
            "type": "string",
            "title": "Colour",
            "oneOf": [{"const": c, "title": c.title()} for c in ("red", "green", "blue", "cyan", "black", "white")],
        },
        "topics": {
            "type": "array",
            "title": "Topics",
            "minItems": 1,
            "maxItems": 2,
            "items": {"type": "string", "enum": ["ops", "dev", "art"]},
        },
        "csrfmiddlewaretoken": {"type": "string", "title": "Trick"},
        "note": {"type": "string", "title": "Note", "maxLength": 2000},
    },
    "required": ["name", "email", "age", "topics"],
}
NAMES = {name: f"f{n}" for n, name in enumerate(EVERYTHING["properties"])}


@pytest.fixture
def context(tenant: Any) -> Any:
    return make_context(tenant, "agent-a")


@pytest.fixture
def server(tenant: Any) -> Any:
    return make_server(tenant, "demo")


@pytest.fixture
def operator(tenant: Any, sign_in: Login) -> Any:
    return sign_in(make_person(Role.OPERATOR, tenant))


def asked(context: Any, server: Any, **question: Any) -> tuple[TaskRecord, Question]:
    task = make_task(context, make_tool(server), state="input_required", question=make_question(**question))
    return task, Question.objects.get(task_id=task.id)


def form_for(schema: dict[str, Any]) -> dict[str, Any]:
    return {"params": {"message": "Tell us", "requestedSchema": schema}}


def posted(**values: Any) -> dict[str, Any]:
    return {"action": "accept", **{NAMES[name]: value for name, value in values.items()}}


def test_every_field_type_is_drawn_with_its_help_and_default(operator: Any, context: Any, server: Any) -> None:
    _, question = asked(context, server, **form_for(EVERYTHING))
    page = operator.get(f"/inbox/{question.pk}/").content.decode()
    for piece in (
        'type="text" name="f0" value="Ada"',
        "As on the badge",
        'type="email" name="f1"',
        'type="url" name="f2"',
        'type="number" name="f3"',
        'min="18"',
        "From 18 to 120.",
        'value="0.5"',
        'type="date" name="f6"',
        'type="datetime-local" name="f7" value="2026-12-01T10:00:00"',
        'type="radio" name="f8" value="m"',
        '<option value="cyan">Cyan</option>',
        'type="checkbox" name="f10" value="ops"',
        "Choose 1 to 2.",
        '<textarea name="f12"',
    ):
        assert piece in page, piece
    assert page.count("(required)") == 4
    assert 'name="csrfmiddlewaretoken"' in page  # Django's own, not the tool's
    assert re.search(r">Trick\s*<", page)


def test_an_accepted_form_reaches_the_tool_with_json_types(operator: Any, context: Any, server: Any) -> None:
    task, question = asked(context, server, **form_for(EVERYTHING))
    response = operator.post(
        f"/inbox/{question.pk}/answer",
        posted(
            name="Ada",
            email="ada@example.com",
            site="",
            age="36",
            score="0.25",
            day="2026-11-21",
            at="2026-11-21T12:30",
            size="l",
            colour="cyan",
            topics=["ops", "art"],
            csrfmiddlewaretoken="x",
            note="two\r\nlines",
        ),
    )
    assert response["Location"] == "/inbox/"
    question.refresh_from_db()
    assert json.loads(question.response or "") == {
        "action": "accept",
        "content": {
            "name": "Ada",
            "email": "ada@example.com",
            "age": 36,
            "score": 0.25,
            "news": False,
            "day": "2026-11-21",
            "at": "2026-11-21T12:30:00Z",
            "size": "l",
            "colour": "cyan",
            "topics": ["ops", "art"],
            "csrfmiddlewaretoken": "x",
            "note": "two\nlines",
        },
    }
    assert Task.objects.get(pk=task.id).state == "queued"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": ""}, "Full name is required."),
        ({"name": "x"}, "Full name needs at least 2 characters."),
        ({"email": "nobody"}, "Email must be an email address."),
        ({"site": "not a url"}, "Homepage must be a URL."),
        ({"age": "12"}, "Age must be at least 18."),
        ({"age": "1.5"}, "Age must be a whole number."),
        ({"age": "many"}, "Age must be a number."),
        ({"score": "1e400"}, "Score must be a number."),
        ({"score": "2"}, "Score must be at most 1."),
        ({"day": "soon"}, "Day must be a date."),
        ({"at": "soon"}, "Moment must be a date and time."),
        ({"size": "xl"}, "Size must be one of the choices."),
        ({"colour": "mauve"}, "Colour must be one of the choices."),
        ({"topics": []}, "Topics needs at least 1 choice."),
        ({"topics": ["ops", "dev", "art"]}, "Topics takes at most 2 choices."),
        ({"topics": ["sport"]}, "Topics must be chosen from the list."),
        ({"note": "nul\0"}, "Null characters are not allowed."),
    ],
)
def test_errors_stand_beside_the_field_and_what_was_typed_is_kept(
    operator: Any, context: Any, server: Any, wrong: dict[str, Any], words: str
) -> None:
    _, question = asked(context, server, **form_for(EVERYTHING))
    good = {"name": "Grace", "email": "g@example.com", "age": "40", "topics": ["dev"], "note": "keep me"}
    response = operator.post(f"/inbox/{question.pk}/answer", posted(**{**good, **wrong}))
    assert response.status_code == 422
    page = response.content.decode()
    name = NAMES[next(iter(wrong))]
    error = page[page.index(f'id="id_{name}_error"') :]
    assert words in error[:600]
    assert 'aria-invalid="true"' in page
    if "note" not in wrong:
        assert "keep me" in page
    question.refresh_from_db()
    assert question.state == "open"


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_decline_and_dismiss_need_no_form(operator: Any, context: Any, server: Any, action: str) -> None:
    _, question = asked(context, server, **form_for(EVERYTHING))
    operator.post(f"/inbox/{question.pk}/answer", {"action": action})
    question.refresh_from_db()
    assert json.loads(question.response or "") == {"action": action}


@pytest.mark.parametrize("data", [{}, {"action": "explode"}, {"verdict": "approve"}])
def test_an_answer_without_a_known_button_is_refused(
    operator: Any, context: Any, server: Any, data: dict[str, str]
) -> None:
    _, question = asked(context, server)
    assert operator.post(f"/inbox/{question.pk}/answer", data).status_code == 400


@pytest.mark.parametrize(
    "schema", [{"properties": {"x": {"type": "object"}}}, {"properties": 5}, {"properties": {"x": 1}}, "text", None]
)
def test_a_form_that_cannot_be_drawn_can_be_declined(operator: Any, context: Any, server: Any, schema: Any) -> None:
    _, question = asked(context, server, params={"message": "m", "requestedSchema": schema})
    assert operator.get(f"/inbox/{question.pk}/").status_code == 200
    operator.post(f"/inbox/{question.pk}/answer", {"action": "decline"})
    question.refresh_from_db()
    assert question.state == "answered"


def url_question(context: Any, server: Any, url: str) -> Any:
    params = {"mode": "url", "message": "Sign in", "url": url, "elicitationId": "e"}
    return asked(context, server, params=params)[1]


def test_url_mode_shows_the_host_and_never_a_script(operator: Any, context: Any, server: Any) -> None:
    question = url_question(context, server, "https://auth.example.com:8443/x")
    page = operator.get(f"/inbox/{question.pk}/").content.decode()
    assert '<b class="mono host">auth.example.com:8443</b>' in page
    assert 'rel="noopener noreferrer nofollow"' in page
    operator.post(f"/inbox/{question.pk}/answer", {"action": "accept"})
    question.refresh_from_db()
    assert json.loads(question.response or "") == {"action": "accept"}
    evil = url_question(context, server, "javascript:alert(1)")
    assert 'href="javascript' not in operator.get(f"/inbox/{evil.pk}/").content.decode()


def test_url_mode_shows_where_a_look_alike_leads(operator: Any, context: Any, server: Any) -> None:
    question = url_question(context, server, "https://g\u0456thub.com/login")
    page = operator.get(f"/inbox/{question.pk}/").content.decode()
    assert '<b class="mono host">xn--gthub-n2e.com</b>' in page
    assert 'href="https://xn--gthub-n2e.com/login"' in page
    assert re.search(
        'written as <bdi><span class="odd">g\u0456thub</span><span .*>Latin . Cyrillic</span>.com</bdi>', page
    )
    assert "Open xn--gthub-n2e.com" in page


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://evil.example\\@github.com/", "it holds a backslash"),
        ("https://github.com@evil.example/", "it names a user before the host"),
        ("https://github.com\u202e.evil.example/", "it holds the invisible character U+202E"),
        ("javascript:alert(1)", "it is no http or https address"),
        ("", "it cannot be read as an address"),
    ],
)
def test_a_link_that_hides_where_it_leads_cannot_be_opened(
    operator: Any, context: Any, server: Any, url: str, why: str
) -> None:
    question = url_question(context, server, url)
    page = operator.get(f"/inbox/{question.pk}/").content.decode()
    assert f"The address cannot be opened from here: {why}" in page
    assert 'target="_blank"' not in page
    assert 'value="accept"' not in page
    assert operator.post(f"/inbox/{question.pk}/answer", {"action": "accept"}).status_code == 400
    assert operator.post(f"/inbox/{question.pk}/answer", {"action": "decline"}).status_code == 302


def test_sampling_shows_the_conversation_and_takes_a_reply(operator: Any, context: Any, server: Any) -> None:
    _, question = asked(context, server, kind=QuestionKind.SAMPLING)
    assert "Sum this up" in operator.get(f"/inbox/{question.pk}/").content.decode()
    empty = operator.post(f"/inbox/{question.pk}/answer", {"action": "accept", "text": ""})
    assert empty.status_code == 422
    assert "Write a reply." in empty.content.decode()
    operator.post(f"/inbox/{question.pk}/answer", {"action": "accept", "text": "Short."})
    question.refresh_from_db()
    reply = json.loads(question.response or "")
    assert reply["content"] == {"type": "text", "text": "Short."}
    assert (reply["role"], reply["model"]) == ("assistant", "human")


def test_roots_are_a_list_of_file_uris(operator: Any, context: Any, server: Any) -> None:
    _, question = asked(context, server, kind=QuestionKind.ROOTS)
    url = f"/inbox/{question.pk}/answer"
    assert operator.post(url, {"action": "accept", "roots": "/srv"}).status_code == 422
    operator.post(url, {"action": "accept", "roots": "file:///srv\r\n\r\nfile:///home"})
    question.refresh_from_db()
    assert json.loads(question.response or "") == {"roots": [{"uri": "file:///srv"}, {"uri": "file:///home"}]}


def test_an_approval_shows_the_call_the_rule_and_who_asks(
    context: Any, server: Any, tenant: Any, sign_in: Login
) -> None:
    tool = make_tool(server, "deploy", asks={"when": {"env": "prod"}, "quorum": 2})
    make_task(context, tool, arguments={"env": "prod", "service": "api"})
    page = sign_in(make_person(Role.APPROVER, tenant)).get("/inbox/").content.decode()
    assert "agent-a called" in page
    assert "on demo" in page
    assert re.search(r"Asked by the rule\s+<b>(<bdi>)?demo/deploy", page)
    assert "needs 2 approvals" in page
    assert ">service</dt>" in page
    assert "<b>0 of 2</b>" in page


def test_an_approval_says_when_the_tool_will_run(context: Any, server: Any, tenant: Any, sign_in: Login) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    tool = make_tool(server, "deploy", asks={})
    first, second = (make_task(context, tool) for _ in range(2))
    mia = sign_in(make_person(Role.APPROVER, tenant))
    page = mia.get("/inbox/").content.decode()
    assert "does not run yet" not in page
    url = "/inbox/{}/decide"
    of = {task.id: Question.objects.get(task_id=task.id).pk for task in (first, second)}
    page = mia.post(url.format(of[first.id]), {"verdict": "approve"}, follow=True).content.decode()
    assert "Approved. The tool runs now." in page
    Server.objects.filter(pk=server.pk).update(enabled=False)
    paused = "Paused: server demo is disabled."
    assert f"If approved now, the call does not run yet. {paused}" in mia.get("/inbox/").content.decode()
    page = mia.post(url.format(of[second.id]), {"verdict": "approve"}, follow=True).content.decode()
    assert f"Approved. {paused}" in page


def test_the_quorum_counts_people_and_the_last_one_starts_the_tool(
    context: Any, server: Any, tenant: Any, sign_in: Login
) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    task = make_task(context, make_tool(server, "deploy", asks={"quorum": 2}))
    question = Question.objects.get(task_id=task.id)
    first, second = (sign_in(make_person(Role.APPROVER, tenant)) for _ in range(2))
    page = first.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}, follow=True).content.decode()
    assert "Approved: 1 of 2." in page
    again = first.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}, follow=True).content.decode()
    assert "You have already decided this." in again
    assert Task.objects.get(pk=task.id).state == "input_required"
    page = second.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}, follow=True).content.decode()
    assert "Approved. The tool runs now." in page
    assert Task.objects.get(pk=task.id).state == "queued"
    assert Decision.objects.filter(question=question).count() == 2


def test_a_rejection_needs_a_reason_and_the_caller_reads_it(
    context: Any, server: Any, tenant: Any, sign_in: Login
) -> None:
    task = make_task(context, make_tool(server, "deploy", asks={}))
    question = Question.objects.get(task_id=task.id)
    approver = sign_in(make_person(Role.APPROVER, tenant, username="mia"))
    for nothing in ("", "\u200b"):
        response = approver.post(f"/inbox/{question.pk}/decide", {"verdict": "reject", "reason": nothing})
        assert response.status_code == 422
        assert "Enter a reason; the caller will see it." in response.content.decode()
    approver.post(f"/inbox/{question.pk}/decide", {"verdict": "reject", "reason": "Not on Friday"})
    stored = Task.objects.get(pk=task.id)
    assert stored.state == "finished"
    assert stored.is_error
    assert "mia: Not on Friday" in (stored.result or "")


def test_the_loser_of_a_race_reads_who_was_first(context: Any, server: Any, tenant: Any, sign_in: Login) -> None:
    _, question = asked(context, server)
    mia = sign_in(make_person(Role.OPERATOR, tenant, username="mia"))
    ben = sign_in(make_person(Role.OPERATOR, tenant, username="ben"))
    mia.post(f"/inbox/{question.pk}/answer", {"action": "decline"})
    late = ben.post(f"/inbox/{question.pk}/answer", {"action": "accept", "f0": "Ben"}, follow=True)
    assert late.status_code == 200
    assert "Already declined by mia." in late.content.decode()
    page = ben.get(f"/inbox/{question.pk}/").content.decode()
    assert "Already declined by mia" in page
    assert 'name="action"' not in page


def test_a_question_of_a_cancelled_task_says_so(operator: Any, context: Any, server: Any) -> None:
    task, question = asked(context, server)
    operator.post(f"/tasks/{task.public_id}/cancel")
    page = operator.post(f"/inbox/{question.pk}/answer", {"action": "decline"}, follow=True).content.decode()
    assert "Closed without an answer: the task is cancelled." in page


@pytest.mark.parametrize(
    ("role", "groups", "question", "mine"),
    [
        (Role.OPERATOR, [], {}, True),
        (Role.OPERATOR, [], {"audience": Audience.EITHER}, True),
        (Role.OPERATOR, [], {"audience": Audience.CLIENT}, False),
        (Role.OPERATOR, [], {"group": "ops"}, False),
        (Role.OPERATOR, ["ops"], {"group": "ops"}, True),
        (Role.ADMIN, [], {"group": "ops"}, False),
        (Role.OPERATOR, [], {"kind": QuestionKind.APPROVAL}, False),
        (Role.APPROVER, [], {"kind": QuestionKind.APPROVAL}, True),
        (Role.APPROVER, ["dev"], {"kind": QuestionKind.APPROVAL, "group": "ops"}, False),
        (Role.APPROVER, ["dev", "ops"], {"kind": QuestionKind.APPROVAL, "group": "ops"}, True),
    ],
)
def test_only_those_asked_may_answer(
    context: Any,
    server: Any,
    tenant: Any,
    sign_in: Login,
    role: Role,
    groups: list[str],
    question: dict[str, Any],
    mine: bool,
) -> None:
    _, row = asked(context, server, **question)
    client = sign_in(make_person(role, tenant, groups=groups))
    assert (f"/inbox/{row.pk}/" in client.get("/inbox/").content.decode()) is mine
    count = client.get("/inbox/count").content.decode()
    assert (">1<" in count) is mine
    assert f"/inbox/{row.pk}/" in client.get("/inbox/?queue=all").content.decode()
    approval = row.kind == "approval"
    url = f"/inbox/{row.pk}/{'decide' if approval else 'answer'}"
    response = client.post(url, {"verdict": "approve"} if approval else {"action": "decline"})
    assert response.status_code == (302 if mine else 403)
    row.refresh_from_db()
    assert (row.state == "answered") is mine


def test_the_wrong_door_for_a_kind_is_refused(context: Any, server: Any, tenant: Any, sign_in: Login) -> None:
    client = sign_in(make_person(Role.ADMIN, tenant))
    _, form = asked(context, server)
    _, approval = asked(context, server, kind=QuestionKind.APPROVAL)
    assert client.post(f"/inbox/{form.pk}/decide", {"verdict": "approve"}).status_code == 400
    assert client.post(f"/inbox/{approval.pk}/answer", {"action": "accept"}).status_code == 400


def test_htmx_answers_in_place_and_shows_the_next_question(operator: Any, context: Any, server: Any) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    _, first = asked(context, server)
    _, second = asked(context, server)
    response = operator.post(f"/inbox/{first.pk}/answer", {"action": "decline"}, headers=HTMX)
    page = response.content.decode()
    assert response["HX-Push-Url"] == f"/inbox/{second.pk}/"
    assert page.strip().startswith('<div id="inbox"')
    assert "Declined. The tool has been told." in page
    assert f"/inbox/{second.pk}/answer" in page
    assert f"/inbox/{first.pk}/answer" not in page


@pytest.mark.parametrize("queue", ["", "?queue=all"])
def test_after_a_decision_comes_the_next_of_the_same_queue_and_what_was_decided_is_linked(
    operator: Any, context: Any, server: Any, queue: str
) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    for_clients = asked(context, server, audience=Audience.CLIENT) if queue else None
    oldest, decided, following = (asked(context, server) for _ in range(3))
    page = operator.get(f"/inbox/{decided[1].pk}/{queue}").content.decode()
    target = f"/inbox/{decided[1].pk}/answer{queue}"
    assert f'action="{target}"' in page
    response = operator.post(target, {"action": "decline"}, follow=True)
    assert response.redirect_chain == [(f"/inbox/{following[1].pk}/{queue}", 302)]
    said = response.content.decode()
    assert f"{decided[0].tool_name} (hello) for agent-a: Declined. The tool has been told." in said
    assert f'href="/tasks/{decided[0].public_id}/">See its task' in said
    # Nothing is after the last one: the first.
    first = for_clients or oldest
    response = operator.post(f"/inbox/{following[1].pk}/answer{queue}", {"action": "decline"}, headers=HTMX)
    assert response["HX-Push-Url"] == f"/inbox/{first[1].pk}/{queue}"
    assert response.context["chosen"].id == first[1].pk
    response = operator.post(f"/inbox/{oldest[1].pk}/answer{queue}", {"action": "decline"})
    assert response["Location"] == (f"/inbox/{for_clients[1].pk}/{queue}" if for_clients else "/inbox/")


def test_the_decided_queue_tells_who_decided(operator: Any, context: Any, server: Any) -> None:
    _, question = asked(context, server)
    operator.post(f"/inbox/{question.pk}/answer", {"action": "decline"})
    page = operator.get("/inbox/?queue=decided").content.decode()
    assert f"/inbox/{question.pk}/" in page
    assert "declined" in page


def test_a_hint_refreshes_the_list_and_the_state_but_never_the_form(operator: Any, context: Any, server: Any) -> None:
    _, question = asked(context, server)
    part = operator.get("/inbox/", headers={**HTMX, "HX-Target": "inbox-list"}).content.decode()
    assert part.strip().startswith('<div id="inbox-list"')
    assert "<form" not in part
    state = operator.get(f"/inbox/{question.pk}/state", headers=HTMX).content.decode()
    assert state.strip().startswith('<div id="question-state"')
    assert "<form" not in state


@pytest.mark.parametrize("rows", [1, 30])
def test_the_inbox_costs_the_same_at_1_and_30_questions(
    operator: Any, context: Any, server: Any, rows: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(rows):
        asked(context, server)
    with django_assert_num_queries(INBOX_QUERIES):
        operator.get("/inbox/")


def deploys(context: Any, server: Any, **asks: Any) -> list[tuple[TaskRecord, Question]]:
    """Two calls of one tool; the second goes to another place, by a name that hides something."""
    tool = make_tool(server, "deploy", asks={"when": {"environment": "production"}, **asks})
    calls: list[dict[str, Any]] = [
        {"version": "2.1.6", "service": "billing", "api_key": "hunter2", "note": "x" * 9_000},
        {"version": "3", "service": "<b>web\u202e", "at": "https://ada:hunter2@host/"},
    ]
    made = [make_task(context, tool, arguments={**call, "environment": "production"}) for call in calls]
    return [(task, Question.objects.get(task_id=task.id)) for task in made]


def test_two_calls_of_one_tool_are_told_apart_wherever_they_stand(
    context: Any, server: Any, tenant: Any, sign_in: Login
) -> None:
    (task, question), (_, hidden) = deploys(context, server, quorum=2)
    mia = sign_in(make_person(Role.APPROVER, tenant))
    for url in ("/inbox/", "/inbox/?queue=all", "/"):
        page = " ".join(mia.get(url).content.decode().split())
        row = page[page.index('<b>deploy</b> <span class="mono"><bdi>production · 2.1.6 · billing') :]
        assert re.search(r"agent-a · demo ·.*?0 of 2 approvals · expires <time", row[:1_500])
        assert '· &lt;b&gt;web<span class="sign"' in page
        assert "https://•••@host/" in page
        if url == "/":
            assert "hunter2" not in page
    page = mia.get(f"/tasks/{task.public_id}/?view=wire").content.decode()
    head = " ".join(page[: page.index('id="task"')].split())
    assert "<title> deploy production · 2.1.6 · billing · xxx" in head
    assert 'deploy <span class="mono called"><bdi>production · 2.1.6 · billing · xxx' in head
    head = mia.get(f"/inbox/{hidden.pk}/").content.decode()
    assert re.search(r"<title>\s*deploy production · version &quot;3&quot; · .*web\[U\+202E\]", head)
    said = mia.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}, headers=HTMX).content.decode()
    assert "deploy (production · 2.1.6 · billing · xxx" in said
    assert re.search(r"<title>deploy production · .*web\[U\+202E\].* · Inbox · TaskHub</title>", said)


def test_a_row_of_the_inbox_reads_the_beginning_of_the_arguments_only(
    context: Any, server: Any, tenant: Any, sign_in: Login
) -> None:
    tool = make_tool(server, "deploy", asks={"when": {"environment": "production"}})
    make_task(context, tool, arguments={"blob": "x" * 500_000, "environment": "production"})
    person = make_person(Role.APPROVER, tenant)
    (item,) = questions(person, "mine")
    assert len(str(item.arguments)) < 5_000
    assert item.called.startswith("production · xxx")
    whole = one_question(person, item.id)
    assert whole is not None
    assert len(whole.arguments["blob"]) == 500_000
    assert whole.called == item.called
