"""Text of strangers on every page: nothing in it is invisible, nothing turns its neighbours around."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from taskhub.console.content import rows
from taskhub.console.foreign import foreign, foreign_lines, foreign_part, spelled
from taskhub.core.states import QuestionKind
from taskhub.lib.signs import invisible
from taskhub.store.models import AuthContext, Event, Offer, Question, Server, TaskLog, Tenant, Tool, Worker
from tests.factories import make_context, make_event, make_question, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db

RLO, ZWSP = "\u202e", "\u200b"
EVIL = f"pay{RLO}fdp{ZWSP}.exe\u2066"
LINES = f"first\n{EVIL}\nlast"


def test_marks_stand_where_the_characters_stand() -> None:
    shown = foreign(f"a<b{RLO}c")
    assert re.fullmatch(r"<bdi>a&lt;b<span class=\"sign\" [^>]*>U\+202E</span>c</bdi>", shown)
    assert 'aria-label="U+202E right-to-left override"' in shown
    assert 'aria-label="U+200B zero width space, 3 times"' in foreign(ZWSP * 3)
    assert ">↵×60</span>" in foreign("a" + "\n" * 60 + "b")
    assert foreign_lines("a\nb") == "a\nb"
    assert foreign("plain <b>") == "plain &lt;b&gt;"
    assert (foreign(None), foreign(0)) == ("", "0")
    assert spelled(f"a{RLO}b\nc") == "a[U+202E]b↵c"


def bare(html: str) -> str:
    """The HTML without attributes that say what a mark is, and marks as `{…}`."""
    html = re.sub(r'<span class="sign" [^>]*>(.*?)</span>', r"{\1}", html)
    return re.sub(r'<span class="(\w+)">', r"<\1>", html).replace("</span>", "</>")


def test_text_from_right_to_left_stays_where_it_is_stored() -> None:
    for text, html in {
        "שלום": '<bdi dir="rtl">שלום</bdi>',
        "pay אבג 100 to b": '<bdi dir="ltr">pay <bdi dir="rtl">אבג</bdi> 100 to b</bdi>',
        "אבג 1 - 2 x דהו": '{←}<bdi dir="rtl">אבג <bdi dir="ltr">1 - 2 x</bdi> דהו</bdi>',
        "(א": '<bdi dir="rtl">(א</bdi>',
        "1 א\u05b8 2": '{←}<bdi dir="rtl"><bdi dir="ltr">1</bdi> א\u05b8 <bdi dir="ltr">2</bdi></bdi>',
    }.items():
        assert bare(foreign(text)) == html
    assert bare(foreign_lines("a\nא b\n\n\n\n\n\nc")) == ('a\n{←}<bdi dir="rtl">א <bdi dir="ltr">b</bdi></bdi>{↵×5}\nc')


def test_what_is_taken_for_something_else_has_a_mark() -> None:
    for text, html in {
        "pаypal now": "<bdi><odd>pаypal</>{Latin + Cyrillic} now</bdi>",
        "рау now": "<bdi><odd>рау</>{Cyrillic} now</bdi>",
        "Привет, рау": "<bdi>Привет, рау</bdi>",
        "𝐚𝐝𝐦𝐢𝐧": "<bdi><odd>𝐚𝐝𝐦𝐢𝐧</>{Mathematical}</bdi>",
        "a\U000e0041\U000e0042b": "<bdi>a{tags: AB}b</bdi>",
        "e" + "\u0301" * 9: "<bdi>é\u0301\u0301\u0301{5 marks}</bdi>".replace("é", "e\u0301"),
        " a  b     c ": "{␣}a<blanks>  </>b{␣×5}c{␣}",
        "   ": "{␣×3}",
    }.items():
        assert bare(foreign(text)) == html, ascii(text)
    assert foreign_part(" by ") == " by "
    assert 'aria-label="the word before mixes Latin and Cyrillic: а U+0430"' in foreign("pаypal")


def test_of_a_long_text_the_rest_is_counted() -> None:
    assert foreign("x" * 12, 10) == "x" * 12
    assert bare(foreign("word " * 300, 100)).endswith("{␣} <faint>… 1,400 more</>")
    assert spelled("word " * 300, 99).endswith("word… 1,401 more")


def test_a_page_shows_so_much_of_a_text_and_says_that_there_is_more() -> None:
    assert foreign("a\r\n" * 10).count("not shown") == 0
    assert foreign("x" * 200_003).endswith("3 more characters are not shown</span>")
    marks = foreign_lines(f"{ZWSP}\u200c" * 150_000)
    assert "299,000 more characters are not shown" in marks
    assert len(marks) < 500_000


def test_a_text_is_not_taken_for_the_value_that_it_spells() -> None:
    texts = {"a": "false", "b": "100", "c": "null", "d": "[]", "e": '{\n  "x": 1\n}', "f": " -1e3 "}
    values = {"a": False, "b": 100, "c": None, "d": [], "e": {"x": 1}, "f": -1e3}
    assert [row.like_another for row in rows(texts)] == [True] * 6
    assert [row.like_another for row in rows(values)] == [False] * 6
    assert not any(row.like_another for row in rows({"version": "1.4.2", "word": "nullable", "empty": ""}))


def test_arguments_say_what_their_schema_does_not_know_and_what_is_its_default() -> None:
    properties = {"to": {"type": "string"}, "dry": {"default": False}, "of": {"default": [1, 2]}, "so": True}
    schema = {"type": "object", "properties": properties}
    found = {row.name: (row.unknown, row.default) for row in rows({"to": "x", "dry": False, "force": 1}, schema)}
    assert found == {"to": (False, ""), "dry": (False, "same"), "force": (True, ""), "of": (False, "left")}
    assert rows({"of": [1, 3]}, schema)[0].default == ""
    patterns = {**schema, "patternProperties": {"^x-": {}}}
    for other in (None, {"properties": 5}, patterns):
        told = [row.unknown for row in rows({"force": 1}, other) if row.name == "force"]
        assert told == [other == {"properties": 5}], other
    assert [row.name for row in rows([1])] == [None]


def test_the_length_of_an_argument_is_told_where_it_is_not_seen() -> None:
    sizes = [row.extent for row in rows({"a": "x" * 200, "b": "x" * 1_201, "c": "x\ny\n"})]
    assert sizes == ["", "1,201 characters", "3 lines, 4 characters"]


@pytest.mark.parametrize("text", ["[" * 5_000, '{"a": "\\ud800"}'])
def test_a_result_that_is_odd_json_is_still_shown(tenant: Tenant, admin: Client, text: str) -> None:
    result = {"content": [{"type": "text", "text": text}]}
    task = make_task(make_context(tenant), state="finished", arguments={"text": text}, result=result)
    assert admin.get(f"/tasks/{task.public_id}/").status_code == 200


def test_an_id_that_nobody_gave_is_unknown(admin: Client) -> None:
    assert admin.get("/tasks/%00/").status_code == 404


def furnish(tenant: Tenant) -> dict[str, Any]:
    """Everything that a client, a tool or a server can say, said with `EVIL`."""
    server = make_server(tenant)
    Server.objects.filter(pk=server.pk).update(
        problem=EVIL, state="unreachable", info={"name": EVIL, "version": EVIL, "title": EVIL}, protocol="2025-11-25"
    )
    schema = {"type": "object", "properties": {EVIL: {"type": "string", "description": EVIL, "enum": [EVIL]}}}
    tool = make_tool(server, EVIL)
    Tool.objects.filter(pk=tool.id).update(
        definition={
            "name": EVIL,
            "title": EVIL,
            "description": LINES,
            "inputSchema": schema,
            "annotations": {EVIL: EVIL},
        }
    )
    Tool.objects.create(
        server=server, name=f"{EVIL}2", exposed_name=f"{EVIL}2", definition={}, digest="0" * 64, rejected=EVIL
    )
    Offer.objects.create(
        server=server,
        kind="prompt",
        key=EVIL,
        exposed_name=EVIL,
        definition={"name": EVIL, "description": EVIL},
        digest="0" * 64,
    )
    context = make_context(tenant, EVIL)
    AuthContext.objects.filter(pk=context.pk).update(
        client_info={"name": EVIL, "version": EVIL}, client_capabilities={}, last_seen_at="2026-01-01T00:00Z"
    )
    result = {
        "content": [
            {"type": "text", "text": LINES},
            {"type": "text", "text": json.dumps({"a": EVIL})},
            {"type": "resource_link", "uri": f"https://a.example/{EVIL}", "title": EVIL, "description": EVIL},
            {"type": "resource_link", "uri": "https://g\u0456thub.com/x", "name": "look-alike"},
            {"type": "resource", "resource": {"uri": EVIL, "text": EVIL}},
            {"type": "image", "data": "AAAA", "mimeType": EVIL},
            {"type": EVIL},
        ],
        "structuredContent": {EVIL: [EVIL]},
    }
    arguments = {EVIL: EVIL, "lines": LINES, "deep": {"x": [EVIL]}, "number": 1}
    made: dict[str, Any] = {
        "done": make_task(context, tool, state="finished", arguments=arguments, result=result),
        "failed": make_task(
            context,
            tool,
            state="finished-error",
            result={"content": [{"type": "text", "text": EVIL}], "isError": True},
        ),
    }
    form = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "title": EVIL, "description": EVIL, "default": EVIL},
            "b": {"type": "string", "oneOf": [{"const": "x", "title": EVIL}]},
            "c": {"type": "string", "enum": list("123456"), "enumNames": [EVIL] * 6},
            "d": {"type": "array", "items": {"enum": ["x"], "enumNames": [EVIL]}},
            "e": {"type": "boolean", "title": EVIL},
        },
        "required": ["a"],
    }
    asks = {
        "form": make_question(params={"message": LINES, "requestedSchema": form}, key=EVIL[:40]),
        "url": make_question(params={"mode": "url", "message": EVIL, "url": f"https://a.example/{EVIL}"}),
        "sampling": make_question(
            QuestionKind.SAMPLING,
            params={"systemPrompt": EVIL, "messages": [{"role": EVIL, "content": {"type": "text", "text": LINES}}]},
        ),
        "approval": make_question(QuestionKind.APPROVAL, params={"tool": EVIL, "server": EVIL, "rule": {EVIL: EVIL}}),
        "broken": make_question(params={"message": EVIL, "requestedSchema": {"properties": {EVIL: {"type": EVIL}}}}),
    }
    for name, question in asks.items():
        made[name] = make_task(context, tool, state="input_required", arguments=arguments, question=question)
    TaskLog.objects.create(task_id=made["done"].id, level="info", text=LINES)
    make_event(tenant, actor=EVIL, target=EVIL, reason=EVIL, before={EVIL: EVIL}, after={EVIL: EVIL})
    Worker.objects.create(name=EVIL, host=EVIL, pid=1, version="1", slots=1)
    return {**made, "server": server.pk, "tool": tool.id, "context": context.pk}


def without_options(html: str) -> str:
    """The page without what a select sends back: that is the stored text, and nobody reads it there."""
    return re.sub(r'<option value="[^"]*"', "<option", html)


def test_no_page_prints_what_nobody_sees(tenant: Tenant, admin: Client) -> None:
    made = furnish(tenant)
    pages = ["/", "/tasks/", "/inbox/", "/inbox/?queue=all", "/clients/", f"/clients/{made['context']}/", "/servers/"]
    pages += [f"/servers/{made['server']}/", f"/servers/{made['server']}/?tool={made['tool']}", "/workers/", "/audit/"]
    pages += [f"/audit/?event={pk}" for pk in Event.objects.filter(tenant=tenant).values_list("pk", flat=True)]
    for name in ("done", "failed", "form", "url", "sampling", "approval"):
        public = made[name].public_id
        pages += [f"/tasks/{public}/?view={view}" for view in ("summary", "timeline", "questions", "log", "wire")]
        pages.append(f"/tasks/{public}/cancel")
    questions = list(Question.objects.values_list("pk", flat=True))
    assert len(questions) == 5
    pages += [f"/inbox/{pk}/" for pk in questions]
    seen = 0
    for page in pages:
        response = admin.get(page)
        assert response.status_code == 200, page
        html = without_options(response.content.decode())
        found = invisible(html)
        assert not found, f"{page}: …{html[max(0, found[0][0] - 120) : found[0][0] + 40]!r}"
        seen += "U+202E" in html
    assert seen > len(pages) / 2
    assert User.objects.count() == 1


def test_an_answer_with_errors_names_fields_safely(tenant: Tenant, admin: Client) -> None:
    made = furnish(tenant)
    question = Question.objects.get(task_id=made["form"].id)
    response = admin.post(f"/inbox/{question.pk}/answer", {"action": "accept", "f0": ""})
    assert response.status_code == 422
    assert not invisible(without_options(response.content.decode()))


def test_a_suggestion_that_cannot_be_read_is_not_filled_in(tenant: Tenant, admin: Client) -> None:
    made = furnish(tenant)
    html = admin.get(f"/inbox/{Question.objects.get(task_id=made['form'].id).pk}/").content.decode()
    assert re.search(r'<input[^>]*name="f0"(?![^>]*value=)', html)
    assert "pay[U+202E]fdp[U+200B].exe[U+2066]" in html


def test_a_link_of_a_result_shows_where_it_leads(tenant: Tenant, admin: Client) -> None:
    made = furnish(tenant)
    html = admin.get(f"/tasks/{made['done'].public_id}/").content.decode()
    assert 'href="https://xn--gthub-n2e.com/x"' in html
    assert '<b class="mono host">xn--gthub-n2e.com</b>' in html
    assert html.count('target="_blank"') == 1
