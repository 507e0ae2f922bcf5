"""Words that mix scripts, or are written in letters that look like Latin ones: `pаypal` with a Cyrillic `а`.

A script is the first word of a letter's name in Unicode (`CYRILLIC SMALL LETTER A`), which Python knows; its table of
scripts it does not.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

_WORD: Final = re.compile(r"[^\W_]+")
_TOGETHER: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "KATAKANA-HIRAGANA"})
"""Scripts that are written together with each other, and with Latin letters."""
_TURNED: Final = frozenset({"HEBREW", "ARABIC", "SYRIAC", "THAANA", "NKO"})
"""Scripts that are written from right to left. Nobody takes their letters for Latin ones, and pages isolate them."""
_FORMS: Final = {
    "MATHEMATICAL": "Mathematical",
    "DOUBLE-STRUCK": "Mathematical",
    "SCRIPT": "Mathematical",
    "BLACK-LETTER": "Mathematical",
    "FULLWIDTH": "Fullwidth",
}
"""Letters in another form that look like Latin ones: the first word of their names in Unicode, and the name for the
form."""
_NO_SCRIPTS: Final = frozenset({"MODIFIER", "MICRO", "FEMININE", "MASCULINE", "KELVIN", "ANGSTROM", "OHM", "COMBINING"})
"""The first words of the names of letters that count as of no script."""
_OF_FORMULAS: Final = frozenset("μΔπΩλΣθφ")
"""Greek letters that stand beside Latin ones in units and formulas."""
OF_FORMULA: Final = 3
"""The most letters of a word that may be a unit or a part of a formula."""
_LIKE_LATIN: Final = frozenset(
    "асԁеһіјӏорԛѕухѵԝүАВЕЅІЈКМНОРСТУХԚԜҮ"  # Cyrillic
    "ονικρυχαγτΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"  # Greek
    "օոսցհզյՕՍՏԼ"  # Armenian
)


class Odd(NamedTuple):
    """A word of the text, from `start` to `end`, that mixes scripts, or whose letters only look like Latin ones.
    `scripts` are the scripts of its letters; `letters` are the letters that are not Latin."""

    start: int
    end: int
    scripts: tuple[str, ...]
    letters: str

    @property
    def short(self) -> str:
        """The scripts, such as `Latin + Cyrillic`."""
        return " + ".join(self.scripts)

    @property
    def label(self) -> str:
        """The scripts and the odd letters, as a phrase about the word before."""
        which = ", ".join(f"{one} U+{ord(one):04X}" for one in dict.fromkeys(self.letters[:20]))
        begin = "mixes" if len(self.scripts) > 1 else "looks Latin, but is"
        return f"the word before {begin} {' and '.join(self.scripts)}: {which}"


def odd_words(text: str) -> Iterator[Odd]:
    """The words of the text that mix scripts. Also the words of one script whose letters look like Latin ones, unless
    the line has another letter of that script, which shows that the script is meant."""
    if text.isascii():
        return
    begin = 0
    for line in text.split("\n"):
        if not line.isascii():
            yield from _of_line(line, begin)
        begin += len(line) + 1


def _of_line(line: str, begin: int) -> Iterator[Odd]:
    found = [word for word in _WORD.finditer(line) if not word[0].isascii()]
    known = {script_of(letter) for word in found for letter in word[0]}
    meant = {script_of(letter) for word in found for letter in word[0] if not _like_latin(letter, known)}
    for word in found:
        of_formula = word[0] if len(word[0]) <= OF_FORMULA else ""
        seen = (letter for letter in word[0] if not (of_formula and letter in _OF_FORMULAS))
        scripts = sorted(
            {name for letter in seen if (name := script_of(letter)) and name.upper() not in _TOGETHER | _TURNED}
        )
        if len(scripts) > 1:
            scripts.sort(key=lambda name: name != "Latin")
        elif not scripts or scripts[0] == "Latin" or scripts[0] in meant or _letters(word[0]) < 2:
            continue
        letters = "".join(letter for letter in word[0] if script_of(letter) not in ("", "Latin"))
        yield Odd(begin + word.start(), begin + word.end(), tuple(scripts), letters)


@functools.lru_cache(maxsize=4096)
def script_of(letter: str) -> str:
    """The script of a letter, such as `Latin`. Empty for a character that is no letter, or that counts as of no
    script."""
    if letter.isascii():
        return "Latin" if letter.isalpha() else ""
    if unicodedata.category(letter)[0] != "L":
        return ""
    name = unicodedata.name(letter, "")
    first = name.split(" ", 1)[0]
    if first in _FORMS:
        return _FORMS[first]
    return first.capitalize() if (first not in _NO_SCRIPTS and " LETTER " in name) or first in _TOGETHER else ""


def _letters(word: str) -> int:
    return sum(letter.isalpha() or bool(script_of(letter)) for letter in word)


def _like_latin(letter: str, known: set[str]) -> bool:
    """Whether the letter looks like a Latin one. Fullwidth letters do not, in a text with East Asian ones."""
    script = script_of(letter)
    if script == "Fullwidth":
        return not known & {"Cjk", "Hiragana", "Katakana", "Hangul"}
    return letter in _LIKE_LATIN or script in _FORMS.values() or script == "Cherokee"
