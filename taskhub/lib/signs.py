"""Characters that are not seen as they are stored: they change the direction of text, join, fill or end it, or have no
glyph of their own.

Foreign text is stored unchanged and shown with these characters spelled out, so that a person reads all that is there.
The list has Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties), control characters except tab and line
feed, the separators of lines and paragraphs, blank characters that are no spaces, halves of surrogate pairs, characters
for private use, which each font draws as it likes, and code points that are no characters. Spaces that look like spaces
are not in the list. Tags, which are letters that nobody sees, are shown as the letters that they stand for. Of
combining characters that are stacked on one letter, the first ones stay.
"""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, Final

from taskhub.lib.scripts import odd_words

_LISTED: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
    "\ud800-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U0001d159\U00013441\U00013442\U00016fe4\U000f0000-\U0010ffff"
)
_INVISIBLE: Final = re.compile(f"[{_LISTED}]")
_ESCAPED: Final = re.compile(f"[{_LISTED}\t\n]")
_TAGS: Final = "[\U000e0020-\U000e007e]+"
_ALL_BLANKS: Final = " \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_BLANKS: Final = f"[{_ALL_BLANKS}]"
MARKS_KEPT: Final = 4
"""How many combining characters one letter keeps: as many as pointed Hebrew needs, the script that needs most."""
FEW_BLANKS: Final = 3
"""How many blanks in a row are still told apart by their width."""
FEW_LINES: Final = 3
WIDE: Final = 64
"""How many blanks in a row a text with line breaks may have, such as for deep indentation."""
_NAMES: Final = {
    "\t": "tab",
    "\n": "line break",
    "\r": "carriage return",
    "\x00": "null",
    "\x1b": "escape",
    "\x7f": "delete",
}
_KEYS: Final = frozenset("0123456789#*")
_EMOJI_STYLE, _JOINER = "\ufe0f", "\u200d"


def invisible(text: str) -> list[tuple[int, str]]:
    """Each invisible character as (position, character), except tabs, line feeds, and characters inside an emoji that
    change how it looks."""
    return [(found.start(), found[0]) for found in _INVISIBLE.finditer(text) if not _in_emoji(text, found.start())]


def pieces(text: str, *, lines: bool, blanks: bool = False) -> Iterator[tuple[str, int]]:
    """The text in order as pairs (piece, times): visible text with 0, or one invisible character with the number of
    times that it is repeated. Tabs and line breaks count as visible text if `lines`, otherwise as invisible.

    Some runs of characters are one piece, with times 1: a run of tags; a run of combining characters beyond
    `MARKS_KEPT`, or without a letter; with `blanks`, a run of many blanks of several kinds. With `blanks` and `lines`,
    many line breaks in a row count as invisible too, except the last.
    """
    text = text.replace("\r\n", "\n")
    done, at = 0, 0
    pattern = _pattern(lines=lines, blanks=blanks, marks=not text.isascii())
    while found := pattern.search(text, at):
        at, sign = found.end(), found[0]
        if len(sign) == 1 and _in_emoji(text, found.start()):
            continue
        while len(sign) == 1 and found.lastgroup != "marks" and text.startswith(sign, at):
            at += 1
        if found.start() > done:
            yield text[done : found.start()], 0
        one = len(set(sign)) == 1 and found.lastgroup != "marks"
        yield (sign[0], at - found.start()) if one else (sign, 1)
        done = at
    if done < len(text):
        yield text[done:], 0


@functools.cache
def _pattern(*, lines: bool, blanks: bool, marks: bool) -> re.Pattern[str]:
    """The pattern by which `pieces` finds what is no visible text."""
    parts = [_TAGS, f"[{_LISTED}]" if lines else f"[{_LISTED}\t\n]"]
    if marks:
        listed = _LISTED.replace("\ufe00-\ufe0f", "\ufe00-\ufe0e")  # after \ufe0f, it may enclose a digit, as emojis do
        mark = f"[{_marks()}]"
        parts.append(f"(?P<marks>(?:(?<={mark}{{{MARKS_KEPT}}})|(?<![^\\s{listed}])){mark}+)")
    if blanks and lines:
        parts += [f"{_BLANKS}{{{WIDE},}}", rf"\n{{{FEW_LINES + 1},}}(?=\n)"]
    elif blanks:
        parts.append(f"{_BLANKS}{{{FEW_BLANKS + 1},}}")
    return re.compile("|".join(parts))


@functools.cache
def _marks() -> str:
    """Unicode's combining characters that take no room of their own, as ranges of a pattern, without the invisible
    ones."""
    found = [
        code
        for code in range(0x300, 0x1_F000)
        if unicodedata.category(chr(code)) in ("Mn", "Me") and not _INVISIBLE.match(chr(code))
    ]
    ranges: list[list[int]] = []
    for code in found:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def around(text: str) -> tuple[str, str, str]:
    """The blanks at the beginning of the text, what is between, and the blanks at its end."""
    inside = text.strip(_ALL_BLANKS)
    begin = text.find(inside) if inside else len(text)
    return text[:begin], inside, text[begin + len(inside) :]


def without_invisible(text: str) -> str:
    """The text without invisible characters, not even inside an emoji."""
    return _INVISIBLE.sub("", text)


def code_point(sign: str) -> str:
    """The code point of a character, such as `U+202E`."""
    return f"U+{ord(sign):04X}"


def name_of(sign: str) -> str:
    """The name of a character, in lower case; `invisible character` if Unicode has none."""
    return _NAMES.get(sign) or unicodedata.name(sign, "invisible character").lower()


def short_of(piece: str) -> str:
    """The short text for a piece from `pieces`: its code point, the text of its tags, or how many characters it has."""
    if piece in _SHORT:
        return _SHORT[piece]
    if len(piece) == 1:
        return code_point(piece)
    if "\U000e0020" <= piece[0] <= "\U000e007e":
        return f"tags: {_read(piece)}"
    return f"{len(piece)} {'blanks' if piece.isspace() else 'marks'}"


def label_of(piece: str) -> str:
    """What a piece from `pieces` is, in words."""
    if piece in _SHORT:
        return name_of(piece)
    if len(piece) == 1:
        return f"{code_point(piece)} {name_of(piece)}"
    if "\U000e0020" <= piece[0] <= "\U000e007e":
        return f"{len(piece)} tag characters, which nobody sees; they say: {_read(piece[:MANY])}"
    kind = "blanks of several kinds" if piece.isspace() else "combining characters on one letter"
    codes = " ".join(code_point(sign) for sign in dict.fromkeys(piece[:MANY]))
    return f"{len(piece)} {kind}: {codes}"


MANY: Final = 40
"""The most characters of a piece whose code points `label_of` lists."""
_SHORT: Final = {"\n": "\u21b5", "\t": "\u21e5", " ": "\u2423"}


def _read(tags: str) -> str:
    return "".join(chr(ord(tag) - 0xE0000) for tag in tags)


def spelled(text: str) -> str:
    """The text on one line, for places that take no markup: attributes, titles of pages, messages, files for people and
    the terminal. An invisible character is written as `[U+202E]`, a line break as `↵`. After a word that mixes scripts,
    their names follow."""
    return "".join(
        _with_scripts(piece)
        if not times
        else _SHORT[piece] * times
        if piece in _SHORT
        else f"[{short_of(piece)}]" * times
        for piece, times in pieces(text, lines=False)
    )


def escaped(text: str, escape: Callable[[str], str]) -> str:
    """The text with `escape(character)` in place of each invisible character, tab and line feed, for languages that
    have escapes in their texts."""
    return _ESCAPED.sub(lambda found: escape(found[0]), text)


def _with_scripts(text: str) -> str:
    told, done = "", 0
    for odd in odd_words(text):
        told, done = f"{told}{text[done : odd.end]}[{odd.short}]", odd.end
    return told + text[done:]


def visible_json(value: Any, *, indent: int | None = 2) -> str:
    """The JSON of `value`, with invisible characters as JSON escapes and all others as they are. It decodes to the same
    value."""
    return escaped_json(json.dumps(value, indent=indent, ensure_ascii=False, default=str))


def escaped_json(text: str) -> str:
    """The JSON `text` with its invisible characters as escapes; it decodes to the same value."""
    # Outside of strings JSON has line feeds and blanks only, so each invisible character is in a string.
    return _INVISIBLE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _in_emoji(text: str, at: int) -> bool:
    """Whether the character at `at` is a variation selector after a symbol, or a joiner between two."""
    before = text[at - 1] if at else ""
    if text[at] == _EMOJI_STYLE:
        return _symbol(before) or (before in _KEYS and text.startswith("\u20e3", at + 1))
    if text[at] != _JOINER or at + 1 >= len(text) or not _symbol(text[at + 1]):
        return False
    return _symbol(before) or (before == _EMOJI_STYLE and at > 1 and _symbol(text[at - 2]))


def _symbol(sign: str) -> bool:
    return bool(sign) and (
        unicodedata.category(sign) in ("So", "Sm" if sign > "\x7f" else "") or "\U0001f3fb" <= sign <= "\U0001f3ff"
    )
