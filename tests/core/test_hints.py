"""Hints on the wire. The release before and the one after hear and send the same words."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from taskhub.core import hints
from taskhub.core.hints import Hint, decode, encode

WIRE: dict[str, Hint] = {
    "r 1 2 3 abc": hints.TaskQueued(1, 2, 3, "abc"),
    "x 1 2 3 abc": hints.TaskCancelled(1, 2, 3, "abc"),
    "t 1 2 3 abc": hints.TaskChanged(1, 2, 3, "abc"),
    "w": hints.TasksWaiting(),
    "h 5000": hints.TaskHeld(5000),
    "d": hints.PollsDue(),
    "y": hints.PreviewsDue(),
    "c": hints.CatalogueChanged(),
    "s 4": hints.ServerStale(4),
    "l 4": hints.ServerRefreshed(4),
    "p": hints.StandingChanged(),
    "e 7": hints.ClientStandingChanged(7),
    "o 5": hints.SignedOut(5),
    "n s-1": hints.SessionChanged("s-1"),
    "q 4 6": hints.RelayWaiting(4, 6),
    "a 6": hints.RelayAnswered(6),
    "g 6": hints.RelayDropped(6),
    "i": hints.InterestsChanged(),
    "f h1": hints.InterestFollowed("h1"),
    "u resource:4:ab": hints.ResourceChanged("resource:4:ab"),
    "v": hints.SchemaChanged(),
    "k": hints.WorkerLeft(),
}


@pytest.mark.parametrize("text", WIRE)
def test_a_hint_is_read_as_it_is_written(text: str) -> None:
    assert (decode(text), str(WIRE[text])) == (WIRE[text], text)


def test_every_kind_is_known_by_a_letter_of_its_own() -> None:
    def kinds(of: type[Hint]) -> set[type[Hint]]:
        found = {kind for below in of.__subclasses__() for kind in kinds(below)}
        return found or {of}

    assert [type(hint) for hint in WIRE.values()] == list(hints.KINDS)
    assert len({kind.letter for kind in hints.KINDS}) == len(hints.KINDS)
    assert kinds(Hint) == set(hints.KINDS)


def test_kinds_with_the_same_fields_are_not_the_same_news() -> None:
    assert len(set(WIRE.values())) == len(WIRE)
    assert hints.RelayAnswered(6) != hints.RelayDropped(6)


def test_several_go_out_together() -> None:
    assert encode(*WIRE.values()) == ";".join(WIRE)


@pytest.mark.parametrize(
    "text",
    ["", " ", "z", "z 1", "R 1 2 3 abc", "t", "t 1 2 3", "t 1 2 3 abc d", "t a 2 3 abc", "s", "s x", "c 1", "c;p"],
)
def test_what_this_release_does_not_know_is_no_hint(text: str) -> None:
    assert decode(text) is None


@pytest.mark.parametrize(
    ("text", "rung"),
    [
        ("r 1 2 3 abc", ("abc", hints.context_topic(2))),
        ("x 1 2 3 abc", ("abc", hints.run_topic("abc"), hints.context_topic(2))),
        ("t 1 2 3 abc", ("abc", hints.run_topic("abc"), hints.context_topic(2))),
        ("c", (hints.CATALOGUE,)),
        ("n s-1", (hints.session_topic("s-1"),)),
        ("a 6", (hints.relay_topic(6),)),
        ("f h1", (hints.follow_topic("h1"),)),
        ("u resource:4:ab", ("resource:4:ab",)),
    ],
)
def test_a_hint_rings_the_topics_that_concern_it(text: str, rung: tuple[str, ...]) -> None:
    assert WIRE[text].rings() == rung


def test_topics_of_one_kind_are_never_those_of_another() -> None:
    topics = [
        hints.CATALOGUE,
        hints.context_topic(1),
        hints.session_topic("1"),
        hints.relay_topic(1),
        hints.follow_topic("1"),
        hints.resource_topic(1, "x"),
        hints.resource_topic(1, "y"),
        hints.resource_topic(2, "x"),
    ]
    assert len(set(topics)) == len(topics)


def test_a_resources_topic_is_a_word_whatever_its_uri_holds() -> None:
    topic = hints.resource_topic(4, "x://a b;c\ud800")
    assert decode(str(hints.ResourceChanged(topic))) == hints.ResourceChanged(topic)
    assert not set(topic) & set(" ;")


def test_a_hint_does_not_change() -> None:
    hint: Any = hints.ServerStale(4)
    with pytest.raises(FrozenInstanceError):
        hint.server_id = 5
