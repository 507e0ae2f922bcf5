"""Where an address leads, as a browser reads it."""

from __future__ import annotations

import pytest

from taskhub.lib.addresses import BadAddress, deceit, host_of, web_address


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("https://evil.example\\@github.com/", "backslash"),
        ("https:\\\\evil.example/", "backslash"),
        ("https://github.com@evil.example/", "names a user"),
        ("https://github.com:443@evil.example/", "names a user"),
        ("https://@evil.example/", "names a user"),
        ("https://github.com\u202e/moc.elpmaxe", r"invisible character U\+202E"),
        ("https://git\u200bhub.com/", r"invisible character U\+200B"),
        ("https://git\thub.com/", "blank or a line break"),
        ("https://github.com/\nevil", "blank or a line break"),
        ("https://github.com/a\x00b", r"invisible character U\+0000"),
        ("https://github.com /", "blank"),
        (" https://github.com/", "blank"),
        ("https:evil.example/", "cannot be read"),
        ("https:///evil.example/", "cannot be read"),
        ("https://", "cannot be read"),
        ("https://a:b/", "cannot be read"),
        ("https://github.com:99999/", "cannot be read"),
        ("javascript:alert(1)", "no http or https"),
        ("data:text/html,x", "no http or https"),
        ("file:///etc/passwd", "no http or https"),
        ("github.com", "cannot be read"),
        ("//github.com/", "cannot be read"),
        ("", "cannot be read"),
        ("https://a.example/" + "x" * 9_000, "longer than 8,192"),
    ],
)
def test_an_address_that_hides_where_it_leads_is_not_opened(text: str, why: str) -> None:
    with pytest.raises(BadAddress, match=why):
        web_address(text)
    assert host_of(text) == ""


@pytest.mark.parametrize(
    ("text", "href", "host", "spelling"),
    [
        ("https://github.com/a?b=c@d#e", "https://github.com/a?b=c@d#e", "github.com", ""),
        ("HTTPS://GitHub.COM:443", "https://github.com/", "github.com", ""),
        ("http://localhost:8000/x", "http://localhost:8000/x", "localhost:8000", ""),
        ("http://[::1]:9/", "http://[::1]:9/", "[::1]:9", ""),
        ("http://0x7f.1/", "http://127.0.0.1/", "127.0.0.1", ""),
        ("https://g\u0456thub.com/", "https://xn--gthub-n2e.com/", "xn--gthub-n2e.com", "g\u0456thub.com"),
        ("https://xn--gthub-n2e.com/", "https://xn--gthub-n2e.com/", "xn--gthub-n2e.com", "g\u0456thub.com"),
        ("https://evil\u3002com/", "https://evil.com/", "evil.com", ""),
        ("https://a.example/\u00fc", "https://a.example/%C3%BC", "a.example", ""),
    ],
)
def test_an_address_is_written_anew_with_its_host_in_ascii(text: str, href: str, host: str, spelling: str) -> None:
    found = web_address(text)
    assert (found.href, found.host, found.spelling) == (href, host, spelling)
    assert found.href.isascii()


@pytest.mark.parametrize("text", ["mailto:a@b.example", "ssh://git@host/x", "file:///srv/x", "demo://about", "x:y"])
def test_another_scheme_is_no_lie(text: str) -> None:
    assert deceit(text) == ""
