"""Expressions of rules: a bounded part of CEL (https://cel.dev), checked and compiled once, evaluated for a call.

An expression is true, false or *in doubt*. It is in doubt if evaluating it ends with an error. As in CEL, an error in
one part need not be an error of the whole: `a || b` is true if `a` is, whatever `b` is. More ends with an error here
than in CEL: a comparison of values of different types, a comparison of null with something else, and every use of an
argument that the call does not have, or that does not fit the tool's schema. So `args.amount > 100` is in doubt for the
text "200", and not false.

CEL has no loops except over lists. The limits below, and those of `reading`, bound what the rest costs.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import cel

from taskhub.core.errors import Invalid
from taskhub.domain.rules import comparisons
from taskhub.domain.rules.reading import CLOSING, Group, Part, Token, invalid, parts_of, perhaps

MAX_TEXT: Final = 4_000
"""The most characters of an expression."""
MAX_LOOPS: Final = 4
"""The most uses of `LOOPS` in an expression. They cannot be nested."""
MAX_SUMS: Final = 20
"""The most additions in an expression. An addition may join long texts."""
MAX_MATCHES: Final = 8
"""The most regular expressions in an expression."""
MAX_PATTERN: Final = 200
"""The most characters of a regular expression."""

MAX_MS: Final = 50
"""Milliseconds of computing for all rules of a call. Comparisons after that are in doubt."""

MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "person": frozenset({"name", "role", "groups"}),
    "client": frozenset({"id", "name", "issuer", "subject", "scopes", "program"}),
    "server": frozenset({"name"}),
    "tool": frozenset({"name", "title", "annotations", "readOnly", "destructive", "idempotent", "openWorld"}),
}
"""The variables with fixed members, and these members."""
ARGUMENTS: Final = "args"
TIME: Final = "time"
LOOPS: Final = frozenset({"exists", "all", "exists_one", "filter"})
FUNCTIONS: Final = frozenset({"double", "duration", "has", "int", "like", "size", "string", "timestamp"})
PARTS_OF_TIME: Final = frozenset(
    {"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMinutes", "getMonth"}
)
METHODS: Final = LOOPS | PARTS_OF_TIME | {"contains", "endsWith", "matches", "size", "startsWith"}

_FUNCTIONS: Final = {
    "like": comparisons.like,
    "__same": comparisons.same,
    "__among": comparisons.among,
    "__matches": comparisons.matches,
}

_WORDS: Final = frozenset({"true", "false", "null", "in"})
_BETWEEN: Final = frozenset({",", "?", ":", "||", "&&"})
_COMPARED: Final = {"==": "__same", "!=": "__same", "in": "__among"}
_RELATIONS: Final = frozenset({*_COMPARED, "<", "<=", ">", ">="})
_SCALARS: Final = re.compile(r"[rR]?(\"\"\"|'''|\"|')(.*)\1", re.DOTALL)

logging.getLogger("cel").setLevel(logging.ERROR)  # it warns of errors, which are a normal result here


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. `arguments`: the names of the arguments that it uses; `None` if it may use any argument.
    `named`: the arguments that it names, even if it may use any. `compared`: the arguments of which it uses the value,
    and not only whether they are there. The other fields say whether it uses the time (`timed`), the name that the
    client's program gives itself (`of_program`), the scopes of the client's token (`of_scopes`), the tool (`of_tool`),
    or the person who signed in the client (`of_person`)."""

    text: str
    arguments: frozenset[str] | None
    named: frozenset[str]
    compared: frozenset[str]
    timed: bool
    of_program: bool
    of_scopes: bool
    of_tool: bool
    of_person: bool
    _program: Any

    @property
    def lasting(self) -> bool:
        """Whether the expression depends on nothing but client, person, server and tool."""
        return self.arguments == frozenset() and not self.timed

    def met(self, values: Values) -> bool | None:
        """Whether the expression is true; `None` if that is in doubt."""
        try:
            found = self._program.execute(values.context)
        except Exception:  # noqa: BLE001 - whatever it is, the library could not decide
            return None
        return found if isinstance(found, bool) else None


class Values:
    """The variables and functions of expressions. Built once for a call, for all of its rules. They have `MAX_MS` of
    computing time of the thread that built them; what passes between `pause` and `resume` does not count."""

    __slots__ = ("_spent_at", "_until", "context")

    def __init__(self, variables: Mapping[str, Any]) -> None:
        """`variables`, by name: those of `MEMBERS` and `TIME`, as far as they are known, and those of `argument_values`
        and `absent_values`."""
        self.context = cel.Context()
        for name, value in variables.items():
            # JSON may hold what CEL cannot, such as numbers of 400 digits and halves of surrogate pairs. Without the
            # variable every use of it is in doubt.
            with suppress(ValueError, OverflowError):
                self.context.add_variable(name, value)
        self._until = time.perf_counter() + MAX_MS / 1000
        self._spent_at = time.thread_time() + MAX_MS / 1000
        for name, function in _FUNCTIONS.items():
            self.context.add_function(name, partial(self._in_time, function))

    def pause(self) -> None:
        """Stop the clock, because the thread does something else now."""
        self._spent_at -= time.thread_time()

    def resume(self) -> None:
        """Let the clock go on with the time that was left."""
        left, now = self._spent_at, time.thread_time()
        self._until = time.perf_counter() + left
        self._spent_at = now + left

    def _in_time(self, function: Callable[[Any, Any], bool | None], one: Any, other: Any) -> bool | None:
        # Only the time in which this thread runs counts, which on a busy machine is less than the time that passes. The
        # clock of the time that passes is read first, because reading it costs less.
        if time.perf_counter() < self._until or time.thread_time() < self._spent_at:
            return function(one, other)
        return None


def argument_values(arguments: Mapping[str, Any], unfit: Set[str]) -> dict[str, Any]:
    """The variables for the arguments that a call has, defaults included. The arguments named in `unfit` are present,
    but every use of their value is in doubt."""
    values: dict[str, Any] = {_present(name): True for name in arguments}
    values |= {_variable(name): value for name, value in arguments.items() if name not in unfit}
    if not unfit:
        values["__args"] = dict(arguments)
    return values


def absent_values(names: Iterable[str]) -> dict[str, Any]:
    """The variables that say that a call does not have these arguments."""
    return {_present(name): False for name in names}


@lru_cache(maxsize=2_000)
def compiled(text: str) -> Expression:
    """The compiled expression; an empty text is true for every call. Raises `Invalid`, whose message says at which
    character, counted from 1, the problem is."""
    if len(text) > MAX_TEXT:
        raise Invalid(f"An expression has at most {MAX_TEXT:,} characters, not {len(text):,}.", field="when")
    parts = parts_of(text)
    writer = _Writer()
    written = writer.sequence(parts, frozenset()) if parts else "true"
    try:
        program = cel.compile(written)
    except ValueError:
        raise Invalid("This is no expression of CEL.", field="when") from None
    arguments = None if writer.any_argument else frozenset(writer.arguments)
    return Expression(
        text=text,
        arguments=arguments,
        named=frozenset(writer.arguments),
        compared=frozenset(writer.compared),
        timed=writer.timed,
        of_program=writer.of_program,
        of_scopes=writer.of_scopes,
        of_tool=writer.of_tool,
        of_person=writer.of_person,
        _program=program,
    )


class _Writer:
    """Checks an expression, and rewrites it for CEL so that its comparisons and arguments mean what this module
    says."""

    def __init__(self) -> None:
        self.arguments: set[str] = set()
        self.compared: set[str] = set()
        self.any_argument = False
        self.timed = False
        self.of_program = False
        self.of_scopes = False
        self.of_tool = False
        self.of_person = False
        self._loops = self._sums = self._matches = 0

    def sequence(self, parts: tuple[Part, ...], bound: frozenset[str]) -> str:
        """The operands and the operators between them, rewritten. `bound`: the variable of the loop around them; empty
        outside of loops."""
        written: list[str] = []
        operand: list[Part] = []
        for part in parts:
            if isinstance(part, Token) and part.kind == "sign" and part.text in _BETWEEN:
                written += [self._relation(operand, bound), part.text]
                operand = []
            else:
                operand.append(part)
        return " ".join([*written, self._relation(operand, bound)])

    def _relation(self, parts: list[Part], bound: frozenset[str]) -> str:
        places = [n for n, part in enumerate(parts) if isinstance(part, Token) and part.text in _RELATIONS]
        if len(places) > 1:
            raise invalid("comparisons in a row need brackets", parts[places[1]].at)
        if not places:
            return self._value(parts, bound)
        sign = parts[places[0]].text
        left, right = (self._value(side, bound) for side in (parts[: places[0]], parts[places[0] + 1 :]))
        if not left or not right:
            raise invalid(f"{sign} compares two values", parts[places[0]].at)
        if sign not in _COMPARED or "null" in (left, right):
            return f"{left} {sign} {right}"
        return f"{'!' if sign == '!=' else ''}{_COMPARED[sign]}({left}, {right})"

    def _value(self, parts: list[Part], bound: frozenset[str]) -> str:
        written: list[str] = []
        n = 0
        while n < len(parts):
            text, used = self._part(parts, n, bound)
            written.append(text)
            n += used
        return " ".join(written)

    def _part(self, parts: list[Part], n: int, bound: frozenset[str]) -> tuple[str, int]:
        """The part at `n`, rewritten, and the number of parts that were used."""
        part = parts[n]
        member = n > 0 and parts[n - 1].text == "."
        if isinstance(part, Group):
            before = parts[n - 1] if n else None
            if part.opening == "{" and isinstance(before, Token) and before.kind == "name":
                raise invalid("messages cannot be made", part.at)
            return part.opening + self.sequence(part.parts, bound) + CLOSING[part.opening], 1
        if part.kind == "text" and re.match(r"\w*[bB]", part.text):
            raise invalid("bytes cannot be compared with anything here", part.at)
        if part.text == "+":
            self._sums = self._count(self._sums, MAX_SUMS, "additions", part.at)
        if part.kind != "name":
            return part.text, 1
        following = parts[n + 1] if n + 1 < len(parts) else None
        called = isinstance(following, Group) and following.opening == "("
        if called and isinstance(following, Group):
            return self._call(part, following, member, bound)
        if member or part.text in _WORDS or part.text in bound:
            return part.text, 1
        return self._variable(parts, n)

    def _call(self, name: Token, given: Group, member: bool, bound: frozenset[str]) -> tuple[str, int]:
        if name.text not in (METHODS if member else FUNCTIONS):
            known = ", ".join(sorted(METHODS if member else FUNCTIONS))
            hint = "" if member else perhaps(name.text)
            raise invalid(f"there is no function {name.text[:40]}; there are {known}{hint}", name.at)
        if name.text == "matches":
            return self._matched(name, given), 2
        if name.text in PARTS_OF_TIME and given.parts:
            raise invalid(f"{name.text} takes nothing: the time is in UTC", given.at)
        if name.text == "has" and (told := self._argument(given.parts, 0)) and told[1] == len(given.parts):
            return _present(told[0]), 2
        if member and name.text in LOOPS:
            variable = given.parts[0] if given.parts else None
            if bound:
                raise invalid(f"{name.text} cannot stand in another loop", name.at)
            if not isinstance(variable, Token) or variable.kind != "name" or _is_known(variable.text):
                raise invalid(f"{name.text} needs a name of its own for each item", name.at)
            self._loops = self._count(self._loops, MAX_LOOPS, "loops", name.at)
            bound = frozenset({variable.text})
        return f"{name.text}({self.sequence(given.parts, bound)})", 2

    def _matched(self, name: Token, given: Group) -> str:
        """The call of `matches`, rewritten to our own function. That uses RE2, as CEL wants, which takes time in
        proportion to the text, and unlike `cel` it keeps compiled patterns."""
        self._matches = self._count(self._matches, MAX_MATCHES, "regular expressions", name.at)
        pattern = given.parts[0] if len(given.parts) == 1 else None
        if not isinstance(pattern, Token) or pattern.kind != "text":
            raise invalid("a regular expression is given as a text", name.at)
        if len(pattern.text) > MAX_PATTERN:
            raise invalid(f"a regular expression has at most {MAX_PATTERN} characters", pattern.at)
        try:
            comparisons.pattern(cel.compile(pattern.text).execute({}))
        except ValueError:
            raise invalid("this is no regular expression of RE2", pattern.at) from None
        return f"__matches({pattern.text})"

    def _variable(self, parts: list[Part], n: int) -> tuple[str, int]:
        part = parts[n]
        if part.text == ARGUMENTS:
            if told := self._argument(tuple(parts), n):
                self.arguments.add(told[0])
                self.compared.add(told[0])
                return _variable(told[0]), told[1]
            self.any_argument = True
            return "__args", 1
        if part.text == TIME:
            self.timed = True
            return part.text, 1
        members = MEMBERS.get(part.text)
        if members is None:
            known = ", ".join(sorted([*MEMBERS, ARGUMENTS, TIME]))
            raise invalid(f"there is no {part.text[:40]}; there are {known}{perhaps(part.text)}", part.at)
        name = parts[n + 2] if n + 2 < len(parts) and parts[n + 1].text == "." else None
        if not isinstance(name, Token) or name.text not in members:
            raise invalid(f"{part.text} has the members {', '.join(sorted(members))}", part.at)
        self.of_tool = self.of_tool or part.text == "tool"
        self.of_person = self.of_person or part.text == "person"
        self.of_program = self.of_program or (part.text, name.text) == ("client", "program")
        self.of_scopes = self.of_scopes or (part.text, name.text) == ("client", "scopes")
        return part.text, 1

    def _argument(self, parts: tuple[Part, ...], n: int) -> tuple[str, int] | None:
        """The name of the argument at `n`, written as `args.name` or `args["name"]`, and the number of parts that this
        takes; `None` if the parts name no single argument."""
        if n >= len(parts) or parts[n].text != ARGUMENTS or n + 1 >= len(parts):
            return None
        following = parts[n + 1]
        name = parts[n + 2] if n + 2 < len(parts) else None
        called = n + 3 < len(parts) and parts[n + 3].text == "("
        if following.text == "." and isinstance(name, Token) and name.kind == "name" and not called:
            self.arguments.add(name.text)
            return name.text, 3
        if isinstance(following, Group) and following.opening == "[" and len(following.parts) == 1:
            text = following.parts[0]
            plain = _SCALARS.fullmatch(text.text) if isinstance(text, Token) and text.kind == "text" else None
            if plain and "\\" not in plain[2]:
                self.arguments.add(plain[2])
                return plain[2], 2
        return None

    @staticmethod
    def _count(before: int, most: int, what: str, at: int) -> int:
        if before >= most:
            raise invalid(f"an expression has at most {most} {what}", at)
        return before + 1


def _is_known(name: str) -> bool:
    return name in MEMBERS or name in _WORDS or name in (ARGUMENTS, TIME) or name.startswith("__")


def _variable(argument: str) -> str:
    return f"__arg_{argument.encode('utf-8', 'surrogatepass').hex()}"


def _present(argument: str) -> str:
    return f"__has_{argument.encode('utf-8', 'surrogatepass').hex()}"
