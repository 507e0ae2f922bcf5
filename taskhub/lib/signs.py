"""Invisible characters: they change the direction of text, join, fill or end it, and have no glyph of their own.

Foreign text is stored unchanged and shown with these spelled out, so that a person reads all that is there. The list
is Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties), the controls but for tab and line feed, the
separators of lines and paragraphs, and the blank braille cell. Spaces that look like spaces are left.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, Final

_LISTED: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_INVISIBLE: Final = re.compile(f"[{_LISTED}]")
_EITHER: Final = re.compile(f"[{_LISTED}\t\n]")
_NAMES: Final = {
    "\t": "tab",
    "\n": "line break",
    "\r": "carriage return",
    "\x00": "null",
    "\x1b": "escape",
    "\x7f": "delete",
}
_EMOJI_STYLE, _JOINER = "\ufe0f", "\u200d"


def invisible(text: str) -> list[tuple[int, str]]:
    """(position, character) of each invisible character. Left out: tab, line feed, and those inside an emoji, which
    change how it looks."""
    return [(found.start(), found[0]) for found in _INVISIBLE.finditer(text) if not _in_emoji(text, found.start())]


def pieces(text: str, *, lines: bool) -> Iterator[tuple[str, int]]:
    """The text in order as pairs (piece, times): visible text with 0, or one invisible character with the number of
    times that it is repeated. Tabs and line breaks count as visible text if `lines`, else as invisible."""
    text = text.replace("\r\n", "\n")
    done, at = 0, 0
    while found := (_INVISIBLE if lines else _EITHER).search(text, at):
        at, sign = found.end(), found[0]
        if _in_emoji(text, found.start()):
            continue
        while text.startswith(sign, at):
            at += 1
        if found.start() > done:
            yield text[done : found.start()], 0
        yield sign, at - found.start()
        done = at
    if done < len(text):
        yield text[done:], 0


def without_invisible(text: str) -> str:
    """The text without invisible characters, not even inside an emoji."""
    return _INVISIBLE.sub("", text)


def code_point(sign: str) -> str:
    """The code point of a character, such as `U+202E`."""
    return f"U+{ord(sign):04X}"


def name_of(sign: str) -> str:
    """The name of a character, in lower case; `invisible character` if Unicode has none."""
    return _NAMES.get(sign) or unicodedata.name(sign, "invisible character").lower()


def spelled(text: str) -> str:
    """The text on one line with each invisible character written as `[U+202E]`, for places that
    take no markup: attributes, titles of pages, messages."""
    return "".join(
        piece if not times else " " if piece in "\t\n" else f"[{code_point(piece)}]" * times
        for piece, times in pieces(text, lines=False)
    )


def escaped(text: str, escape: Callable[[str], str]) -> str:
    """The text with what `escape` says for each invisible character, tab and line feed, for languages that have escapes
    in their texts."""
    return _EITHER.sub(lambda found: escape(found[0]), text)


def visible_json(value: Any, *, indent: int | None = 2) -> str:
    """The JSON of `value`, with invisible characters as JSON escapes and all others as they are. It decodes to the same
    value."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    # Outside of strings JSON has line feeds and blanks only, so each invisible character is in a string.
    return _INVISIBLE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _in_emoji(text: str, at: int) -> bool:
    """Whether the character at `at` is a variation selector after a symbol, or a joiner between two."""
    before = text[at - 1] if at else ""
    if text[at] == _EMOJI_STYLE:
        return _symbol(before)
    if text[at] != _JOINER or at + 1 >= len(text) or not _symbol(text[at + 1]):
        return False
    return _symbol(before) or (before == _EMOJI_STYLE and at > 1 and _symbol(text[at - 2]))


def _symbol(sign: str) -> bool:
    return bool(sign) and (unicodedata.category(sign) == "So" or "\U0001f3fb" <= sign <= "\U0001f3ff")
