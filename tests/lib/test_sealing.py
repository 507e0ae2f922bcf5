"""Sealed strings: opened as they were sealed, by the same key, for the same purpose, in time."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskhub.lib.sealing import Sealer, Unsealed

SEALER = Sealer(b"key")
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5, alphabet="abc"), inner, max_size=3),
)


@given(json_values)
def test_what_was_sealed_opens_the_same(value: Any) -> None:
    sealed = SEALER.seal("cursor", value, seconds=60)
    assert SEALER.open("cursor", sealed) == value
    assert sealed.isascii()
    assert set(sealed) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@given(json_values, st.data())
def test_any_other_character_anywhere_is_refused(value: Any, data: st.DataObject) -> None:
    sealed = SEALER.seal("cursor", value, seconds=60)
    place = data.draw(st.integers(0, len(sealed) - 1))
    other = data.draw(st.characters().filter(lambda character: character != sealed[place]))
    with pytest.raises(Unsealed):
        SEALER.open("cursor", sealed[:place] + other + sealed[place + 1 :])


def test_every_flip_of_every_bit_is_refused() -> None:
    sealed = SEALER.seal("cursor", {"last": 17}, seconds=60)
    for place, character in enumerate(sealed):
        for bit in range(8):
            flipped = sealed[:place] + chr(ord(character) ^ 1 << bit) + sealed[place + 1 :]
            with pytest.raises(Unsealed):
                SEALER.open("cursor", flipped)


def test_what_is_wrapped_opens_the_same_and_tells_nothing() -> None:
    wrapped = SEALER.wrap("state", ["whose", 7], seconds=60)
    assert SEALER.unwrap("state", wrapped) == ["whose", 7]
    assert wrapped != SEALER.wrap("state", ["whose", 7], seconds=60)
    assert b"whose" not in base64.urlsafe_b64decode(wrapped)


def test_every_flip_of_every_bit_of_what_is_wrapped_is_refused() -> None:
    wrapped = SEALER.wrap("state", ["whose", 7], seconds=60)
    for place, character in enumerate(wrapped):
        for bit in range(8):
            flipped = wrapped[:place] + chr(ord(character) ^ 1 << bit) + wrapped[place + 1 :]
            with pytest.raises(Unsealed):
                SEALER.unwrap("state", flipped)


@pytest.mark.parametrize("bend", [lambda s: s[:-1], lambda s: s + "=", lambda s: s + "\n", lambda s: "é" + s])
def test_what_is_wrapped_has_one_spelling(bend: Any) -> None:
    with pytest.raises(Unsealed):
        SEALER.unwrap("state", bend(SEALER.wrap("state", 1, seconds=60)))


def test_what_is_wrapped_is_for_one_purpose_one_key_and_its_time() -> None:
    wrapped = SEALER.wrap("state", 1, seconds=60)
    for sealer, purpose, text in (
        (SEALER, "cursor", wrapped),
        (Sealer(b"other"), "state", wrapped),
        (SEALER, "state", SEALER.wrap("state", 1, seconds=-1)),
        (SEALER, "state", SEALER.seal("state", 1, seconds=60)),
    ):
        with pytest.raises(Unsealed):
            sealer.unwrap(purpose, text)


@pytest.mark.parametrize(
    "bend",
    [
        lambda s: s[:-1],
        lambda s: s[1:],
        lambda s: s + "A",
        lambda s: s + "=",
        lambda s: s + "==",
        lambda s: s + "\n",
        lambda s: " " + s,
        lambda s: s.replace("-", "+").replace("_", "/") + "+",
        lambda s: s + s,
        lambda s: "",
        lambda s: "=",
        lambda s: "AAAA",
        lambda s: "☃",
        lambda s: s[:20] + "\0" + s[20:],
    ],
)
def test_other_spellings_are_refused(bend: Any) -> None:
    with pytest.raises(Unsealed):
        SEALER.open("cursor", bend(SEALER.seal("cursor", [1, "x"], seconds=60)))


@given(st.text())
def test_any_text_is_refused_not_stumbled_over(text: str) -> None:
    with pytest.raises(Unsealed):
        SEALER.open("cursor", text)


def test_one_purpose_does_not_open_what_another_sealed() -> None:
    sealed = SEALER.seal("cursor", 1, seconds=60)
    with pytest.raises(Unsealed):
        SEALER.open("state", sealed)


def test_another_key_does_not_open_it() -> None:
    with pytest.raises(Unsealed):
        Sealer(b"other").open("cursor", SEALER.seal("cursor", 1, seconds=60))


def test_it_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = SEALER.seal("cursor", 1, seconds=60)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 58)
    assert SEALER.open("cursor", sealed) == 1
    monkeypatch.setattr(time, "time", lambda: now + 61)
    with pytest.raises(Unsealed):
        SEALER.open("cursor", sealed)
