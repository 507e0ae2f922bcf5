"""The parts: what they refuse, what they draw, and the page that shows them all."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from django.template import Context, Template, TemplateSyntaxError, engines
from django.test import Client
from django.urls import NoReverseMatch
from pytest_django import Settings

from taskhub.console.templatetags.parts import PARTS, address

pytestmark = pytest.mark.django_db
URL = "/dev/components"


def draw(source: str, **context: object) -> str:
    # The stubs know only the engines of all kinds; Django's own gives its template.
    template: Template = engines["django"].from_string("{% load console parts %}" + source).template  # type: ignore[attr-defined]
    return re.sub(r"\s+", " ", template.render(Context(context)))


def test_the_page_is_there_for_developers_only(settings: Settings) -> None:
    assert Client().get(URL).status_code == 404
    settings.DEBUG = True
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    html = Client().get(URL).content.decode()
    for part in PARTS:
        assert f'class="{ {"confirm": "card confirm", "nothing": "empty"}.get(part, part) }' in html, part
    twice = [name for name, count in Counter(re.findall(r'\sid="([^"]+)"', html)).items() if count > 1]
    assert twice == []


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{% button herf='/x' %}x{% endbutton %}", "button takes no herf"),
        ("{% notice 'info' 'warning' %}x{% endnotice %}", "by name only"),
    ],
)
def test_a_parameter_that_no_part_has_is_an_error_when_the_page_is_read(source: str, why: str) -> None:
    with pytest.raises(TemplateSyntaxError, match=why):
        draw(source)


def test_a_slot_that_a_part_has_not_is_an_error() -> None:
    with pytest.raises(TemplateSyntaxError, match="chip has no place for aside"):
        draw("{% chip %}x{% slot aside %}y{% endslot %}{% endchip %}")


def test_slots_belong_to_the_part_around_them() -> None:
    html = draw(
        "{% card 'Out' id='out' %}{% slot aside %}outer{% endslot %}"
        "{% card 'In' id='in' %}{% slot aside %}inner{% endslot %}body{% endcard %}{% endcard %}"
    )
    assert re.findall(r"</h2>(\w+)</header>", html) == ["outer", "inner"]


def test_what_others_wrote_is_escaped_in_parameters_attributes_and_content() -> None:
    evil = '"><script>'
    html = draw(
        "{% card title=evil id='c' %}{% button title=evil href='?q={}' of=evil %}{{ evil }}{% endbutton %}{% endcard %}"
        "{% notice %}{{ evil }}{% endnotice %}{% chip href=evil %}{{ evil }}{% endchip %}",
        evil=evil,
    )
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") == 6
    assert 'href="?q=%22%3E%3Cscript%3E"' in html


def test_a_button_without_an_address_is_a_button() -> None:
    assert draw("{% button 'primary' name='go' value='0' %} Go {% endbutton %}").strip() == (
        '<button class="button primary" name="go" value="0">Go</button>'
    )
    assert draw("{% button to='task-detail' of='abc' data_close=True %}Open{% endbutton %}").strip() == (
        '<a class="button" href="/tasks/abc/" data-close>Open</a>'
    )


def test_where_a_part_leads() -> None:
    assert address("server-detail", 7, "") == "/servers/7/"
    assert address("overview", None, "") == "/"
    assert address("", "a b&c", "?q={}#x") == "?q=a%20b%26c#x"
    assert address("", None, "?new#new") == "?new#new"
    with pytest.raises(NoReverseMatch):
        address("no-such-page", None, "")


def test_columns_say_how_they_stand() -> None:
    html = draw("{% table columns='Name|Count>|(Heard)' actions=yes %}<tr></tr>{% endtable %}", yes=True)
    heads = re.findall(r"<th scope=\"col\"([^>]*)> ?(.*?) ?</th>", html)
    hidden = '<span class="visually-hidden">{}</span>'
    assert heads == [
        ("", "Name"),
        (' class="end"', "Count"),
        ("", hidden.format("Heard")),
        ("", hidden.format("Actions")),
    ]
