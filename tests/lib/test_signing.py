"""Signed strings: verified as they were signed, by the same key, for the same purpose, in time."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskhub.lib.signing import InvalidToken, Signer

SIGNER = Signer(b"key")
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5, alphabet="abc"), inner, max_size=3),
)


@given(json_values)
def test_what_was_signed_verifies_the_same(value: Any) -> None:
    signed = SIGNER.sign("cursor", value, seconds=60)
    assert SIGNER.verify("cursor", signed) == value
    assert signed.isascii()
    assert set(signed) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@given(json_values, st.data())
def test_any_other_character_anywhere_is_refused(value: Any, data: st.DataObject) -> None:
    signed = SIGNER.sign("cursor", value, seconds=60)
    place = data.draw(st.integers(0, len(signed) - 1))
    other = data.draw(st.characters().filter(lambda character: character != signed[place]))
    with pytest.raises(InvalidToken):
        SIGNER.verify("cursor", signed[:place] + other + signed[place + 1 :])


def test_every_flip_of_every_bit_is_refused() -> None:
    signed = SIGNER.sign("cursor", {"last": 17}, seconds=60)
    for place, character in enumerate(signed):
        for bit in range(8):
            flipped = signed[:place] + chr(ord(character) ^ 1 << bit) + signed[place + 1 :]
            with pytest.raises(InvalidToken):
                SIGNER.verify("cursor", flipped)


def test_what_is_wrapped_opens_the_same_and_tells_nothing() -> None:
    wrapped = SIGNER.encrypt("state", ["whose", 7], seconds=60)
    assert SIGNER.decrypt("state", wrapped) == ["whose", 7]
    assert wrapped != SIGNER.encrypt("state", ["whose", 7], seconds=60)
    assert b"whose" not in base64.urlsafe_b64decode(wrapped)


def test_every_flip_of_every_bit_of_what_is_wrapped_is_refused() -> None:
    wrapped = SIGNER.encrypt("state", ["whose", 7], seconds=60)
    for place, character in enumerate(wrapped):
        for bit in range(8):
            flipped = wrapped[:place] + chr(ord(character) ^ 1 << bit) + wrapped[place + 1 :]
            with pytest.raises(InvalidToken):
                SIGNER.decrypt("state", flipped)


@pytest.mark.parametrize("bend", [lambda s: s[:-1], lambda s: s + "=", lambda s: s + "\n", lambda s: "é" + s])
def test_what_is_wrapped_has_one_spelling(bend: Any) -> None:
    with pytest.raises(InvalidToken):
        SIGNER.decrypt("state", bend(SIGNER.encrypt("state", 1, seconds=60)))


def test_what_is_wrapped_is_for_one_purpose_one_key_and_its_time() -> None:
    wrapped = SIGNER.encrypt("state", 1, seconds=60)
    for signer, purpose, text in (
        (SIGNER, "cursor", wrapped),
        (Signer(b"other"), "state", wrapped),
        (SIGNER, "state", SIGNER.encrypt("state", 1, seconds=-1)),
        (SIGNER, "state", SIGNER.sign("state", 1, seconds=60)),
    ):
        with pytest.raises(InvalidToken):
            signer.decrypt(purpose, text)


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
    with pytest.raises(InvalidToken):
        SIGNER.verify("cursor", bend(SIGNER.sign("cursor", [1, "x"], seconds=60)))


@given(st.text())
def test_any_text_is_refused_not_stumbled_over(text: str) -> None:
    with pytest.raises(InvalidToken):
        SIGNER.verify("cursor", text)


def test_one_purpose_does_not_open_what_another_sealed() -> None:
    signed = SIGNER.sign("cursor", 1, seconds=60)
    with pytest.raises(InvalidToken):
        SIGNER.verify("state", signed)


def test_another_key_does_not_open_it() -> None:
    with pytest.raises(InvalidToken):
        Signer(b"other").verify("cursor", SIGNER.sign("cursor", 1, seconds=60))


def test_it_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    signed = SIGNER.sign("cursor", 1, seconds=60)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 58)
    assert SIGNER.verify("cursor", signed) == 1
    monkeypatch.setattr(time, "time", lambda: now + 61)
    with pytest.raises(InvalidToken):
        SIGNER.verify("cursor", signed)
