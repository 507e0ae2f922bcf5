"""Strict JSON in, compact JSON out.

The decoder refuses what two parsers could read differently: bytes that are not strict
UTF-8, duplicate keys, NaN and infinities (spelled out or by overflow such as `1e400`),
lone surrogates and nesting beyond `MAX_DEPTH`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import orjson

MAX_DEPTH = 64
"""Deepest nesting accepted, in arrays and objects."""

MAX_NODES = 100_000
"""The most values accepted in one document."""

_MAX_NUMBER = sys.float_info.max


class JsonError(ValueError):
    """The bytes are not one strict JSON document; the message says why."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonError(f"duplicate key {key[:64]!r}")
            seen.add(key)
    return found


def _constant(word: str) -> Any:
    raise JsonError(f"{word} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise JsonError(f"number out of range: {text[:32]}")
    return value


def _kept(text: str) -> float:
    value = _float(text)
    try:
        same = Decimal(text) == Decimal(repr(value))
    except ArithmeticError:  # the exponent is beyond those of `Decimal`
        same = False
    if not same:
        raise JsonError(f"{text[:32]} would be read as {value!r}: write it with fewer digits, or as text")
    return value


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float)
_strict_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_kept)


def decode(body: bytes, *, rounding: bool = True) -> Any:
    """The value of `body`; raises `JsonError`, whose message says what the author of a client has to correct. Without
    `rounding`, it also refuses numbers of which a float does not keep all digits, because other programs may keep
    them."""
    try:
        text = body.decode("utf-8")
        if text.startswith("\ufeff"):
            raise JsonError("byte order mark before the document")
        value = (_decoder if rounding else _strict_decoder).decode(text)
    except JsonError:
        raise
    except UnicodeDecodeError as error:
        raise JsonError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise JsonError(f"nested deeper than {MAX_DEPTH}") from None
    except json.JSONDecodeError as error:
        raise JsonError(str(error)) from None
    except ValueError:  # too many digits; Python's own message would tell how to raise the limit
        raise JsonError(f"a number has more than {sys.get_int_max_str_digits()} digits") from None
    # The depth is at most the number of opening brackets, so most documents need no walk.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH or len(body) > MAX_NODES:
        _check_shape(value)
    if b"\\u" in body:
        _check_surrogates(value)
    return value


def check(value: Any) -> None:
    """Raise `JsonError` for a decoded value that is deeper or larger than `decode` accepts, or that holds a number
    beyond the range of floats, because comparing or printing such a number can fail."""
    _check_shape(value)
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
        elif isinstance(item, (int, float)) and not -_MAX_NUMBER <= item <= _MAX_NUMBER:
            raise JsonError("a number is out of range")  # without the number: Python may refuse to print it


def _check_shape(value: Any) -> None:
    level, nodes, depth = [value], 0, 0
    while level:
        nodes += len(level)
        if nodes > MAX_NODES:
            raise JsonError(f"more than {MAX_NODES} values")
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if any(isinstance(item, (dict, list)) for item in level):
            depth += 1
            if depth > MAX_DEPTH:
                raise JsonError(f"nested deeper than {MAX_DEPTH}")
        level = below


def _check_surrogates(value: Any) -> None:
    for text in strings(value):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise JsonError("lone surrogate in a string") from None


def strings(value: Any) -> Iterable[str]:
    """Every string in `value`, keys included."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def with_strings(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of `value` with every string in it, keys included, replaced by `change(string)`."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): with_strings(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [with_strings(item, change) for item in value]
    return value


def has_nul(value: Any) -> bool:
    """Whether a string in `value` holds U+0000, which Postgres `jsonb` cannot store."""
    return any("\0" in text for text in strings(value))


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON. Integers beyond 64 bits stay exact."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def canonical(value: Any) -> bytes:
    """Compact JSON with sorted keys, for digests: equal values give equal bytes."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True).encode()


def repaired(value: Any) -> Any:
    """`value` with U+0000 and lone surrogates replaced by U+FFFD, so that a finished result can always be stored."""
    return with_strings(value, _clean)


def _clean(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "surrogatepass").decode("utf-8", "replace")
