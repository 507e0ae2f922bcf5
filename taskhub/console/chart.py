"""Computes the coordinates of the overview's bar chart. The template only prints them as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskhub.domain.tasks.stats import Hour

HEIGHT: Final = 120
SLOT: Final = 100 / 24


@dataclass(frozen=True, slots=True)
class Segment:
    """One coloured part of a column; `y`, from the top, and `height` are in pixels."""

    look: str
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Column:
    """The column of one hour; `x`, `width` and `label_x` are percentages."""

    x: str
    width: str
    label_x: str
    label: str
    hour: Hour
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Stacked columns on a scale from 0 to `top` tasks."""

    columns: tuple[Column, ...]
    top: int
    half: int
    height: int
    total: int
    start: datetime


def chart(hours: Sequence[Hour]) -> Chart:
    """Stacked columns for the last 24 hours: finished tasks at the bottom, failed ones on top, where they are
    noticed."""
    top = _round_up(max((hour.total for hour in hours), default=0))
    columns = []
    for n, hour in enumerate(hours):
        left, segments = float(HEIGHT), []
        for look, count in (("good", hour.finished), ("gray", hour.cancelled), ("bad", hour.failed)):
            if count:
                size = max(HEIGHT * count / top, 1.5)
                left -= size
                segments.append(Segment(look, f"{max(left, 0):.2f}", f"{size:.2f}"))
        columns.append(
            Column(
                x=f"{n * SLOT + SLOT * 0.14:.3f}%",
                width=f"{SLOT * 0.72:.3f}%",
                label_x=f"{(n + 0.5) * SLOT:.3f}%",
                label=f"{hour.start:%H:%M}" if n % 6 == 0 else "",
                hour=hour,
                segments=tuple(segments),
            )
        )
    return Chart(tuple(columns), top, top // 2, HEIGHT, sum(h.total for h in hours), hours[0].start)


def _round_up(count: int) -> int:
    """The smallest of 2, 4, 10, 20, 40, 100 … that is not below `count`, so that half of the scale is a whole
    number."""
    step = 1
    while True:
        for factor in (2, 4, 10):
            if count <= factor * step:
                return factor * step
        step *= 10
