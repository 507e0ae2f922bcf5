"""The short name of a call in a list: its arguments in a few words, so that two calls of one tool can be told apart."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from taskhub.core.secrets import HIDDEN, masked
from taskhub.lib import jsonx

BEGINNING: Final = 4_000
"""How many characters of a call's arguments, as JSON, are read for a list."""
LONGEST_VALUE: Final = 40
LONGEST: Final = 80
_SEARCHED: Final = 1_000
"""How many characters of a text are searched for secrets, before the text is cut to `LONGEST_VALUE`."""
_CONSIDERED: Final = 200
"""The most arguments among which the shortest are looked for."""
_MEMBERS: Final = 5
"""The most members of an array or object that are written, and the most arguments besides those in `first`."""
_DEPTH: Final = 2
_BETWEEN: Final = " · "
_CUT: Final = "…"

_decoder = json.JSONDecoder()


def begun(text: str) -> dict[str, Any]:
    """The arguments of a call. `text` is their JSON, or the beginning of that: then these are all complete arguments,
    and the beginning of a string that is cut off."""
    try:
        found = json.loads(text)
    except RecursionError:
        return {}
    except ValueError:
        return dict(jsonx.repaired(_members(text)))
    return found if isinstance(found, dict) else {}


def named(params: dict[str, Any]) -> dict[str, Any]:
    """The arguments that are named by the rule that asked for the approval, from the params of the approval's
    question."""
    decided = params.get("decided")
    found = decided.get("named") if isinstance(decided, dict) else None
    return found if isinstance(found, dict) else {}


def short(arguments: dict[str, Any], first: Iterable[str] = ()) -> str:
    """The arguments on one line: `first`, then the shortest ones of the others in the order of the call, so that rows
    of one tool read as columns; as many as fit into `LONGEST` characters, but at least one. A string is written without
    its name, any other value after its name. Possible secrets are hidden. The result is foreign text."""
    begin = [name for name in dict.fromkeys(first) if name in arguments]
    others = [
        (name, value)
        for name, value in islice(arguments.items(), _CONSIDERED)
        if name not in begin and value not in (None, "", [], {}) and masked(name, "") != HIDDEN
    ]
    shortest = [name for name, _ in sorted(others, key=_size)[:_MEMBERS]]
    words: dict[str, str] = {}
    for name in (*begin, *shortest):
        word = _word(name, arguments[name])
        if words and len(_BETWEEN.join([*words.values(), word])) > LONGEST:
            break
        words[name] = word
    shown = [*(name for name in begin if name in words), *(name for name, _ in others if name in words)]
    told = _BETWEEN.join(words[name] for name in shown)
    return told if len(words) == len({*begin, *shortest}) else f"{told}{_BETWEEN}{_CUT}"


def _members(text: str) -> dict[str, Any]:
    """The members of an object whose JSON is cut off."""
    found: dict[str, Any] = {}
    at = _past(text, 0, "{")
    try:
        while at:
            name, at = _decoder.raw_decode(text, at)
            at = _past(text, at, ":")
            if text.startswith('"', at):
                found[name], at = _text(text, at)
            else:
                value, at = _decoder.raw_decode(text, at)
                if at == len(text):
                    break  # a number, whose last digits may be cut off
                found[name] = value
            at = _past(text, at, ",")
    except (ValueError, RecursionError):
        pass
    return found


def _text(text: str, at: int) -> tuple[str, int]:
    """The JSON string that begins at `at`, decoded, and the position of its end. It may be cut off, also in the middle
    of an escape."""
    try:
        return _decoder.raw_decode(text, at)
    except ValueError:
        for cut in range(6):
            try:
                return _decoder.raw_decode(f'{text[: len(text) - cut]}"', at)[0], len(text)
            except ValueError:
                continue
        raise


def _past(text: str, at: int, sign: str) -> int:
    """The position after `sign` and the blanks around it; 0 if another sign comes next."""
    rest = text[at : at + 10].lstrip()
    if not rest.startswith(sign):
        return 0
    at = text.index(sign, at) + 1
    while text[at : at + 1].isspace():
        at += 1
    return at


def _size(argument: tuple[str, Any]) -> tuple[bool, int]:
    name, value = argument
    if isinstance(value, str):
        return False, len(value)
    if isinstance(value, (dict, list)):
        return True, 0
    return False, len(name) + 1 + len(json.dumps(value))


def _word(name: str, value: Any) -> str:
    if isinstance(value, str) and not _reads_like_another(value):
        word = _cut(masked(name, value[:_SEARCHED]))
        return word if word != HIDDEN else f"{_cut(name, LONGEST_VALUE // 2)} {HIDDEN}"
    return f"{_cut(name, LONGEST_VALUE // 2)} {_cut(_shown(name, value, _DEPTH))}"


def _shown(name: str, value: Any, depth: int) -> str:
    if isinstance(value, str):
        return json.dumps(masked(name, value[:_SEARCHED]), ensure_ascii=False)
    if not isinstance(value, (dict, list)):
        return HIDDEN if masked(name, "") == HIDDEN else json.dumps(value)
    left, right = "{}" if isinstance(value, dict) else "[]"
    if not depth:
        return f"{left}{_CUT}{right}" if value else left + right
    if isinstance(value, dict):
        some = islice(value.items(), _MEMBERS)
        inside = [f"{key[:LONGEST_VALUE]}: {_shown(key, one, depth - 1)}" for key, one in some]
    else:
        inside = [_shown(name, one, depth - 1) for one in value[:_MEMBERS]]
    return f"{left}{', '.join([*inside, _CUT] if len(value) > _MEMBERS else inside)}{right}"


def _reads_like_another(text: str) -> bool:
    """Whether the string, written without quotes, would look like another JSON value, such as a number, or be blank."""
    try:
        return not isinstance(json.loads(text[:_SEARCHED]), str)
    except (ValueError, RecursionError):
        return not text.strip()  # blank


def _cut(text: str, most: int = LONGEST_VALUE) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}{_CUT}"
