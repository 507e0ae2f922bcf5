"""Foreign text as HTML: all text that others wrote is put on a page by `foreign`, `foreign_lines` or `spelled`.

The text appears in the order in which it is stored. Parts that are written from right to left are isolated from the
text around them. A line that begins with such a part runs from right to left; if it has parts of both directions, a
mark says so. Invisible characters, and words that mix scripts, have a mark too (`lib.signs`, `lib.scripts`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from taskhub.lib import signs
from taskhub.lib.scripts import odd_words

MOST_SHOWN: Final = 200_000
"""How many characters of one text a page shows."""
MOST_MARKS: Final = 1_000
"""How many marks a page shows in one text, because a mark is much longer than its character. Several equal characters
in a row share one mark."""
SLACK: Final = 12
"""A text that is longer than asked for by at most this many characters is shown whole."""
LONG_WORD: Final = re.compile(r"\S{25}")
# The letters, digits and marks of scripts that are written from right to left stand in these blocks.
_TURNED: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_WAYS: Final = {"L": "ltr", "EN": "ltr", "R": "rtl", "AL": "rtl", "AN": "rtl"}
_BREAKS: Final = re.compile(r"(\n+)")
_FEW_BLANKS: Final = re.compile(rf"\s{{2,{signs.FEW_BLANKS}}}")


def foreign(text: Any, most: int | None = None) -> SafeString:
    """Foreign text (of clients, servers, tools and people) on one line, unchanged. Invisible characters and line breaks
    are drawn as marks with a name. If the text has more than `most` characters, its beginning is shown, and the number
    of characters that are left out."""
    return _foreign(text, most, lines=False)


def foreign_lines(text: Any, most: int | None = None) -> SafeString:
    """Like `foreign`, but keeps line breaks and tabs, for elements whose CSS shows them."""
    return _foreign(text, most, lines=True)


def foreign_part(text: Any) -> SafeString:
    """Like `foreign`, for a part of a sentence: blanks at its ends are not marked, because they separate it from other
    parts."""
    return _foreign(text, None, lines=False, ends=False)


def spelled(text: Any, most: int | None = None) -> str:
    """Like `foreign`, but without markup, for attributes, options and the title of the page."""
    text = "" if text is None else str(text)
    shown = _begin(text, most)
    more = f"… {number(len(text) - len(shown))} more" if len(shown) < len(text) else ""
    return signs.spelled(shown) + more


def number(value: float | None) -> str:
    """The number with separators between thousands, and decimals only if it has any."""
    if value is None:
        return ""
    return f"{int(value):,}" if float(value) == int(value) else f"{value:,.2f}"


def _begin(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most + SLACK else text[:most]


def _foreign(text: Any, most: int | None, *, lines: bool, ends: bool = True) -> SafeString:
    text = "" if text is None else str(text).replace("\r\n", "\n")
    shown = _begin(text[:MOST_SHOWN], most)
    drawn = _Drawn(lines=lines)
    before, inside, after = ("", shown, "") if lines or not ends else signs.around(shown)
    if _TURNED.search(inside):
        found = _BREAKS.split(inside) if lines else [inside]
        html = "".join(drawn.line(part) if _TURNED.search(part) else drawn.run(part) for part in found)
    else:
        html = drawn.run(inside)
        # ASCII text cannot change the direction of the surrounding text.
        if not inside.isascii() or LONG_WORD.search(inside):
            html = f"<bdi>{html}</bdi>"
    if before or after:
        html = f"{drawn.run(before, all_blanks=True)}{html}{drawn.run(after, all_blanks=True)}"
    if left := len(text) - len(shown) + drawn.left:
        words = "… {} more" if most is not None and not drawn.left else "… {} more characters are not shown"
        html += format_html(' <span class="faint">{}</span>', words.format(number(left)))
    return mark_safe(html)  # noqa: S308 - escaped piece by piece


class _Drawn:
    """Draws one text as HTML, with at most `MOST_MARKS` marks. `left` counts the characters that were not drawn after
    that."""

    def __init__(self, *, lines: bool) -> None:
        self._lines, self._marks, self.left = lines, 0, 0

    def run(self, text: str, *, all_blanks: bool = False) -> str:
        """Draw text of one direction. With `all_blanks`, each blank of the text has a mark."""
        found = signs.pieces(text, lines=self._lines, blanks=True)
        if all_blanks:
            found = iter([(text[0], len(text)) if text and len(set(text)) == 1 else (text, 1)] if text else [])
        parts = []
        for piece, times in found:
            self._marks += times > 0
            if self._marks > MOST_MARKS:
                self.left += len(piece) * (times or 1)
            elif times:
                parts.append(_mark(signs.short_of(piece), signs.label_of(piece), times))
            else:
                parts.append(self._visible(piece))
        return "".join(parts)

    def line(self, text: str) -> str:
        """Draw a line that has text from right to left. The direction of the line is that of its first letter. Each run
        of the other direction is isolated, so that it appears where it is stored."""
        runs = list(_runs(text))
        base = next((way for letter in text if letter.isalpha() and (way := _way(letter))), "ltr")
        other = "ltr" if base == "rtl" else "rtl"
        parts = [f'<bdi dir="{way}">{self.run(part)}</bdi>' if way == other else self.run(part) for part, way in runs]
        mixed = base == "rtl" and any(way == other for _, way in runs)
        mark = _mark("\u2190", "this line is read from right to left") if mixed else ""
        return f'{mark}<bdi dir="{base}">{"".join(parts)}</bdi>'

    def _visible(self, text: str) -> str:
        """Draw visible text. A mark follows each word that mixes scripts, and blanks in a row keep their width."""
        told, done = [], 0
        for odd in odd_words(text):
            self._marks += 1
            if self._marks > MOST_MARKS:
                break
            word, mark = escape(text[odd.start : odd.end]), _mark(odd.short, odd.label)
            told.append(f'{self._blanks(text[done : odd.start])}<span class="odd">{word}</span>{mark}')
            done = odd.end
        return "".join([*told, self._blanks(text[done:])])

    def _blanks(self, text: str) -> str:
        shown = str(escape(text))
        return shown if self._lines else _FEW_BLANKS.sub(r'<span class="blanks">\g<0></span>', shown)


def _way(letter: str) -> str:
    """The direction of a letter or digit: `ltr` or `rtl`; empty for a character without a direction of its own."""
    return _WAYS.get(unicodedata.bidirectional(letter), "")


def _runs(text: str) -> Iterator[tuple[str, str]]:
    """The text in order, cut where its direction changes, as pairs of a part and its direction. Characters without a
    direction belong to the run around them; between two runs of different directions, they are a part with an
    empty direction."""
    begin, end, way = 0, 0, ""
    for at, letter in enumerate(text):
        here = _way(letter)
        if not here:
            if way and at == end and unicodedata.category(letter)[0] == "M":
                end = at + 1  # a mark on the run's last letter
            continue
        if here == way:
            end = at + 1
            continue
        if end > begin:
            yield text[begin:end], way
        if at > end:
            yield text[end:at], ""
        begin, end, way = at, at + 1, here
    if end > begin:
        yield text[begin:end], way
    if end < len(text):
        yield text[end:], ""


def _mark(short: str, label: str, times: int = 1) -> str:
    return format_html(
        '<span class="sign" role="img" aria-label="{}{}" title="{}">{}{}</span>',
        label,
        f", {times} times" if times > 1 else "",
        label,
        short,
        f"×{times}" if times > 1 else "",
    )
