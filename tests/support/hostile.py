"""Text that tries to be read as something else, and how the console, files and the terminal have to show it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Hostile(NamedTuple):
    """A text as it is stored, and what a person has to read: on one line, with its line breaks, and from left to right
    where that is another order. Marks are written as their text."""

    stored: str
    line: str
    lines: str = ""
    seen: str = ""
    inside: str = ""  # the same after words from left to right


def _codes(stored: str, line: str = "") -> Hostile:
    """A text whose only marks are code points, written in `stored` as such."""
    return Hostile(stored, line or "".join(f"U+{ord(c):04X}" if not c.isprintable() else c for c in stored))


TABLE: Final = (
    # Directions: overrides, embeddings, isolates, marks.
    *map(
        _codes, ("pay\u202efdp.exe", "\u202dabc\u202c", "a\u202ab\u202bc\u202c", "a\u2066b\u2069c", "a\u2067b\u2069c")
    ),
    *map(_codes, ("\u2068x", "a\u200eb", "a\u200fb", "\u061ca", "yes\u202e\u2066on\u2069")),
    # Nothing to see: zero width, fillers, separators, controls.
    *map(_codes, ("ad\u200bmin", "ad\u200cmin", "ad\u200dmin", "\ufeffadmin", "ad\u2060min", "ad\xadmin", "a\u180eb")),
    Hostile("a\u3164b", "aU+3164b"),
    Hostile("a\uffa0b", "aU+FFA0b"),
    Hostile("a\u115fb", "aU+115Fb"),
    Hostile("a\u2800b", "aU+2800b"),
    Hostile("a\u034fb", "aU+034Fb"),
    Hostile("a\u200b\u200b\u200bb", "aU+200B×3b"),
    *map(_codes, ("a\u2028b", "a\u2029b", "\x01", "\x1b[31mred\x1b[0m", "a\x07b", "a\x7fb", "a\x85b", "ok\x08no")),
    *map(_codes, ("safe\revil", "\ufff9a\ufffab\ufffb", "a\u2061b\u2064c", "a\U0001d173b", "a\ue000b", "a\U000f0001b")),
    Hostile("yes\U000e0020\U000e006e\U000e006f", "yestags:  no"),
    Hostile("a\ufe0fb\U000e0101", "aU+FE0FbU+E0101"),
    # Room: line breaks, tabs, blanks.
    Hostile("one\ntwo", "one↵two", "one\ntwo"),
    Hostile("one\r\ntwo", "one↵two", "one\ntwo"),
    Hostile("top" + "\n" * 50 + "end", "top↵×50end", "top↵×49\nend"),
    Hostile("a\tb", "a⇥b", "a\tb"),
    Hostile("a" + " " * 90 + "b", "a␣×90b"),
    Hostile("a  b", "a  b"),
    Hostile("a" + "\u3000" * 5 + "b", "aU+3000×5b", "a\u3000\u3000\u3000\u3000\u3000b"),
    # Letters: heaped accents, look-alikes.
    Hostile("z" + "\u0301\u0316" * 20, "z" + "\u0301\u0316" * 2 + "36 marks"),
    Hostile("p\u0430ypal", "p\u0430ypalLatin + Cyrillic"),
    Hostile("\u0440\u0430\u0443", "\u0440\u0430\u0443Cyrillic"),
    Hostile("\u03b1dmin", "\u03b1dminLatin + Greek"),
    Hostile("\uff41\uff44\uff4d\uff49\uff4e", "\uff41\uff44\uff4d\uff49\uff4eFullwidth"),
    Hostile("\U0001d41a\U0001d41d\U0001d426", "\U0001d41a\U0001d41d\U0001d426Mathematical"),
    Hostile("\u13aa\u13b7", "\u13aa\u13b7Cherokee"),
    Hostile("https://g\u0456thub.com", "https://g\u0456thubLatin + Cyrillic.com"),
    # Other languages: HTML, templates, scripts, tables, terminals.
    *(
        Hostile(text, text)
        for text in (
            "<b onmouseover=alert(1)>x</b>",
            "<script>alert(1)</script>",
            "</title></textarea><h1>x",
            "&lt;b&gt; &amp;lt; &#x202e;",
            "{{ request }}{% now 'Y' %}",
            "${7*7} #{7*7} {0} %s",
            '" autofocus onfocus="alert(1)" \'',
            "javascript:alert(1)",
            "=HYPERLINK(1)",
            "@SUM(1)",
            "null",
            "None",
            "undefined",
            "NaN",
            "true",
            "[U+202E]",
            "../../etc/passwd%00%0a",
            # What is as it should be: emojis, accents, other scripts.
            "\U0001f469\u200d\U0001f467 \u2764\ufe0f 1\ufe0f\u20e3",
            "Gr\u00fc\u00dfe \u4e16\u754c \u041f\u0440\u0438\u0432\u0435\u0442",
        )
    ),
    # From right to left.
    Hostile("\u05d0\u05d1\u05d2", "\u05d0\u05d1\u05d2", seen="\u05d2\u05d1\u05d0"),
    Hostile("pay \u05d0\u05d1 100 to b", "pay \u05d0\u05d1 100 to b", seen="pay\u05d1\u05d0100tob"),
    Hostile(
        "100 \u05d0 - 9 \u05d1 0", "100 \u05d0 - 9 \u05d1 0", seen="0\u05d19-\u05d0100", inside="100\u05d0-9\u05d10"
    ),
    Hostile(
        "\u05d0\u05d1 to = 5 \u05d2",
        "\u05d0\u05d1 to = 5 \u05d2",
        seen="\u05d2to=5\u05d1\u05d0",
        inside="\u05d1\u05d0to=5\u05d2",
    ),
    Hostile("x\u05d0(b)\u05d1y", "x\u05d0(b)\u05d1y"),
    Hostile("\u0645\u0631\u062d\u0628\u0627", "\u0645\u0631\u062d\u0628\u0627", seen="\u0627\u0628\u062d\u0631\u0645"),
    Hostile("a \u202e\u05d0\u05d1", "a U+202E\u05d0\u05d1", seen="aU+202E\u05d1\u05d0"),
)
LONG: Final = ("W" * 250, "\u05d0" * 250, "x\u202e" * 120)
"""Words that no line has room for."""


def around(text: str) -> str:
    """The text between signs that have no direction, by which a test finds it on a page."""
    return f"«{text}»"
