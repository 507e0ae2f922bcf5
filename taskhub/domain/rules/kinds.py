"""Refuses expressions in which a value stands where only true or false can: `tool.name`, `tool.name == "a" || "b"`.

Such an expression is in doubt for every call, so a rule that denies would deny calls that nobody meant. Each part of an
expression has one or more possible kinds of value. A part whose value is known only when a call is made, such as an
argument, may be of any kind. A part is refused if none of its kinds may stand where the part stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, NoReturn

from taskhub.domain.rules.reading import Group, Part, Token, invalid, parts_of


class Kind(Enum):
    """A kind of value. Its own value is how an error message names it."""

    TRUTH = "true or false"
    TEXT = "a text"
    NUMBER = "a number"
    LIST = "a list"
    MAP = "a map"
    TIME = "a time"
    DURATION = "a duration"
    NULL = "null"


Kinds = frozenset[Kind]

ANY: Final[Kinds] = frozenset(Kind)
TRUTH: Final[Kinds] = frozenset({Kind.TRUTH})
TEXT: Final[Kinds] = frozenset({Kind.TEXT})
NUMBER: Final[Kinds] = frozenset({Kind.NUMBER})
LIST: Final[Kinds] = frozenset({Kind.LIST})
MAP: Final[Kinds] = frozenset({Kind.MAP})
TIME: Final[Kinds] = frozenset({Kind.TIME})
DURATION: Final[Kinds] = frozenset({Kind.DURATION})

MEMBERS: Final[Mapping[str, Mapping[str, Kinds]]] = {
    "client": {**dict.fromkeys(("id", "name", "issuer", "subject", "program"), TEXT), "scopes": LIST},
    "person": {**dict.fromkeys(("name", "role"), TEXT), "groups": LIST},
    "server": {"name": TEXT},
    "tool": {
        **dict.fromkeys(("name", "title"), TEXT),
        **dict.fromkeys(("readOnly", "destructive", "idempotent", "openWorld"), TRUTH),
        "annotations": MAP,
    },
}
FUNCTIONS: Final[Mapping[str, Kinds]] = {
    **dict.fromkeys(("has", "like"), TRUTH),
    **dict.fromkeys(("double", "int", "size"), NUMBER),
    "string": TEXT,
    "timestamp": TIME,
    "duration": DURATION,
}
METHODS: Final[Mapping[str, Kinds]] = {
    **dict.fromkeys(("all", "contains", "endsWith", "exists", "exists_one", "matches", "startsWith"), TRUTH),
    "filter": LIST,
    "size": NUMBER,
}
"""The kinds that methods return. Methods that are not listed return a part of a time, which is a number."""
_WORDS: Final = {"true": TRUTH, "false": TRUTH, "null": frozenset({Kind.NULL})}
_RELATIONS: Final = frozenset({"==", "!=", "in", "<", "<=", ">", ">="})
_LOOPS: Final = frozenset({"all", "exists", "exists_one", "filter"})

_Parts = Sequence[Part]


@lru_cache(maxsize=2_000)
def check_kinds(text: str) -> None:
    """Raise `Invalid` if a part of the expression can never be what its place wants. The whole expression, operands of
    `&&`, `||` and `!`, and conditions of `?:` and of loops have to be true or false; the two sides of a comparison have
    to be of the same kind. The text has to be one that `expressions.compiled` accepts."""
    parts = parts_of(text)
    if not parts:
        return
    checker = _Checker(text)
    checker.truth(parts, "a rule matches where its expression is true")


class _Checker:
    def __init__(self, text: str) -> None:
        self.text = text

    def of(self, parts: _Parts) -> Kinds:
        """The kinds of value that the parts together may have. Raises `Invalid` if a part in them is refused."""
        if (at := _first(parts, "?")) is not None:
            otherwise = _first(parts, ":")
            if otherwise is None:
                return ANY
            self.truth(parts[:at], "? chooses by true or false")
            return self.of(parts[at + 1 : otherwise]) | self.of(parts[otherwise + 1 :])
        for sign in ("||", "&&"):
            operands = _split(parts, sign)
            if len(operands) > 1:
                for n, operand in enumerate(operands):
                    self.truth(
                        operand, f"{sign} joins what is true or false", operands[:n], {"||": "==", "&&": "!="}[sign]
                    )
                return TRUTH
        return self._relation(parts)

    def truth(self, parts: _Parts, why: str, before: Sequence[_Parts] = (), sign: str = "") -> None:
        """Raise `Invalid` if the value of the parts together cannot be a boolean. `why` ends the message; `before`, the
        operands before this one, and `sign` are for the advice in it (`_listed`)."""
        found = self.of(parts)
        if parts and Kind.TRUTH not in found:
            fix = self._listed(parts, before, sign) or self._compared(parts, found)
            self._refuse(f"{self._said(parts)} is {_named(found)}, but {why}", fix, parts)

    def _relation(self, parts: _Parts) -> Kinds:
        at = next((n for n, part in enumerate(parts) if isinstance(part, Token) and part.text in _RELATIONS), None)
        if at is None:
            return self._sum(parts)
        left, right, sign = parts[:at], parts[at + 1 :], parts[at].text
        if negated := bool(left) and left[0].text == "!":
            inner = self.of(left[1:])
            if Kind.TRUTH not in inner:
                problem = f"! stands before {self._said(left[1:])} alone, which is {_named(inner)}"
                self._refuse(problem, f"!({self._said(parts[1:])})", parts)
        one, other = TRUTH if negated else self.of(left), self.of(right)
        if sign == "in":
            if not other & (LIST | MAP):
                fix = f"{self._said(left)} in [{self._said(right)}]" if other == TEXT else ""
                self._refuse(f"{self._said(right)} is {_named(other)}, but in looks into a list or map", fix, right)
        elif not one & other and Kind.NULL not in one | other:
            self._refuse(
                f"{self._said(left)} is {_named(one)}, and {self._said(right)} is {_named(other)}: "
                "a comparison of them is always in doubt",
                f"!({self._said(parts[1:])})" if negated else self._same_kind(left, right, one, other),
                parts,
            )
        return TRUTH

    def _sum(self, parts: _Parts) -> Kinds:
        """The kinds of a sum, product or the like, which are never true or false; if the parts are none of these, what
        `_unary` returns."""
        operands, joined = _operands(parts)
        found = [self._unary(operand) for operand in operands]
        if len(found) == 1:
            return found[0]
        if joined & {"*", "/", "%"}:
            return NUMBER
        same = found[0] if len(found[0]) == 1 and all(one == found[0] for one in found) and "-" not in joined else None
        return same or NUMBER | TEXT | LIST | TIME | DURATION

    def _unary(self, parts: _Parts) -> Kinds:
        if not parts:
            return ANY
        n = next((n for n, part in enumerate(parts) if part.text not in ("!", "-")), len(parts) - 1)
        if n == 0:
            return self._member(parts)
        found = self._member(parts[n:])
        for sign in reversed(parts[:n]):
            if sign.text == "-":
                found = found & (NUMBER | DURATION | TRUTH) or NUMBER
            elif Kind.TRUTH not in found:
                self._refuse(
                    f"{self._said(parts[n:])} is {_named(found)}, but ! stands before what is true or false",
                    "",
                    parts[n:],
                )
            else:
                found = TRUTH
        return found

    def _member(self, parts: _Parts) -> Kinds:
        """The kinds of a value and the members, calls and indexes that follow it."""
        found, n = self._primary(parts)
        while n < len(parts):
            part = parts[n]
            if isinstance(part, Group):
                for inner in _split(part.parts, ","):
                    self.of(inner)
                found, n = ANY, n + 1
                continue
            name = parts[n + 1].text if n + 1 < len(parts) else ""
            given = parts[n + 2] if n + 2 < len(parts) else None
            if isinstance(given, Group) and given.opening == "(":
                self._given(name, given)
                found = METHODS.get(name, NUMBER)
                n += 3
            else:
                found = ANY
                n += 2
        return found

    def _primary(self, parts: _Parts) -> tuple[Kinds, int]:
        """The kinds of the value that the parts begin with, and the number of parts that it takes."""
        part = parts[0]
        following = parts[1] if len(parts) > 1 else None
        if isinstance(part, Group):
            inside = _split(part.parts, ",") if part.opening != "{" else _entries(part.parts)
            kinds = [self.of(inner) for inner in inside]
            return (kinds[0] if kinds else ANY) if part.opening == "(" else LIST if part.opening == "[" else MAP, 1
        if part.kind == "text":
            return TEXT, 1
        if part.kind == "number":
            return NUMBER, 1
        if isinstance(following, Group) and following.opening == "(":
            self._given(part.text, following)
            return FUNCTIONS.get(part.text, ANY), 2
        if part.text in _WORDS:
            return _WORDS[part.text], 1
        if part.text == "time":
            return TIME, 1
        if part.text == "args":
            return MAP, 1
        if part.text in MEMBERS and len(parts) > 2:
            return MEMBERS[part.text].get(parts[2].text, ANY), 3
        return ANY, 1  # an item of a list

    def _given(self, name: str, given: Group) -> None:
        """Check the arguments of a call in the expression."""
        inside = _split(given.parts, ",")
        if name in _LOOPS and len(inside) == 2:
            self.truth(inside[1], f"{name} asks what is true or false of each item")
            return
        for inner in inside:
            self.of(inner)

    @staticmethod
    def _refuse(problem: str, fix: str, parts: _Parts) -> NoReturn:
        raise invalid(f"{problem}. Perhaps: {fix}" if fix else problem, parts[0].at)

    def _said(self, parts: _Parts) -> str:
        """The parts as they are written in the expression, cut to 60 characters."""
        text = " ".join(self.text[parts[0].at : parts[-1].end].split())
        return text if len(text) <= 60 else f"{text[:59]}…"

    def _listed(self, parts: _Parts, before: Sequence[_Parts], sign: str) -> str:
        """Advice on how to compare one thing with several values, for an operand that is only a value (`parts`): if an
        operand in `before` compares that thing with a value by `sign`. Otherwise empty."""
        values = [self._said(parts)]
        for operand in reversed(before):
            at = _first(operand, sign)
            if at is not None:
                values = [self._said(operand[at + 1 :]), *reversed(values)]
                found = f"{self._said(operand[:at])} in [{', '.join(values)}]"
                return found if sign == "==" else f"!({found})"
            values.append(self._said(operand))
        return ""

    def _compared(self, parts: _Parts, found: Kinds) -> str:
        """Advice on how to make a condition of the parts; empty if there is no simple advice."""
        said = self._said(parts)
        if len(parts) == 1 and isinstance(parts[0], Token) and parts[0].kind == "text":
            return f"tool.name == {said}"
        if _first(parts, "?") is not None or len(found) > 1 or parts[0].text in ("(", "{") or parts[0].text in _WORDS:
            return ""
        if len(parts) == 1 and found == NUMBER:
            return ""
        if found == LIST:
            return f'"…" in {said}' if parts[0].text != "[" else f"tool.name in {said}"
        return {TEXT: f'{said} == "…"', NUMBER: f"{said} > 0", TIME: f"{said}.getHours() < 6"}.get(found, "")

    def _same_kind(self, left: _Parts, right: _Parts, one: Kinds, other: Kinds) -> str:
        """Advice on how to compare two parts of different kinds; empty if there is no simple advice."""
        first, second = self._said(left), self._said(right)
        if one == TRUTH and second.strip("\"'") in ("true", "false"):
            return f"{first} == {second[1:-1]}"
        if one == TEXT and other == NUMBER:
            return f'{first} == "{second}"'
        if one == TEXT and other == LIST:
            return f"{first} in {second}"
        if one == LIST and other == TEXT:
            return f"{second} in {first}"
        return ""


def _named(kinds: Kinds) -> str:
    return next(iter(kinds)).value if len(kinds) == 1 else "neither true nor false"


def _first(parts: _Parts, sign: str) -> int | None:
    return next((n for n, part in enumerate(parts) if isinstance(part, Token) and part.text == sign), None)


def _split(parts: _Parts, sign: str) -> list[_Parts]:
    """The parts, split at each token that is `sign`; an empty list if there are no parts."""
    found: list[_Parts] = []
    begin = 0
    for n, part in enumerate(parts):
        if isinstance(part, Token) and part.text == sign:
            found.append(parts[begin:n])
            begin = n + 1
    return [*found, parts[begin:]] if parts else []


def _entries(parts: _Parts) -> list[_Parts]:
    """The keys and values of a map, in one list."""
    found: list[_Parts] = []
    for entry in _split(parts, ","):
        at = _first(entry, ":")
        found += [entry] if at is None else [entry[:at], entry[at + 1 :]]
    return found


def _operands(parts: _Parts) -> tuple[list[_Parts], set[str]]:
    """The operands of additions, multiplications and the like, and the signs between them."""
    found: list[_Parts] = []
    signs: set[str] = set()
    begin = 0
    for n, part in enumerate(parts):
        before = parts[n - 1] if n > begin else None
        sign = isinstance(part, Token) and part.kind == "sign" and part.text in ("+", "-", "*", "/", "%")
        if sign and before is not None and not (isinstance(before, Token) and before.text in ("!", "-")):
            found.append(parts[begin:n])
            signs.add(part.text)
            begin = n + 1
    return [*found, parts[begin:]], signs
