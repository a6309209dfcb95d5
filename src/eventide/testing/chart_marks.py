"""How rows, the watermark and panes are drawn.

Few rows are dots with their values, as in the papers. Where dots would cover each other they are small and translucent,
and thousands of rows are cells shaded by their number. A label is drawn only where it covers no other label.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

import numpy as np

from eventide.testing.chart_svg import element, hover, text
from eventide.testing.chart_timeline import Axis, Event, Fate, Pane, Remark, Timeline
from eventide.time import MIN, format_instant

Detail = Literal["labelled", "small", "density"]

CROSS = "M-7,-4 L-4,-7 L0,-3 L4,-7 L7,-4 L3,0 L7,4 L4,7 L0,3 L-4,7 L-7,4 L-3,0 Z"
DIAMOND = "M0,-8 L8,0 L0,8 L-8,0 Z"

_RADIUS, _SMALL_RADIUS = 10.5, 2.8
_COVERED = 0.15  # share of dots that may cover another one
_MOST_DOTS = 1500
_CELL = 8.0  # pixels of a density cell, about
_TAG_HEIGHT = 18.0
_TAG_GAP = 2.0
_LINE = 6.0  # the watermark, with room around it
_NOTE_LINE = 150.0
_EDGE = 2.5  # separates the edge of an emission from the watermark, which often caused it
_IMPORTANCE = {"ON_TIME": 0, "LATE": 1, "EARLY": 2}  # of labels, where not all fit
_FATES: dict[Fate, str] = {"window": "in a window", "late": "late", "dead": "dead letter"}


@dataclass(frozen=True)
class Box:
    """A rectangle of the drawing."""

    x: float
    y: float
    width: float
    height: float

    def overlap(self, other: Box) -> float:
        """The area that two boxes share."""
        wide = min(self.x + self.width, other.x + other.width) - max(self.x, other.x)
        high = min(self.y + self.height, other.y + other.height) - max(self.y, other.y)
        return wide * high if wide > 0 and high > 0 else 0.0


def draw(timeline: Timeline, across: Axis, up: Axis) -> str:
    """Return all marks. Those that must stay legible are drawn last."""
    detail = detail_of(timeline.events, across, up)
    boxes = "".join(
        _box(pane, since, across, up) for pane, since in zip(timeline.panes, _starts(timeline), strict=True)
    )
    rows = _density(timeline.events, across, up) if detail == "density" else ""
    dots = [event for event in timeline.events if detail != "density" or event.fate != "window"]
    occupied = [_dot_box(event, detail, across, up) for event in dots]
    occupied += _watermark_boxes(timeline.watermarks, across, up)
    events = "".join(_event(event, detail, across, up) for event in dots)
    tags = "".join(_tags(timeline.panes, across, up, occupied))
    bands = "".join(_band(note, across, up) for note in timeline.notes)
    line = _watermark(timeline.watermarks, across, up)
    notes = "".join(_note(note, across, up) for note in timeline.notes)
    return bands + boxes + _ideal(across, up) + rows + line + events + tags + notes


def detail_of(events: Sequence[Event], across: Axis, up: Axis) -> Detail:
    """Return how rows are drawn, so that they stay distinguishable."""
    if len(events) > _MOST_DOTS:
        return "density"
    places = sorted((across.position(event.time), up.position(event.at)) for event in events)
    covered = sum(
        math.dist(place, other) < 1.4 * _RADIUS
        for number, place in enumerate(places)
        for other in places[number + 1 : number + 6]  # the nearest ones: places are sorted
    )
    return "small" if covered > max(2.0, _COVERED * len(events)) else "labelled"


def _event(event: Event, detail: Detail, across: Axis, up: Axis) -> str:
    label = f"{event.label}: " if event.label else ""
    time = f"event time {format_instant(event.time)}" if event.time > MIN else "no event time"
    tooltip = hover(f"{label}{time}, arrived {format_instant(event.at)}, {_FATES[event.fate]}")
    inside = event.fate == "window" and len(event.label) <= 2
    if event.fate != "window":
        shape = element("path", d=CROSS if event.fate == "late" else DIAMOND)
    elif detail == "small":
        shape = element("circle", r=_SMALL_RADIUS)
    else:
        shape = element("circle", r=_RADIUS if inside else 5)
    style: dict[str, object] = {"class_": "inside", "y": 4} if inside else {"class_": "outside", "x": 11, "y": 4}
    labelled = detail == "labelled" or event.fate != "window"
    return element(
        "g",
        tooltip,
        shape,
        element("text", text(event.label), **style) if labelled and event.label else "",
        class_=f"event {event.fate}" + (" small" if detail == "small" and event.fate == "window" else ""),
        transform=f"translate({across.position(event.time)} {up.position(event.at)})",
    )


def _dot_box(event: Event, detail: Detail, across: Axis, up: Axis) -> Box:
    x, y = across.position(event.time), up.position(event.at)
    if detail == "small" and event.fate == "window":
        return Box(x - _SMALL_RADIUS, y - _SMALL_RADIUS, 2 * _SMALL_RADIUS, 2 * _SMALL_RADIUS)
    wide = 0.0 if event.fate == "window" and len(event.label) <= 2 else 7.0 * len(event.label)
    return Box(x - _RADIUS, y - _RADIUS, 2 * _RADIUS + wide, 2 * _RADIUS)


def _density(events: Sequence[Event], across: Axis, up: Axis) -> str:
    """Return cells that are darker the more rows they contain, on a logarithmic scale."""
    columns, rows = int((across.last - across.first) / _CELL), int((up.first - up.last) / _CELL)
    wide, high = (across.last - across.first) / columns, (up.first - up.last) / rows
    cells = Counter(
        (
            min(int((across.position(event.time) - across.first) / wide), columns - 1),
            min(int((up.position(event.at) - up.last) / high), rows - 1),
        )
        for event in events
        if event.fate == "window"
    )
    most = math.log1p(max(cells.values(), default=1))
    shades = (
        element(
            "rect",
            hover(f"{number:,} row{'s' * (number > 1)}"),
            x=round(across.first + x * wide, 2),
            y=round(up.last + y * high, 2),
            width=round(wide, 2),
            height=round(high, 2),
            fill_opacity=round(0.08 + 0.72 * math.log1p(number) / most, 2),
        )
        for (x, y), number in sorted(cells.items())
    )
    return element("g", *shades, class_="density")


def _box(pane: Pane, since: int, across: Axis, up: Axis) -> str:
    left, right, top = across.position(pane.start), across.position(pane.end), up.position(pane.at)
    tooltip = hover(_described(pane))
    if pane.diff < 0:
        return element("path", tooltip, d=f"M{left},{top - _EDGE} H{right}", class_="retracted")
    return element(
        "g",
        tooltip,
        element("rect", x=left, y=top, width=round(right - left, 1), height=round(up.position(since) - top, 1)),
        element("path", d=f"M{left},{top + _EDGE} H{right}"),
        class_=f"pane {pane.timing}",
    )


def _starts(timeline: Timeline) -> list[int]:
    """Return since when each pane collected rows: the emission before it, or the first row of its window."""
    rows = [event for event in timeline.events if event.fate == "window"]
    times, arrivals = (np.array([getattr(row, name) for row in rows], np.int64) for name in ("time", "at"))
    emitted: dict[tuple[str, int, int], list[int]] = {}
    retracted: dict[tuple[str, int], list[Pane]] = {}
    for pane in timeline.panes:
        if pane.diff > 0:
            emitted.setdefault((pane.key, pane.start, pane.end), []).append(pane.at)
        else:
            retracted.setdefault((pane.key, pane.at), []).append(pane)
    starts = []
    for pane in timeline.panes:
        replaced = (
            (old.start, old.end)
            for old in retracted.get((pane.key, pane.at), ())
            if old.start < pane.end and pane.start < old.end
        )
        windows = {*replaced, (pane.start, pane.end)}
        before = [at for window in windows for at in emitted.get((pane.key, *window), ()) if at < pane.at]
        if before:
            starts.append(max(before))
        else:
            inside = arrivals[(pane.start <= times) & (times < pane.end) & (arrivals <= pane.at)]
            starts.append(int(inside.min()) if inside.size else pane.at)
    return starts


def _tags(panes: Iterable[Pane], across: Axis, up: Axis, dots: Sequence[Box]) -> Iterator[str]:
    """Return the labels of panes, a pane next to the panes that it retracts.

    A label that does not fit is left out. The tooltips of panes have the same text.
    """
    taken: list[Box] = []
    by_place = sorted(panes, key=lambda pane: (pane.key, pane.start, pane.end, pane.at))
    groups = [list(group) for _, group in groupby(by_place, key=lambda pane: (pane.key, pane.start, pane.end, pane.at))]
    for group in sorted(groups, key=_priority):
        ordered = sorted(group, key=lambda pane: pane.diff)
        for shown in (ordered, [pane for pane in ordered if pane.diff > 0]):
            place = _free_place(shown, across, up, dots, taken) if shown else None
            if place is not None:
                x = place.x
                taken.append(place)
                for pane in shown:
                    yield _tag(pane, x, place.y)
                    x += _tag_width(pane) + _TAG_GAP
                break


def _priority(group: Sequence[Pane]) -> tuple[int, int]:
    emitted = [_IMPORTANCE[pane.timing] for pane in group if pane.diff > 0]
    return min(emitted, default=len(_IMPORTANCE)), -group[0].at


def _free_place(shown: Sequence[Pane], across: Axis, up: Axis, dots: Sequence[Box], taken: Sequence[Box]) -> Box | None:
    """Return a place for the labels of an emission that covers no other label and as little of the dots as possible."""
    pane = shown[0]
    wide = sum(_tag_width(pane) for pane in shown) + _TAG_GAP * (len(shown) - 1)
    left, right, top = across.position(pane.start), across.position(pane.end), up.position(pane.at)
    slack = right - left - wide - 6
    places = [
        Box(
            round(min(max(left + 3 + share * slack, across.first), across.last - wide), 1),
            round(y, 1),
            wide,
            _TAG_HEIGHT,
        )
        for y in (top + 6, top - _TAG_HEIGHT - 5)
        for share in (1.0, 0.75, 0.5, 0.25, 0.0)
    ]
    free = [place for place in places if not any(place.overlap(label) for label in taken)]
    return min(free, key=lambda place: sum(place.overlap(dot) for dot in dots), default=None)


def _label(pane: Pane) -> str:
    return pane.label if pane.diff > 0 else f"−{pane.label}"


def _tag_width(pane: Pane) -> float:
    return 12 + 7.2 * len(_label(pane))


def _tag(pane: Pane, x: float, y: float) -> str:
    wide = _tag_width(pane)
    return element(
        "g",
        hover(_described(pane)),
        element("rect", x=round(x, 1), y=y, width=round(wide, 1), height=_TAG_HEIGHT, rx=4),
        element("text", text(_label(pane)), x=round(x + wide / 2, 1), y=round(y + 13, 1)),
        class_=f"tag {pane.timing if pane.diff > 0 else 'retraction'}",
    )


def _described(pane: Pane) -> str:
    key = f" for {pane.key}" if pane.key else ""
    verb = "emitted" if pane.diff > 0 else "retracted"
    window = f"[{format_instant(pane.start)}, {format_instant(pane.end)})"
    return f"{_label(pane)} {verb} at {format_instant(pane.at)}{key} {window}, {pane.timing}"


def _watermark(watermarks: Sequence[tuple[int, int]], across: Axis, up: Axis) -> str:
    if not watermarks:
        return ""
    steps = sorted(watermarks)
    path = f"M{across.position(steps[0][1])},{up.position(steps[0][0])}"
    for at, time in steps[1:]:
        path += f" V{up.position(at)} H{across.position(time)}"
    last = f"{format_instant(steps[-1][1])} at {format_instant(steps[-1][0])}"
    return element("path", hover(f"watermark, last {last}"), d=f"{path} V{up.last}", class_="watermark")


def _watermark_boxes(watermarks: Sequence[tuple[int, int]], across: Axis, up: Axis) -> list[Box]:
    """Return what the staircase covers, so that labels avoid it."""
    boxes = []
    for (at, time), (later, next_time) in pairwise(sorted(watermarks)):
        x, y, x2, y2 = across.position(time), up.position(at), across.position(next_time), up.position(later)
        boxes.append(Box(x - _LINE / 2, y2, _LINE, y - y2))
        boxes.append(Box(min(x, x2), y2 - _LINE / 2, abs(x2 - x), _LINE))
    return boxes


def _band(note: Remark, across: Axis, up: Axis) -> str:
    if note.until is None:
        return ""
    top, bottom = up.position(note.until), up.position(note.at)
    wide, high = round(across.last - across.first, 1), round(bottom - top, 1)
    return element("rect", hover(note.text), x=across.first, y=top, width=wide, height=high, class_="band")


def _note(note: Remark, across: Axis, up: Axis) -> str:
    """Return the text of a note at the left, where no rows are: above the ideal line."""
    y = up.position(note.at)
    line = element("path", d=f"M{across.first},{y} H{across.first + _NOTE_LINE}")
    return element("g", line, element("text", text(note.text), x=across.first + 10, y=round(y - 5, 1)), class_="note")


def _ideal(across: Axis, up: Axis) -> str:
    """Return the line on which rows arrive without delay."""
    low, high = max(across.low, up.low), min(across.high, up.high)
    if low >= high:
        return ""
    start, end = (f"{across.position(us)},{up.position(us)}" for us in (low, high))
    return element("path", hover("ideal: no delay"), d=f"M{start} L{end}", class_="ideal")
