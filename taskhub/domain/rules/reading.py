"""Reads the text of an expression: its words and signs, and which of them stand in brackets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from taskhub.core.errors import Invalid

MAX_TOKENS: Final = 400
"""The most words and signs in an expression."""
MAX_DEPTH: Final = 16
"""How deep brackets may be nested."""

_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|//[^\n]*)
      | (?P<text>[bB]?[rR][bB]?(?:\"{3}.*?\"{3}|'{3}.*?'{3}|\"[^\"\n]*\"|'[^'\n]*')  # in a raw text nothing is escaped
          |[bB]?(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}
                          |\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))
      | (?P<number>0x[0-9a-fA-F]+u?|(?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?u?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:,.()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
"""The closing bracket, by its opening bracket."""

_MEANT: Final = {
    "=": "==",
    "&": "&&",
    "|": "||",
    "and": "&&",
    "or": "||",
    "not": "!",
    "is": "==",
    "true": "true",
    "false": "false",
    "none": "null",
}
"""What CEL has instead of words and signs of other languages, which are in lower case here."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, sign, number or text of an expression. `kind`: `name`, `sign`, `number` or `text`. `at`: the index of its
    first character."""

    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        """The index of the character after it."""
        return self.at + len(self.text)


@dataclass(frozen=True, slots=True)
class Group:
    """Brackets and the parts between them. `opening`: the opening bracket; `at` and `end`: where the group begins and
    ends."""

    opening: str
    parts: tuple[Part, ...]
    at: int
    end: int

    @property
    def text(self) -> str:
        """The bracket that opens the group."""
        return self.opening


Part = Token | Group


def parts_of(text: str) -> tuple[Part, ...]:
    """The words, signs and brackets of the text. Raises `Invalid` if it has too many, or cannot be read."""
    tokens = list(_tokens(text))
    if len(tokens) > MAX_TOKENS:
        raise Invalid(f"An expression has at most {MAX_TOKENS} words and signs, not {len(tokens)}.", field="when")
    return _grouped(tokens, len(text))


def perhaps(written: str) -> str:
    """What was perhaps meant by a word or sign that CEL does not know, as text behind the problem; empty if nothing is
    known."""
    meant = _MEANT.get(written.lower())
    return f". Perhaps: {meant}" if meant else ""


def invalid(problem: str, at: int) -> Invalid:
    """An error about the expression. `at`: the index of the character at which the problem is."""
    return Invalid(f"At character {at + 1}: {problem}.", field="when")


def _tokens(text: str) -> Iterable[Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise invalid(f"{text[at]!r} means nothing here{perhaps(text[at])}", at)
        if found.lastgroup != "blank":
            yield Token(found.lastgroup, found.group(), at)
        at = found.end()


def _grouped(tokens: list[Token], end: int) -> tuple[Part, ...]:
    """The tokens, of which those in brackets are put into groups. `end`: the length of the text, for errors."""
    open_groups: list[tuple[Token, list[Part]]] = []
    parts: list[Part] = []
    for token in tokens:
        if token.kind == "sign" and token.text in CLOSING:
            if len(open_groups) >= MAX_DEPTH:
                raise invalid(f"brackets may be nested {MAX_DEPTH} deep", token.at)
            open_groups.append((token, parts))
            parts = []
        elif token.kind == "sign" and token.text in CLOSING.values():
            if not open_groups or CLOSING[open_groups[-1][0].text] != token.text:
                raise invalid(f"{token.text} closes nothing", token.at)
            opening, around = open_groups.pop()
            around.append(Group(opening.text, tuple(parts), opening.at, token.end))
            parts = around
        else:
            parts.append(token)
    if open_groups:
        raise invalid(f"{open_groups[-1][0].text} is not closed", end)
    return tuple(parts)
