"""Computes the coordinates of the overview's bar chart. The template only prints them as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from taskhub.domain.tasks.stats import ENDS, Counts, Hour

HEIGHT: Final = 120
SLOT: Final = 100 / 24
STACKED: Final = ("finished", "cancelled", "rejected", "expired", "denied", "error", "faulted")
"""The outcomes from the bottom of a column to its top. What went wrong is at the top, where it is noticed."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One coloured part of a column, for the tasks that ended as `tab`; `y`, from the top, and `height` are in
    pixels."""

    tab: str
    count: int
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Column:
    """The column of the hour from `start` until `end`; `x`, `width` and `label_x` are percentages. `counts` are by tab,
    for the tabs of the chart."""

    x: str
    width: str
    label_x: str
    label: str
    start: datetime
    end: datetime
    counts: tuple[tuple[str, int], ...]
    segments: tuple[Segment, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Chart:
    """Stacked columns on a scale from 0 to `top` tasks. `tabs` are the outcomes that the chart lists; a rare outcome is
    listed only if some task had it."""

    columns: tuple[Column, ...]
    tabs: tuple[str, ...]
    top: int
    half: int
    height: int
    total: int


def chart(hours: Sequence[Hour]) -> Chart:
    """Stacked columns for the last 24 hours."""
    top = _round_up(max((hour.counts.total for hour in hours), default=0))
    whole = sum((hour.counts for hour in hours), start=Counts())
    tabs = tuple(tab for tab in ENDS if tab != "denied" or whole.denied)
    columns = []
    for n, hour in enumerate(hours):
        left, segments = float(HEIGHT), []
        for tab in STACKED:
            if count := hour.counts.of(tab):
                size = max(HEIGHT * count / top, 1.5)
                left -= size
                segments.append(Segment(tab, count, f"{max(left, 0):.2f}", f"{size:.2f}"))
        columns.append(
            Column(
                x=f"{n * SLOT + SLOT * 0.14:.3f}%",
                width=f"{SLOT * 0.72:.3f}%",
                label_x=f"{(n + 0.5) * SLOT:.3f}%",
                label=f"{hour.start:%H:%M}" if n % 6 == 0 else "",
                start=hour.start,
                end=hour.start + timedelta(hours=1),
                counts=tuple((tab, hour.counts.of(tab)) for tab in tabs),
                segments=tuple(segments),
                total=hour.counts.total,
            )
        )
    return Chart(tuple(columns), tabs, top, top // 2, HEIGHT, whole.total)


def _round_up(count: int) -> int:
    """The smallest of 2, 4, 10, 20, 40, 100 … that is not below `count`, so that half of the scale is a whole
    number."""
    step = 1
    while True:
        for factor in (2, 4, 10):
            if count <= factor * step:
                return factor * step
        step *= 10
