"""What rooms hand to each other: nobody changes a record that somebody else holds too."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import taskhub.core
import taskhub.domain
import taskhub.lib
import taskhub.protocol

CHANGED = {
    "taskhub.domain.tasks.reads.Read",
    "taskhub.protocol.hub.Hub",
    "taskhub.protocol.hub.RunInPlace",
    "taskhub.protocol.revisions.v2025_11_25.streams._Position",
    "taskhub.protocol.revisions.v2025_11_25.streams._Served",
    "taskhub.protocol.rule_time._Line",
}
"""These are no records: what they hold changes as a process goes on."""
TALL = ("taskhub.core.hints.",)
"""What goes over the wire of one is its `vars`."""


def dataclasses_of(rooms: tuple[Any, ...]) -> Iterator[type]:
    for room in rooms:
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            module = importlib.import_module(found.name)
            for thing in vars(module).values():
                if isinstance(thing, type) and dataclasses.is_dataclass(thing) and thing.__module__ == found.name:
                    yield thing


RECORDS = {
    f"{one.__module__}.{one.__qualname__}": one
    for one in dataclasses_of((taskhub.core, taskhub.lib, taskhub.domain, taskhub.protocol))
}


def test_a_record_stays_as_it_was_made() -> None:
    records: dict[str, Any] = RECORDS
    thawed = {name for name, record in records.items() if not record.__dataclass_params__.frozen}
    assert thawed == CHANGED & {*records}
    tall = {name for name, record in records.items() if "__slots__" not in vars(record)}
    assert tall == thawed | {name for name in records if name.startswith(TALL)}
