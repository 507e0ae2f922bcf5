"""Whether a URI could have come from a template."""

from __future__ import annotations

import time

import pytest

from taskhub.lib.uritemplates import matches


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("test://template/{id}/data", "test://template/123/data"),
        ("test://template/{id}/data", "test://template/a%20b/data"),
        ("file:///{+path}", "file:///a/b/c.txt"),
        ("file:///{path}", "file:///a.txt"),
        ("x://{a}.{b}", "x://1.2.3"),
        ("x://{a,b}", "x://1,2"),
        ("x://q{?a,b}", "x://q"),
        ("x://q{?a,b}", "x://q?a=1&b=2"),
        ("x://q?fixed=1{&more}", "x://q?fixed=1&more=2"),
        ("x://q{/path*}", "x://q/1/2/3"),
        ("x://q{/path}", "x://q/1"),
        ("x://q{/path}", "x://q"),
        ("x://q{#part}", "x://q#here/and?there"),
        ("x://q{;p}", "x://q;p=1"),
        ("x://q{.kind}", "x://q.json"),
        ("{+all}", "anything:at all"),
        ("x://plain", "x://plain"),
        ("x://{a}{b}{c}", "x://123"),
    ],
)
def test_what_a_template_can_make_matches(template: str, uri: str) -> None:
    assert matches(template, uri)


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("test://template/{id}/data", "test://template/1/2/data"),
        ("test://template/{id}/data", "test://template//data"),
        ("test://template/{id}/data", "test://template/1/data/more"),
        ("file:///{path}", "file:///a/b"),
        ("file:///{path}", "file:///a?b"),
        ("x://{a}{b}{c}", "x://12"),
        ("x://q{?a}", "x://q#a"),
        ("x://plain", "x://plain/"),
        ("x://{broken", "x://{broken"),
        ("x://broken}", "x://broken}"),
        ("{a}" * 40, "x" * 40),
        ("", "x"),
    ],
)
def test_what_it_cannot_make_does_not(template: str, uri: str) -> None:
    assert not matches(template, uri)


def test_no_template_makes_it_slow() -> None:
    start = time.monotonic()
    assert not matches("{a}" * 31 + "!", "x" * 2_000)
    assert not matches("{+a}/" * 31 + "!", "/" * 2_000)
    assert time.monotonic() - start < 2.0
