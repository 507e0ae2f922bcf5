"""Strict JSON in, compact JSON out."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskhub.lib import jsonx
from taskhub.lib.jsonx import JsonError

text = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
scalars = (
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False) | text
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5))


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same kind all the way down: 1 is not 1.0 or true, and 0.0 not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)


# --- what is read


@given(values)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    assert same(jsonx.decode(jsonx.encode(value)), value)


@given(values, st.sampled_from([None, 1]), st.booleans())
def test_anybody_elses_spelling_reads_the_same(value: Any, indent: int | None, ascii_only: bool) -> None:
    body = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assert same(jsonx.decode(body), value)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b" \t\r\n{} \n", {}),
        (b"0", 0),
        (b"-0", 0),
        (b"-0.0", -0.0),
        (b"1E400", None),
        (b"1e-400", 0.0),
        (b"1e308", 1e308),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        ('"\U0001f600\u202e\u2028"'.encode(), "\U0001f600\u202e\u2028"),
        (b'"\\u0000"', "\0"),
        (b"1" * 4_300, int("1" * 4_300)),
        (b"18446744073709551617", 2**64 + 1),
        (b'{"a":{"a":1},"b":{"a":1}}', {"a": {"a": 1}, "b": {"a": 1}}),
    ],
)
def test_the_edges_of_what_is_json(body: bytes, value: Any) -> None:
    if value is None:
        with pytest.raises(JsonError):
            jsonx.decode(body)
    else:
        assert same(jsonx.decode(body), value)


@given(values)
def test_without_rounding_every_number_that_a_program_has_is_read(value: Any) -> None:
    assert same(jsonx.decode(jsonx.encode(value), rounding=False), value)


def test_without_rounding_a_number_that_loses_digits_is_refused() -> None:
    for text in ("1.50", "-0.0", "0e5", "1E+2", "1e22", "100000000000000000000.0", "9007199254740993", "5e-324"):
        assert same(jsonx.decode(text.encode(), rounding=False), jsonx.decode(text.encode())), text
    for text in (
        "9007199254740993.0",
        "0.1000000000000000055",
        "-1.00000000000000000001",
        "1e-400",
        "1e-99999999999999999999999",
        "1.8e308",
    ):
        with pytest.raises(JsonError, match=r"would be read as|out of range"):
            jsonx.decode(b'{"a":[%s]}' % text.encode(), rounding=False)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"   ", id="only space"),
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b"[Infinity]", id="Infinity"),
        pytest.param(b'{"a":-Infinity}', id="-Infinity"),
        pytest.param(b"1e400", id="infinite by overflow"),
        pytest.param(b"[-1e999]", id="-infinite by overflow"),
        pytest.param("{}".encode("utf-16"), id="UTF-16 with a mark"),
        pytest.param("{}".encode("utf-16-le"), id="UTF-16 without a mark"),
        pytest.param("{}".encode("utf-32"), id="UTF-32"),
        pytest.param("{}".encode("utf-32-be"), id="UTF-32 big-endian"),
        pytest.param(b"\xef\xbb\xbf{}", id="byte order mark"),
        pytest.param(b'"\xed\xa0\x80"', id="surrogate in CESU form"),
        pytest.param(b'"\xed\xa0\xbd\xed\xb8\x80"', id="pair of surrogates in CESU form"),
        pytest.param(b'"\xc0\x80"', id="overlong NUL"),
        pytest.param(b'"\xff"', id="no UTF-8 at all"),
        pytest.param(b'"\xf4\x90\x80\x80"', id="beyond Unicode"),
        pytest.param(b'"\\ud800"', id="lone high surrogate"),
        pytest.param(b'"\\udc00x"', id="lone low surrogate"),
        pytest.param(b'"\\ude00\\ud83d"', id="surrogates the wrong way round"),
        pytest.param(b'{"\\ud800":1}', id="lone surrogate in a key"),
        pytest.param(b'{"a":1,"a":1}', id="duplicate key"),
        pytest.param(b'{"a":1,"\\u0061":2}', id="duplicate key, escaped"),
        pytest.param(b'[{"b":{"a":1,"c":2,"a":3}}]', id="duplicate key deep inside"),
        pytest.param(b"1" * 4_301, id="too many digits"),
        pytest.param(b"[" * 65 + b"]" * 65, id="one level too deep"),
        pytest.param(b'{"a":' * 65 + b"1" + b"}" * 65, id="one object too deep"),
        pytest.param(b"[" * 100_000, id="never closed"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="far too deep"),
        pytest.param(b"[" + b"0," * 100_000 + b"0]", id="too many values"),
        pytest.param(b"{} {}", id="two documents"),
        pytest.param(b"{}\0", id="trailing NUL"),
        pytest.param(b"[1,]", id="trailing comma"),
        pytest.param(b"{'a':1}", id="single quotes"),
        pytest.param(b"{a:1}", id="bare key"),
        pytest.param(b"01", id="leading zero"),
        pytest.param(b"+1", id="plus sign"),
        pytest.param(b".5", id="no digit before the point"),
        pytest.param(b"1.", id="no digit after the point"),
        pytest.param(b"0x10", id="hexadecimal"),
        pytest.param(b"// x\n{}", id="comment"),
        pytest.param(b'"\n"', id="raw control character"),
        pytest.param(b'"\\x41"', id="unknown escape"),
        pytest.param(b"True", id="Python's word"),
        pytest.param("\u00a0{}".encode(), id="a space that JSON does not know"),
        pytest.param("[\u0661]".encode(), id="an Arabic digit"),
    ],
)  # fmt: skip
def test_what_two_parsers_could_read_differently_is_refused(body: bytes) -> None:
    with pytest.raises(JsonError) as caught:
        jsonx.decode(body)
    assert 0 < len(str(caught.value)) < 300


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_64_levels_are_deep_enough(opening: str) -> None:
    closing = {"[": "]", '{"a":': "}"}[opening]
    jsonx.decode((opening * 64 + "1" + closing * 64).encode())


def test_brackets_in_a_string_are_no_levels() -> None:
    assert jsonx.decode(b'"' + b"[{" * 1_000 + b'"') == "[{" * 1_000


def test_many_flat_values_are_not_deep() -> None:
    assert len(jsonx.decode(b"[" + b"[]," * 500 + b"[]]")) == 501


def test_as_many_values_as_allowed_are_read() -> None:
    body = b"[" + b"0," * (jsonx.MAX_NODES - 2) + b"0]"
    assert len(jsonx.decode(body)) == jsonx.MAX_NODES - 1


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused_with_a_reason(body: bytes) -> None:
    try:
        value = jsonx.decode(body)
    except JsonError:
        return
    assert same(jsonx.decode(jsonx.encode(value)), value)


@given(values, st.data())
def test_a_changed_byte_never_does_worse_than_be_refused(value: Any, data: st.DataObject) -> None:
    body = bytearray(jsonx.encode(value))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.integers(0, 255))
    try:
        found = jsonx.decode(bytes(body))
    except JsonError:
        return
    # What the strict decoder takes, a lenient one reads as the same.
    assert same(found, json.loads(bytes(body)))


# --- what is written


@given(values)
def test_what_is_written_is_compact_utf8_and_strict(value: Any) -> None:
    body = jsonx.encode(value)
    assert same(json.loads(body.decode("utf-8")), value)
    assert b"\n" not in body


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**300])
def test_integers_beyond_64_bits_stay_exact(value: int) -> None:
    assert jsonx.decode(jsonx.encode({"n": value})) == {"n": value}
    with pytest.raises(TypeError):
        orjson.dumps(value)


@given(values)
def test_equal_values_have_one_canonical_form(value: Any) -> None:
    def shuffled(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: shuffled(item[key]) for key in reversed(item)}
        return [shuffled(each) for each in item] if isinstance(item, list) else item

    assert jsonx.canonical(shuffled(value)) == jsonx.canonical(value)
    assert same(jsonx.decode(jsonx.canonical(value)), value)


@given(values, values)
def test_other_values_have_another_canonical_form(one: Any, other: Any) -> None:
    assert (jsonx.canonical(one) == jsonx.canonical(other)) == same(one, other)


# --- repair


@given(
    st.recursive(
        scalars | st.text(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    )
)
def test_what_is_repaired_can_be_stored_and_sent(value: Any) -> None:
    fixed = jsonx.repaired(value)
    assert not jsonx.has_nul(fixed)
    jsonx.decode(jsonx.encode(fixed))
    assert jsonx.repaired(fixed) == fixed


@given(values)
def test_what_is_whole_is_not_repaired(value: Any) -> None:
    if not jsonx.has_nul(value):
        assert same(jsonx.repaired(value), value)


@pytest.mark.parametrize(
    ("broken", "fixed"),
    [("a\0b", "a\ufffdb"), ({"k\0": ["\0"]}, {"k\ufffd": ["\ufffd"]}), ("\U0001f600", "\U0001f600"), (7, 7)],
)
def test_nul_becomes_the_replacement_character(broken: Any, fixed: Any) -> None:
    assert jsonx.repaired(broken) == fixed


def test_a_lone_surrogate_is_replaced_and_the_rest_stays() -> None:
    fixed = jsonx.repaired("a\ud800z")
    assert (fixed[0], fixed[-1], set(fixed[1:-1])) == ("a", "z", {"\ufffd"})


@pytest.mark.parametrize(
    ("value", "has"), [("\0", True), ({"\0": 1}, True), ([{"a": ["x\0"]}], True), ({"a": "x"}, False), (0, False)]
)
def test_nul_is_found_in_keys_and_values(value: Any, has: bool) -> None:
    assert jsonx.has_nul(value) is has


@pytest.mark.parametrize(
    "number",
    [10**309, -(10**4000), float("inf"), float("-inf"), float("nan")],
    ids=["309", "4000", "inf", "-inf", "nan"],
)
def test_numbers_that_nobody_can_reckon_with_do_not_pass_the_check(number: float) -> None:
    with pytest.raises(JsonError, match="a number is out of range"):
        jsonx.check({"a": [{"b": number}]})


def nested(depth: int, *, inner: str = "0", objects: bool = False) -> bytes:
    """One document of that many levels, of lists or of objects."""
    opened, closed = ('{"a":', "}") if objects else ("[", "]")
    return (opened * depth + inner + closed * depth).encode()


@pytest.mark.parametrize("objects", [False, True], ids=["lists", "objects"])
def test_the_deepest_document_is_read_and_one_level_more_is_not(objects: bool) -> None:
    deepest = jsonx.decode(nested(jsonx.MAX_DEPTH, objects=objects))
    jsonx.check(deepest)
    assert jsonx.encode(deepest) == nested(jsonx.MAX_DEPTH, objects=objects)
    with pytest.raises(JsonError, match=f"nested deeper than {jsonx.MAX_DEPTH}"):
        jsonx.decode(nested(jsonx.MAX_DEPTH + 1, objects=objects))
    with pytest.raises(JsonError, match=f"nested deeper than {jsonx.MAX_DEPTH}"):
        jsonx.check({"a": deepest} if objects else [deepest])


def test_levels_are_counted_and_not_brackets() -> None:
    wide = b"[" + b",".join([nested(jsonx.MAX_DEPTH - 1)] * 3) + b"]"
    jsonx.check(jsonx.decode(wide))
    with pytest.raises(JsonError, match="nested deeper"):
        jsonx.decode(b"[0," + wide + b"]")


def test_an_empty_list_is_a_level() -> None:
    jsonx.decode(nested(jsonx.MAX_DEPTH, inner=""))
    with pytest.raises(JsonError, match="nested deeper"):
        jsonx.decode(nested(jsonx.MAX_DEPTH + 1, inner=""))


def test_a_document_holds_as_many_values_as_are_allowed_and_no_more() -> None:
    most: list[int] = [0] * (jsonx.MAX_NODES - 1)  # the list is one itself
    jsonx.check(most)
    assert jsonx.decode(jsonx.encode(most)) == most
    with pytest.raises(JsonError, match=f"more than {jsonx.MAX_NODES} values"):
        jsonx.decode(jsonx.encode([*most, 0]))


def test_what_is_nested_too_deep_or_too_much_does_not_pass_the_check() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(JsonError, match="nested deeper"):
        jsonx.check(deep)
    with pytest.raises(JsonError, match="more than"):
        jsonx.check([0] * jsonx.MAX_NODES)


def test_ordinary_values_pass_the_check() -> None:
    jsonx.check({"a": [1, -(10**300), 1.7e308, True, None, "x"], "b": {}})
