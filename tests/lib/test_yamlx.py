"""YAML that is read with its lines, and written so that it is read again as the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from taskhub.lib import yamlx
from taskhub.lib.yamlx import MAX_DEPTH, YamlError

TEXTS = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
SCALARS = (
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | some.sampled_from(["no", "on", "1e3", "1E5", "-0", "010", "0o7", "1:30", "~", "", "null", "<<x", "2026-11-26"])
)
VALUES = some.recursive(
    SCALARS, lambda inner: some.lists(inner, max_size=4) | some.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)


@given(VALUES)
def test_what_is_written_is_read_as_the_same(value: object) -> None:
    found = yamlx.read(yamlx.write({"value": value})).plain()
    assert found == {"value": value}
    assert repr(found) == repr({"value": value})  # 1 is not True, and 1.0 is not 1


def test_only_jsons_words_and_numbers_are_no_text() -> None:
    text = "[no, Yes, on, True, NULL, 010, 0x1F, 0o7, 1_000, 1:30, .inf, 2026-11-26, +1, true, null, ~, -7, 1.5, 2e3]"
    assert yamlx.read(text).plain() == [
        *("no", "Yes", "on", "True", "NULL", "010", "0x1F", "0o7", "1_000", "1:30", ".inf", "2026-11-26", "+1"),
        *(True, None, None, -7, 1.5, 2000.0),
    ]
    assert yamlx.read("a: '1'\nb: \"true\"\nc: |\n  7\n").plain() == {"a": "1", "b": "true", "c": "7\n"}


def test_values_have_the_line_of_their_key() -> None:
    node = yamlx.read("# first\na: 1\nb:\n  - c: |\n      x\n      y\n    d:\n      7\n  - e\n")
    assert [node.line_at(path.split()) for path in ("a", "b", "b 0", "b 0 c", "b 0 d", "b 1", "b 7", "b 0 z", "z")] == [
        *(2, 3, 4, 4, 7, 9, 3, 4, 2)
    ]


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "nothing"),
        ("# only this\n", 1, "nothing"),
        ("a: 1\nb: 2\na: 3", 3, "'a' is given twice; the first is in line 1"),
        ("a: {b: 1, c: 2,\n b: 3}", 2, "'b' is given twice"),
        ("a: &x 1", 1, "Anchors"),
        ("a: 1\nb: *x", 2, "Anchors"),
        ("a: &x [1]\nb: [*x, *x]", 1, "Anchors"),
        ("a:\n  !!python/object/apply:os.system ['x']", 2, "Tags"),
        ("a: !!int '3'", 1, "Tags"),
        ("a: 1\n<<: {b: 1}", 2, "Merge"),
        ("? [a]\n: 1", 1, "A key is a plain text"),
        ("a: 1\n---\nb: 2", 2, "a second one begins here"),
        ("a: [1\nb: 2", 2, "no YAML"),
        ("a:\n\t- x", 2, "no YAML"),
        ("a: b: c", 1, "no YAML"),
        ("a: @x", 1, "no YAML"),
        ('a: "\\ud800"', 1, "no YAML"),
        ('a: 1\nb: "\\0"', 2, "U+0000"),
        ("a: 1\nb: \0", 2, "U+0000 (null), which does not show"),
        ("a: 1\n\nb: 'x\u202ey'", 3, "U+202E (right-to-left override), which does not show"),
        ("a: 1\u2028b: 2", 1, "U+2028"),
        (f"a: {'9' * 5000}", 1, "out of range"),
        ("a: 1e999", 1, "out of range"),
        ("a:\n " + "[" * MAX_DEPTH + "]" * MAX_DEPTH, 2, f"At most {MAX_DEPTH} levels"),
        ("[" * 100_000, 1, "At most"),
    ],
)
def test_what_is_refused_is_told_with_its_line(text: str, line: int, told: str) -> None:
    with pytest.raises(YamlError) as refused:
        yamlx.read(text)
    assert (refused.value.line, told in str(refused.value)) == (line, True), str(refused.value)


def test_values_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamlx, "MAX_NODES", 5)
    assert yamlx.read("[1, 2,\n 3, 4]").plain() == [1, 2, 3, 4]
    with pytest.raises(YamlError, match="At most 5 values") as refused:
        yamlx.read("[1, 2,\n 3, 4,\n 5]")
    assert refused.value.line == 3


def test_texts_are_written_as_people_write_them() -> None:
    written = yamlx.write(
        {"a": "two\nlines", "b": ["no", "${env:X}", "x\u202e", "ä 🎉"], "c": {}, "d": True, "e": None}
    )
    assert written == (
        "a: |-\n  two\n  lines\nb:\n  - 'no'\n  - ${env:X}\n  - \"x\\u202e\"\n  - ä 🎉\nc: {}\nd: true\ne: null\n"
    )
