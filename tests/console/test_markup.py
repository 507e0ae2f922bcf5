"""What holds for every template, style and script: read as text, without a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from django.template import engines
from django.urls import get_resolver

ROOT: Final = Path(__file__).resolve().parents[2]
TEMPLATES: Final = sorted((ROOT / "templates").rglob("*.html"))
STYLES: Final = sorted((ROOT / "static" / "css").rglob("*.css"))
SCRIPTS: Final = sorted((ROOT / "static" / "js").rglob("*.js"))
LONGEST: Final = 120
# Switches that no form sends, the pairs that a widget draws, and the digest that comes with a button.
BY_HAND: Final = {
    "parts/approve.html": 1,
    "parts/who.html": 1,
    "parts/keys.html": 1,
    "parts/palette.html": 1,
    "parts/pairs.html": 4,
    "console/inbox.html": 1,
    "console/inbox_alike.html": 1,
}
URL_NAMES: Final = {name for name in get_resolver().reverse_dict if isinstance(name, str)}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT / "templates"))


def every(paths: list[Path], pattern: str) -> list[str]:
    """Where the pattern stands: `file:line: text`."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line)
    ]


def test_a_template_can_be_read() -> None:
    """A part's parameters are checked here for the pages that no other test draws."""
    assert all(engines["django"].get_template(name_of(path)) for path in TEMPLATES)


def test_no_line_is_too_long() -> None:
    assert every([*TEMPLATES, *STYLES, *SCRIPTS], rf"^.{{{LONGEST + 1},}}$") == []


def test_no_tag_is_torn_by_the_end_of_a_line() -> None:
    """Django would print it."""
    assert every(TEMPLATES, r"\{\{(?!.*\}\})|\{%(?!.*%\})") == []


def test_addresses_are_written_by_name() -> None:
    assert every(TEMPLATES, r"""\b(href|src|action|hx-get|hx-post|data-\w+)=["']/""") == []
    assert every(TEMPLATES, r"""\{%.*["']/[a-z].*%\}""") == []
    assert every(SCRIPTS, r"""["'`}]/[a-z]""") == []


def test_the_names_of_addresses_are_known() -> None:
    """`{% url … as … %}` says nothing about a name that is wrong."""
    used = {
        name for path in TEMPLATES for name in re.findall(r"""(?:\{% url |\bto=)["']([\w:-]+)["']""", path.read_text())
    }
    assert len(used) > 30
    assert used - URL_NAMES == set()


def test_inputs_come_from_forms() -> None:
    written = {
        name_of(path): len(found)
        for path in TEMPLATES
        if (found := re.findall(r"<(?:input|select|textarea)\b", path.read_text()))
    }
    assert written == BY_HAND


def test_colours_are_tokens() -> None:
    named = r"#[0-9a-fA-F]{3,8}\b(?!\s*[,{])|\b(?:oklch|oklab|rgba?|hsla?|lab|lch)\("
    sheets = [path for path in STYLES if path.name != "tokens.css"]
    assert every(sheets, named) == []
    assert every([ROOT / "static" / "css" / "tokens.css"], named)


def test_the_frame_links_every_sheet() -> None:
    linked = {found for path in TEMPLATES for found in re.findall(r"static '(css/[\w/]+\.css)'", path.read_text())}
    assert linked == {str(path.relative_to(ROOT / "static")) for path in STYLES}
