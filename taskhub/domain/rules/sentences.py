"""The sentence of a rule that says what will happen: checked when it is saved, and filled in when people are asked.

`{args.service}` is the place of an argument, `{args.target.region}` that of a member of an argument; `{{` and `}}`
stand for braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.core.rules import Rule
from taskhub.core.secrets import masked
from taskhub.domain.rules.conditions import MISSING, schema_of
from taskhub.lib import jsonx

MAX_PLACES: Final = 10
"""The most places for arguments in a sentence."""
MAX_SHOWN: Final = 200
"""The most characters of a value in a sentence."""
NOT_GIVEN: Final = "(not given)"
_SEARCHED: Final = 1_000
"""Characters of a value that are searched for secrets before it is cut to `MAX_SHOWN`."""
_PART: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PATH: Final = re.compile(r"args((?:\.[^.\[\]\"']+)+)")


def check_sentences(rules: Sequence[Rule]) -> None:
    """Raise `Invalid` if a sentence has a place for anything but an argument, or too many places. The error's `field`
    is `rules.N.sentence`, where N counts from 0."""
    for place, rule in enumerate(rules):
        try:
            paths = places(rule.sentence)
        except Invalid as error:
            raise Invalid(error.message, field=f"rules.{place}.sentence") from None
        if len(paths) > MAX_PLACES:
            raise Invalid(
                f"At most {MAX_PLACES} places for arguments, not {len(paths)}.", field=f"rules.{place}.sentence"
            )


def filled_in(sentence: str, arguments: Mapping[str, Any], schema: Any) -> list[str]:
    """The sentence for these arguments, in parts: text of the rule and values of the call in turn, beginning with text.
    `schema` is the tool's `inputSchema`: its defaults stand in for missing arguments."""
    told = [""]
    for text, path in _parts(sentence):
        told[-1] += text
        if path:
            told += [_shown(path, _value(path, arguments, schema)), ""]
    return told


def places(sentence: str) -> tuple[tuple[str, ...], ...]:
    """The paths of the arguments that have a place in the sentence. Raises `Invalid` for a place of anything else."""
    return tuple(path for _, path in _parts(sentence) if path)


def may_have(path: tuple[str, ...], schema: Any) -> bool:
    """Whether a call may have a value at the path, according to the tool's `inputSchema`: the schema lists the
    argument, and if the schema of the argument lists its members, also the member."""
    rule = schema_of(schema, path[0])
    if rule is MISSING:
        return False
    for name in path[1:]:
        if not isinstance(rule, dict) or rule.get("type") != "object" or not isinstance(rule.get("properties"), dict):
            return True
        rule = schema_of(rule, name)
        if rule is MISSING:
            return False
    return True


def _parts(sentence: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Pairs of a text and the path of the argument that follows it; the path is empty if no argument follows."""
    done = 0
    for found in _PART.finditer(sentence):
        text = sentence[done : found.start()]
        done = found.end()
        if found[0] in ("{{", "}}"):
            yield text + found[0][0], ()
            continue
        path = _PATH.fullmatch(found[1] or "")
        if path is None:
            raise Invalid(
                f"{found[0][:60]} is no place for an argument: write {{args.name}}, or {{{{ and }}}} for braces."
            )
        yield text, tuple(path[1][1:].split("."))
    yield sentence[done:], ()


def _value(path: tuple[str, ...], arguments: Mapping[str, Any], schema: Any) -> Any:
    rule = schema_of(schema, path[0])
    value = arguments.get(path[0], rule.get("default", MISSING) if isinstance(rule, dict) else MISSING)
    for name in path[1:]:
        if isinstance(value, dict):
            value = value.get(name, MISSING)
        elif isinstance(value, list):
            value = next((one for at, one in zip(count(), value, strict=False) if str(at) == name), MISSING)
        else:
            return MISSING
    return value


def _shown(path: tuple[str, ...], value: Any) -> str:
    if value is MISSING:
        return NOT_GIVEN
    text = value if isinstance(value, str) and value else jsonx.encode(value).decode()
    text = masked(path[-1], text[:_SEARCHED])
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
