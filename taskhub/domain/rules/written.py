"""Writes conditions on arguments as expressions, for people who pick them in a form."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.core.rules import Client, storable
from taskhub.domain.rules.expressions import compiled
from taskhub.domain.rules.kinds import check_kinds
from taskhub.lib.signs import escaped

MAX_WHOLE: Final = 2**63
"""Whole numbers in CEL are smaller than this, also without their sign."""

_PLAIN: Final = re.compile(r"(?!(?:in|true|false|null)$)[A-Za-z_][A-Za-z0-9_]*")


class Comparison(StrEnum):
    """How an argument is compared with a value."""

    IS = "is"
    IS_NOT = "is_not"
    LIKE = "like"
    GREATER = "greater"
    LESS = "less"
    STARTS = "starts"
    ONE_OF = "one_of"
    BETWEEN = "between"
    PRESENT = "present"
    ABSENT = "absent"


def literal(value: Any) -> str:
    """A text, number, truth value or `None` as CEL writes it. Invisible characters are written as escapes: a character
    that reverses the text of a call must not reverse what people see in the input of an expression. Raises `Invalid`,
    with the field `value`, for anything else, and for what CEL cannot write."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and abs(value) < MAX_WHOLE:
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, str) and storable(value):
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped(text, _escape)}"'
    if isinstance(value, (int, float)):
        raise Invalid(f"Give a number between -{MAX_WHOLE:,} and {MAX_WHOLE:,}.", field="value")
    raise Invalid("Give a text, a number, true, false or null; write an expression for anything else.", field="value")


def _escape(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


def of_tool(server: str, tool: str = "") -> str:
    """The condition that a call is of the tool that the server names `tool`; or of any tool of the server if `tool` is
    empty."""
    of_server = f"server.name == {literal(server)}"
    return f"{of_server} && tool.name == {literal(tool)}" if tool else of_server


def of_argument(name: str, comparison: Comparison, value: Any = None) -> str:
    """The condition on an argument of the call. `value` is a list of values for `ONE_OF`, and for `BETWEEN` two
    numbers, which are both allowed values. It is ignored for `PRESENT` and `ABSENT`.

    Raises `Invalid`, which names the field `argument` or `value`.
    """
    if not name or not storable(name):
        raise Invalid("Name the argument.", field="argument")
    plain = _PLAIN.fullmatch(name)
    quoted = literal(name)
    argument = f"args.{name}" if plain else f"args[{quoted}]"
    match comparison:
        case Comparison.PRESENT | Comparison.ABSENT:
            present = f"has({argument})" if "\\" not in quoted else f"({quoted} in args)"
            return present if comparison is Comparison.PRESENT else f"!{present}"
        case Comparison.ONE_OF:
            return _one_of(argument, value)
        case Comparison.BETWEEN:
            return _between(argument, value)
        case Comparison.IS | Comparison.IS_NOT:
            return f"{argument} {'==' if comparison is Comparison.IS else '!='} {literal(value)}"
        case Comparison.LIKE:
            return f"like({argument}, {literal(value)})"
        case Comparison.GREATER | Comparison.LESS:
            if not _is_number(value):
                raise Invalid("Give a number.", field="value")
            return f"{argument} {'>' if comparison is Comparison.GREATER else '<'} {literal(value)}"
        case Comparison.STARTS:
            if not isinstance(value, str) or not value:
                raise Invalid("Give the text that it starts with.", field="value")
            return f"{argument}.startsWith({literal(value)})"


def _one_of(argument: str, values: Any) -> str:
    if not isinstance(values, (list, tuple)) or not values:
        raise Invalid("Give the values, with commas between them.", field="value")
    if len(values) == 1:
        return f"{argument} == {literal(values[0])}"
    return f"{argument} in [{', '.join(map(literal, values))}]"


def _between(argument: str, bounds: Any) -> str:
    if not isinstance(bounds, (list, tuple)) or len(bounds) != 2 or not all(map(_is_number, bounds)):
        raise Invalid("Give two numbers, with a comma between them.", field="value")
    low, high = map(literal, bounds)
    return f"{argument} >= {low} && {argument} <= {high}"


def of_no_others(names: Sequence[str]) -> str:
    """The condition that a call has no arguments besides `names`."""
    return f"args.all(name, name in [{', '.join(map(literal, names))}])" if names else "size(args) == 0"


def of_client(client: Client) -> str:
    """The condition that a call is of this client, and not of another client with the same name."""
    parts = (("issuer", client.issuer), ("subject", client.subject), ("id", client.client_id))
    return " && ".join(f"client.{name} == {literal(value)}" for name, value in parts)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def joined(when: str, condition: str) -> str:
    """The expression that is true if `when` and `condition` both are. Raises `Invalid`, with the field `when`, if
    `when` or the result is not allowed as the expression of a rule."""
    compiled(when)
    if not when.strip():
        return condition
    # The bracket and `&&` stand on lines of their own, because a comment in `when` reaches to the end of its line.
    before = f"({when.strip()}\n)" if "||" in when or "?" in when else when.strip()
    both = f"{before}\n&& {condition}"
    compiled(both)
    check_kinds(both)
    return both


def typed_list(text: str, kind: str) -> list[Any]:
    """The values of a text in which they stand with commas between them, each read by `typed`; or the items of a JSON
    array."""
    if text.lstrip().startswith("["):
        found = typed(text, "")
        if isinstance(found, list):
            return found
    return [typed(part.strip(), kind) for part in text.split(",") if part.strip()]


def typed(text: str, kind: str) -> Any:
    """The value that was typed for an argument of the JSON type `kind`. For `string` it is the text; otherwise the JSON
    that the text spells, or the text itself if it is no JSON."""
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
