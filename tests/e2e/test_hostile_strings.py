"""Texts that try to be read as something else, wherever others can write: what is read is what is stored."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any, Final

import pytest
from playwright.sync_api import Browser

from taskhub.lib import signs
from tests.e2e.hostile_rows import ADMIN
from tests.e2e.visits import Visits
from tests.factories import PASSWORD
from tests.support.hostile import TABLE, around
from tests.support.hub import ROOT, RunningHub

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

# All texts between « and »: as a person reads them, as attributes have them, and with the places of their glyphs.
READ = r"""() => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    const between = /«[^«»]*»/gu;
    const spelled = [];
    for (const element of document.querySelectorAll("option, title, textarea")) {
        spelled.push(...(element.textContent.match(between) ?? []));
        if (element.tagName !== "TITLE") element.hidden = true;
    }
    for (const select of document.querySelectorAll("select")) select.hidden = true;
    const read = document.body.innerText.match(between) ?? [];
    for (const element of document.querySelectorAll("*")) {
        for (const { name, value } of element.attributes) {
            const kept = ["value", "href", "content", "data-copy"].includes(name) || name.startsWith("hx-");
            if (!kept) spelled.push(...(value.match(between) ?? []));
        }
    }
    const range = document.createRange();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const placed = [];
    let open = null;
    while (walker.nextNode()) {
        const { data } = walker.currentNode;
        if (open === null && !data.includes("«")) continue;
        for (let at = 0; at < data.length; at++) {
            const sign = String.fromCodePoint(data.codePointAt(at));
            const begin = at;
            at += sign.length - 1;
            if (sign === "«") open = [];
            if (open === null || /[\p{M}\p{Cf}\s]/u.test(sign)) continue;
            range.setStart(walker.currentNode, begin);
            range.setEnd(walker.currentNode, at + 1);
            const box = range.getClientRects()[0];
            if (box?.width) open.push([sign, box.left, box.top, box.bottom]);
            if (sign !== "»") continue;
            const [, , top, bottom] = open[0] ?? [];
            if (open.length > 2 && open.every((one) => one[2] < bottom && one[3] > top)) {
                const order = open.map((one) => one[0]).join("");
                placed.push([order, open.toSorted((a, b) => a[1] - b[1]).map((one) => one[0]).join("")]);
            }
            open = null;
        }
    }
    return { read, spelled, placed };
}"""
# The elements that a page would have to be wider for.
TOO_WIDE = r"""() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return "";
    const all = [...document.body.querySelectorAll("*")];
    const over = all.filter((one) => one.getBoundingClientRect().right > clientWidth + 1);
    return `${scrollWidth - clientWidth} px, ` + over.slice(-3).map((one) => one.outerHTML.slice(0, 90)).join(" and ");
}"""

MANY: Final = {"/": 15, "/workers/": 15, "/tasks/": 24, "/inbox/": 70, "/clients/": 40, "/audit/": 40, "/rules/": 35}
"""How many of the texts these pages show at least, so that no page passes by showing none."""


@pytest.fixture(scope="module")
def pages(plain_hub: RunningHub) -> list[str]:
    """Addresses of the pages of a tenant in which everything is hostile."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.hostile_rows"],
        cwd=ROOT,
        env={**plain_hub.environment, "TASKHUB_DATA_DIR": str(plain_hub.data)},
        check=True,
        stdout=subprocess.PIPE,
    )
    found: list[str] = json.loads(done.stdout)
    return found


def test_what_is_read_is_what_is_stored(plain_hub: RunningHub, browser: Browser, pages: list[str]) -> None:
    visits = Visits(plain_hub, browser)
    page = visits.window(viewport={"width": 1440, "height": 900})
    page.goto("/accounts/login/")
    page.get_by_label("Username").fill(ADMIN)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("/")
    read = {around(one.line) for one in TABLE} | {around(one.lines) for one in TABLE if one.lines}
    spelt = {signs.spelled(around(one.stored)) for one in TABLE} | {around("a b")}  # a browser's select joins blanks
    # As JSON has them, with escapes instead of marks, but for words of several scripts.
    escaped = {one: signs.visible_json(around(one.stored), indent=None)[1:-1] for one in TABLE}
    read |= {_marked(text) for text in escaped.values()}
    seen = {_bare(one.line): {one.seen, one.inside} for one in TABLE if one.seen}
    seen |= {
        _bare(escaped[one].strip("«»")): {one.seen.replace("U+202E", r"\u202e")} for one in TABLE if "U+" in one.seen
    }
    found: dict[str, Any] = {}
    wrong: list[str] = []
    turned = 0
    for path in pages:
        page.set_viewport_size({"width": 1440, "height": 900})
        response = page.goto(path)
        if response is None or response.status != 200:
            wrong.append(f"{path} answers {response and response.status}")
            continue
        shown = found[path] = page.evaluate(READ)
        wrong += [f"{path} shows {text!a}" for text in {*shown["read"]} - read if len(text) < 100]
        wrong += [f"{path} spells {text!a}" for text in {*shown["spelled"]} - spelt if len(text) < 100]
        for order, places in ((re.sub("[«»]", "", one), re.sub("[«»]", "", two)) for one, two in shown["placed"]):
            turned += order in seen
            if places not in seen.get(order, {order}):
                wrong.append(f"{path} places {order!a} as {places!a}")
        for width in (390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            if wide := page.evaluate(TOO_WIDE):
                wrong.append(f"{path} is too wide for {width} px: {wide}")
    told = {path: len(set(shown["read"])) for path, shown in found.items()}
    print(json.dumps(told, indent=1))
    assert wrong == [], "\n".join(wrong)
    assert turned > 100
    few = {path: told[path] for path, most in MANY.items() if told[path] < most}
    assert few == {}, "pages that show fewer of the texts than they did"
    assert sum(count > 60 for count in told.values()) >= 12
    visits.end()


def _bare(text: str) -> str:
    return "".join(text.split())


def _marked(text: str) -> str:
    """The text with the scripts of its odd words after them."""
    return re.sub(r"\[((?:[A-Z][a-z]+)(?: \+ [A-Z][a-z]+)*)\]", r"\1", signs.spelled(text))
