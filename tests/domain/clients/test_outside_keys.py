"""The keys of an outside issuer: which are used for what, when they are read anew, and who waits for that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from taskhub.domain.clients import issuers as outside
from taskhub.domain.clients.issuers import verify
from tests.support.hub import wait_until
from tests.support.issuer import Issuer, running

HERE = "https://hub.example.com/mcp"
ALL = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256"]


@pytest.fixture
def issuer(settings: Any) -> Iterator[Issuer]:
    outside.KEYS.forget()
    with running() as found:
        settings.OIDC_ISSUER = found.url
        yield found
        found.gate.set()
    outside.KEYS.forget()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The issuer may be asked again at once."""
    monkeypatch.setattr(outside, "ASK_AGAIN_SECONDS", 0.0)


def good(token: str) -> bool:
    return verify(token) is not None


# --- what a key is for


@pytest.mark.parametrize("algorithm", [name for name in ALL if name != "ES256"])
def test_a_key_that_does_not_say_what_it_is_for_is_for_what_it_signed(
    issuer: Issuer, settings: Any, algorithm: str
) -> None:
    settings.OIDC_ALGORITHMS = ALL
    issuer.publish(issuer.public("one", alg=None))
    assert good(issuer.token(HERE, algorithm=algorithm))


def test_such_a_key_is_for_no_signature_that_is_not_accepted(issuer: Issuer) -> None:
    issuer.publish(issuer.public("one", alg=None))
    assert good(issuer.token(HERE, algorithm="RS256"))
    assert not good(issuer.token(HERE, algorithm="PS256"))
    assert not good(issuer.token(HERE, algorithm="RS384"))


def test_a_key_that_says_what_it_is_for_is_for_nothing_else(issuer: Issuer, settings: Any) -> None:
    settings.OIDC_ALGORITHMS = ALL
    assert good(issuer.token(HERE, algorithm="RS256"))
    assert not good(issuer.token(HERE, algorithm="PS256"))
    issuer.publish(issuer.public("one", alg="PS256"))
    outside.KEYS.forget()
    assert good(issuer.token(HERE, algorithm="PS256"))
    assert not good(issuer.token(HERE, algorithm="RS256"))


def test_an_elliptic_key_without_a_word_is_no_key_for_rsa(issuer: Issuer) -> None:
    issuer.add("two", elliptic=True)
    issuer.publish(issuer.public("two", alg=None, kid="one"))
    assert not good(issuer.token(HERE))
    assert good(issuer.token(HERE, by="two", algorithm="ES256"))


@pytest.mark.parametrize("changes", [{"use": "enc"}, {"kty": "oct", "k": "c2VjcmV0"}])
def test_a_key_for_something_else_checks_no_signature(issuer: Issuer, changes: dict[str, str]) -> None:
    issuer.publish(issuer.public("one", **changes))
    assert not good(issuer.token(HERE))


# --- which key


def test_of_two_keys_without_an_id_both_are_tried(issuer: Issuer) -> None:
    issuer.add("two")
    issuer.publish(issuer.public("one", kid=None), issuer.public("two", kid=None))
    assert good(issuer.token(HERE, kid=None, by="one"))
    assert good(issuer.token(HERE, kid=None, by="two"))
    issuer.add("three")
    assert not good(issuer.token(HERE, kid=None, by="three"))


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"kty": 7},
        {"kty": "RSA"},
        {"kty": "RSA", "n": 7, "e": "AQAB"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": ["RS256"]},
    ],
)
def test_a_key_that_cannot_be_read_spoils_no_other(issuer: Issuer, broken: dict[str, Any]) -> None:
    issuer.publish(broken, issuer.public("one", kid=None))
    assert good(issuer.token(HERE, kid=None))


def test_a_token_names_its_key_and_no_other_is_tried(issuer: Issuer) -> None:
    issuer.add("two")
    assert good(issuer.token(HERE, kid="two"))
    assert not good(issuer.token(HERE, kid="two", by="one"))


@pytest.mark.parametrize("kid", [["one"], {"a": 1}, 7, True])
def test_an_id_that_is_no_text_costs_only_that_key(issuer: Issuer, kid: Any) -> None:
    issuer.add("two")
    issuer.publish({**issuer.public("one"), "kid": kid}, issuer.public("two"))
    assert good(issuer.token(HERE, kid="two"))
    assert not good(issuer.token(HERE, kid="one"))


# --- what is no set of keys


ODD = [{"keys": None}, {"keys": {}}, {"keys": "x"}, {}, [], "x", 7]


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_set_of_keys_is_asked_for_once_in_a_while(issuer: Issuer, odd: Any) -> None:
    issuer.answers["/keys"] = odd
    for _ in range(4):
        assert not good(issuer.token(HERE))
    assert issuer.asked == 1


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.usefixtures("eager")
def test_what_is_no_set_of_keys_replaces_none(issuer: Issuer, odd: Any) -> None:
    assert good(issuer.token(HERE))
    issuer.answers["/keys"] = odd
    issuer.add("two")
    assert not good(issuer.token(HERE, kid="two"))
    assert issuer.asked == 2
    assert good(issuer.token(HERE))


def test_a_document_has_a_limit_and_is_not_read_beyond_it(issuer: Issuer) -> None:
    known = {"keys": [issuer.public("one")]}
    issuer.answers["/keys"] = {**known, "padding": "x" * (outside.MAX_DOCUMENT + 1)}
    assert not good(issuer.token(HERE))
    issuer.answers["/keys"] = {**known, "padding": "x" * 32_000_000}
    outside.KEYS.forget()
    assert not good(issuer.token(HERE))
    wait_until(lambda: issuer.cut == 1, "the end of the connection")
    issuer.answers["/keys"] = {**known, "padding": "x" * (outside.MAX_DOCUMENT - 2_000)}
    outside.KEYS.forget()
    assert good(issuer.token(HERE))


@pytest.mark.parametrize("odd", [["one"], {"a": 1}])
def test_a_set_with_an_odd_id_is_not_asked_for_with_every_token(issuer: Issuer, odd: Any) -> None:
    issuer.publish({**issuer.public("one"), "kid": odd}, "x", None, 7)
    for _ in range(4):
        assert not good(issuer.token(HERE))
    assert issuer.asked == 1


@pytest.mark.usefixtures("eager")
def test_an_empty_set_withdraws_every_key(issuer: Issuer) -> None:
    assert good(issuer.token(HERE))
    issuer.publish()
    assert not good(issuer.token(HERE, kid="two", by="one")), "which made it ask again"
    assert not good(issuer.token(HERE))


# --- who waits


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.usefixtures("eager")
def test_who_brings_a_known_key_never_waits_for_an_unknown_one(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, old: bool
) -> None:
    known = issuer.token(HERE)
    assert good(known)
    if old:
        monkeypatch.setattr(outside, "KEYS_SECONDS", 0.0)
    issuer.add("two")
    answers: list[bool] = []
    issuer.gate.clear()
    stranger = threading.Thread(target=lambda: answers.append(good(issuer.token(HERE, kid="two"))))
    stranger.start()
    wait_until(lambda: issuer.asked == 2, "the issuer to be asked for the unknown key")
    assert [good(known), good(issuer.token(HERE, sub="grace"))] == [True, True]
    assert stranger.is_alive(), "the answers above came while the issuer was still silent"
    assert answers == []
    issuer.gate.set()
    stranger.join()
    assert answers == [True]


def test_of_many_who_bring_an_unknown_key_one_asks_for_all(issuer: Issuer) -> None:
    token = issuer.token(HERE)
    number = 8
    start = threading.Barrier(number)
    answers: list[bool] = []

    def bring() -> None:
        start.wait()
        answers.append(good(token))

    threads = [threading.Thread(target=bring) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * number
    assert issuer.asked == 1


@pytest.mark.usefixtures("eager")
def test_keys_that_are_old_are_read_anew_and_nobody_waits_for_it(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = issuer.token(HERE)
    assert good(token)
    monkeypatch.setattr(outside, "KEYS_SECONDS", 0.0)
    issuer.gate.clear()
    assert good(token)
    wait_until(lambda: issuer.asked == 2, "the keys to be read in the background")
    assert [good(token) for _ in range(5)] == [True] * 5, "while that one is on its way"
    assert issuer.asked == 2
    issuer.publish()  # what it says when it answers at last
    issuer.gate.set()
    wait_until(lambda: not good(token), "the key that was withdrawn to go out of use")


@pytest.mark.usefixtures("eager")
def test_a_reading_in_the_background_that_fails_is_tried_again(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    token = issuer.token(HERE)
    assert good(token)
    monkeypatch.setattr(outside, "KEYS_SECONDS", 0.0)
    issuer.away = True
    assert good(token)
    wait_until(lambda: issuer.refused > 0, "a first attempt")
    issuer.away = False
    issuer.publish()
    wait_until(lambda: not good(token), "the attempt after it")
