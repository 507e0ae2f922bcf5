"""No template prints what others wrote without the component for foreign text.

It refuses by default: an expression is printed bare only if its record says that it is no text, or if it is listed in
`own_words.py`. What it cannot see: a member of a JSON object from outside that has the name of a number or a time of
ours; a name that is listed for its template, to which a view gives something else; and HTML that Python makes, which
is counted here by file so that somebody looks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from django.template import engines

from taskhub.console.templatetags.console import not_counted, past, said, state_word
from taskhub.lib.signs import invisible
from tests.console.own_words import HANDED_ON, PRINTED
from tests.console.printed import fields_without_text, handed_on, is_drawn, printed
from tests.console.test_markup import ROOT, SCRIPTS, TEMPLATES, every, name_of

EVIL: Final = "a\u202eb"
NAMES: Final = [name_of(path) for path in TEMPLATES]
# How often Python files make HTML. Each was read: what they put into it is ours, or goes through the component.
MADE: Final = {
    "console/foreign.py": 3,
    "console/forms/access.py": 3,
    "console/forms/edits.py": 1,
    "console/forms/questions.py": 2,
    "console/forms/webhooks.py": 1,
    "console/templatetags/console.py": 13,
    "console/templatetags/parts.py": 3,
}
MAKERS: Final = ("format_html", "format_html_join", "mark_safe", "SafeString", "SafeText")


def test_nothing_is_printed_but_by_the_component_or_by_the_list() -> None:
    found: dict[str, set[str]] = {}
    for name in NAMES:
        for one in printed(name):
            found.setdefault(one.template, set()).add(one.expression)
    listed = {name: set(words) for name, words in PRINTED.items()}
    bare = {name: words - listed.get(name, set()) for name, words in found.items()}
    assert {name: words for name, words in bare.items() if words} == {}, (
        "others wrote it: foreign; we did: own_words.py"
    )
    gone = {name: words - found.get(name, set()) for name, words in listed.items()}
    assert {name: words for name, words in gone.items() if words} == {}, "listed, but not printed any more"


def test_it_looks_wherever_a_template_prints() -> None:
    for source in (
        "{{ row.name }}",
        '{{ row.name|default:"none" }}',
        "{{ row.name|foreign|lower }}",
        "{% if row.id %}{% for row in rows %}{% with x=1 %}{{ row.name }}{% endwith %}{% endfor %}{% endif %}",
        '{% badge "" "check" row.name %}',
        "{% card title=row.name %}{% endcard %}",
        "{% chip aria_label=row.name %}{% endchip %}",
        "{% card %}{% slot aside %}{{ row.name }}{% endslot %}{% endcard %}",
        "{% firstof row.name 1 %}",
        "{% partialdef a %}{{ row.name }}{% endpartialdef %}",
    ):
        made = engines["django"].from_string(f"{{% load console parts partials %}}{source}")
        assert [one.expression.split("|")[0] for one in printed("", made)] == ["row.name"], source
    for source in ("{{ row.name|foreign }}", "{{ row.created_at }}", "{% chip of=row.name %}{% endchip %}"):
        assert [*printed("", engines["django"].from_string(f"{{% load console parts %}}{source}"))] == [], source


def test_a_bare_name_is_given_words_of_ours_only() -> None:
    """Whatever `{% include … with %}` and `{% with %}` call by a name that a template prints bare."""
    wrong = []
    for name in NAMES:
        for template, key, expression in handed_on(name):
            bare = key in {words.split("|")[0] for words in PRINTED.get(template, ())}
            known = expression.token in PRINTED.get(name, ()) or f"{key}={expression.token}" in HANDED_ON
            if bare and not known and not is_drawn(expression):
                wrong.append(f"{name} gives {template}: {key}={expression.token}")
    assert wrong == [], "\n".join(wrong)


def test_the_component_with_markup_stands_outside_of_tags_and_the_other_inside() -> None:
    """Its markup would end an attribute, and is no markup in a title, an option or a drawing."""
    wrong = []
    for path in TEMPLATES:
        text = re.sub(
            r"\{#.*?#\}|\{% comment %\}.*?\{% endcomment %\}|\{% (?!block title)(?!endblock).*?%\}",
            lambda tag: " " * len(tag[0]),
            path.read_text(),
            flags=re.DOTALL,
        )
        without = re.sub(r"\{\{.*?\}\}", lambda tag: " " * len(tag[0]), text)
        for found in re.finditer(r"\{\{((?:(?!\}\}).)*)\}\}", text):
            filters = re.findall(r"\|(\w+)", found[1])
            before = without[: found.start()]
            inside = before.rfind("<") > before.rfind(">")
            plain = re.search(r"(?:<(title|option|textarea|text)\b[^>]*>|\{% block title %\})[^<{]*\Z", before)
            if (inside or plain) and filters and filters[-1] in ("foreign", "foreign_lines", "worded"):
                wrong.append(f"{name_of(path)}: {found[0]}")
    assert wrong == [], "\n".join(wrong)


def test_nothing_turns_the_component_off() -> None:
    assert (
        every(TEMPLATES, r"\|\s*safe\b|\|\s*safeseq|autoescape|\{% filter|blocktrans|\|truncate|\|\s*(upper|title)\b")
        == []
    )
    assert every(SCRIPTS, r"innerHTML|outerHTML\s*=|insertAdjacentHTML|document\.write|\beval\(") == []


def test_filters_that_the_list_trusts_know_words_of_ours_only() -> None:
    for words in (past(EVIL), not_counted(EVIL), said(EVIL), state_word(EVIL)):
        assert not invisible(words)


def test_html_made_in_python_is_counted() -> None:
    counted = {
        str(path.relative_to(ROOT / "taskhub")): len(found)
        for path in sorted((ROOT / "taskhub").rglob("*.py"))
        if (text := path.read_text()) and ("format_html" in text or "mark_safe" in text or "SafeString" in text)
        if (found := [*_html(ast.parse(text))])
    }
    assert counted == MADE


def _html(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls that make HTML, but for those of a literal."""
    for call in ast.walk(tree):
        makes = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in MAKERS
        if makes and (len(call.args) > 1 or not isinstance(call.args[0], ast.Constant)):
            yield call


def test_records_say_which_fields_are_no_text() -> None:
    assert {"created_at", "is_error", "quorum"} <= fields_without_text()
    assert not {"name", "title", "message", "reason", "tool_name", "client", "problem", "actor"} & fields_without_text()
