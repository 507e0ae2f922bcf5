"""Characters that nobody sees, made visible."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from taskhub.lib.signs import around, invisible, name_of, pieces, spelled, visible_json

RLO, ZWSP, FAMILY, HEART = "\u202e", "\u200b", "\U0001f469\u200d\U0001f467", "\u2764\ufe0f"


def test_every_control_and_every_sign_that_turns_text_is_seen() -> None:
    """Against Python's own tables: what moves or hides text has one of these properties."""
    turning = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI", "BN"}
    for number in range(sys.maxunicode + 1):
        sign = chr(number)
        unassigned = unicodedata.category(sign) == "Cn"
        if sign in "\t\n" or 0xD800 <= number < 0xE000 or (unassigned and not 0xE0000 <= number < 0xE1000):
            continue
        if unicodedata.category(sign) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(sign) in turning:
            assert invisible(f"a{sign}b") == [(1, sign)], f"U+{number:04X}"


@pytest.mark.parametrize(
    "text", ["plain", "Grüße, 世界", "שלום", "a\tb\nc", FAMILY, HEART, "10\u202f000\u00a0€", "1\ufe0f\u20e3", "שָׁ", "ế"]
)
def test_what_is_seen_stays_as_it_is(text: str) -> None:
    assert invisible(text) == []
    assert list(pieces(text, lines=True)) == [(text, 0)]


@pytest.mark.parametrize("text", ["a\u200db", "\u200d\U0001f467", "\U0001f469\u200d", "a\ufe0f", "\u2764\ufe0f\ufe0f"])
def test_joiners_without_a_picture_are_seen(text: str) -> None:
    assert len(invisible(text)) == 1


def test_pieces_keep_the_stored_order_and_count_repeats() -> None:
    assert list(pieces(f"safe{RLO}{ZWSP}{ZWSP}txt", lines=True)) == [("safe", 0), (RLO, 1), (ZWSP, 2), ("txt", 0)]
    assert list(pieces("a\r\n\n\nb\tc", lines=False)) == [("a", 0), ("\n", 3), ("b", 0), ("\t", 1), ("c", 0)]
    assert list(pieces("a\r\nb", lines=True)) == [("a\nb", 0)]
    assert list(pieces("", lines=True)) == []


@pytest.mark.parametrize("blank", [*" \xa0\u1680", *map(chr, range(0x2000, 0x200B)), *"\u202f\u205f\u3000"])
def test_blanks_around_a_text_are_told_from_it(blank: str) -> None:
    assert around(f"{blank}- a-b -{blank}{blank}") == (blank, "- a-b -", blank * 2)
    assert around(blank * 2) == (blank * 2, "", "")


def test_tags_and_heaped_marks_are_one_piece() -> None:
    heap = "\u0301\u0316" * 6
    assert list(pieces(f"a{heap}b", lines=True)) == [(f"a{heap[:4]}", 0), (heap[4:], 1), ("b", 0)]
    assert list(pieces("\u0301a", lines=True)) == [("\u0301", 1), ("a", 0)]
    assert list(pieces("x\U000e0068\U000e0069", lines=True)) == [("x", 0), ("\U000e0068\U000e0069", 1)]
    assert spelled(f"a{heap}b\U000e0068\U000e0069\t\ue000\ud800") == f"a{heap[:4]}[8 marks]b[tags: hi]⇥[U+E000][U+D800]"
    assert list(pieces(" " * 9 + "a", lines=False, blanks=True)) == [(" ", 9), ("a", 0)]
    assert list(pieces(" " * 9 + "a", lines=False)) == [(" " * 9 + "a", 0)]


def test_names_and_plain_spelling() -> None:
    assert name_of(RLO) == "right-to-left override"
    assert name_of("\x07") == "invisible character"
    assert spelled(f"a{RLO}b\nc") == "a[U+202E]b↵c"


def test_json_stays_the_same_json() -> None:
    value = {"a\u202eb": ["x\u200by", "\U000e0041", "\\u202e", "ü"], "n": 1.5}
    text = visible_json(value)
    assert json.loads(text) == value
    assert r"a\u202eb" in text
    assert "ü" in text
    assert not invisible(text)
