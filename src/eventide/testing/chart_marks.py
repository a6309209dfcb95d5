"""How rows, the watermark and notes are drawn, and in which order everything is.

Few rows are dots with their values, as in the papers. Where dots would cover each other they are small and translucent,
and thousands of rows are cells shaded by their number. A label is drawn only where it covers no other label.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from eventide.testing.chart_density import draw_cells, draw_densities
from eventide.testing.chart_labels import Box, Places, around, text_width
from eventide.testing.chart_panes import draw_pane_labels, draw_panes
from eventide.testing.chart_svg import element, hover, text
from eventide.testing.chart_timeline import Axis, Event, Fate, Remark, Timeline
from eventide.time import MIN, format_instant

Detail = Literal["labelled", "small", "density"]

CROSS = "M-7,-4 L-4,-7 L0,-3 L4,-7 L7,-4 L3,0 L7,4 L4,7 L0,3 L-4,7 L-7,4 L-3,0 Z"
DIAMOND = "M0,-8 L8,0 L0,8 L-8,0 Z"

_RADIUS, _SMALL_RADIUS = 10.5, 2.8
_PLAIN_RADIUS = 5.0  # of a dot whose label does not fit into it
_SHAPE_RADIUS = 8.0  # of crosses and diamonds
_COVERED = 0.15  # share of dots that may cover another one
_MOST_DOTS = 1500
_MOST_SHAPES = 200  # crosses, or diamonds
_FONT, _NOTE_FONT = 12.0, 13.0
_TEXT_HEIGHT = 14.0
_LINE = 6.0  # the watermark, with room around it
_NOTE_LINE = 150.0
_FATES: dict[Fate, str] = {"window": "in a window", "late": "late", "dead": "dead letter"}


def draw(timeline: Timeline, across: Axis, up: Axis) -> str:
    """Return all marks. Those that must stay legible are drawn last. The most important labels are placed first."""
    shaded = shaded_fates(timeline.events, across, up)
    cells = draw_densities(timeline.densities, across, up) if timeline.densities else ""
    for fate in sorted(shaded):
        cells += draw_cells([event for event in timeline.events if event.fate == fate], across, up, kind=fate)
    dots = [event for event in timeline.events if event.fate not in shaded]
    places = Places(Box(across.first, up.last, across.last - across.first, up.first - up.last))
    small = detail_of(timeline.events, across, up) == "small"
    inside = _labelled_inside(dots, small, places, across, up)
    for step in _watermark_boxes(timeline.watermarks, across, up):
        places.occupy(step)
    for note in timeline.notes:
        places.occupy(Box(across.first, up.position(note.at) - 1, _NOTE_LINE, 2))
    notes = "".join(_note(note, places, across, up) for note in timeline.notes)
    aside = {number for number, dot in enumerate(dots) if dot.fate != "window"}
    outside = _outside_labels(dots, aside, places, across, up)
    tags = draw_pane_labels(timeline, places, across, up)
    if not small:
        outside |= _outside_labels(dots, set(range(len(dots))) - aside - inside, places, across, up)
    name = _watermark_name(timeline.watermarks, places, across, up)
    unlabelled_first = sorted(range(len(dots)), key=lambda n: n in aside or n in inside or n in outside)
    rows = "".join(_event(dots[n], n in inside, outside.get(n), small, across, up) for n in unlabelled_first)
    bands = "".join(_band(note, across, up) for note in timeline.notes)
    line = _watermark(timeline.watermarks, across, up)
    panes = draw_panes(timeline, across, up)
    return bands + panes + _ideal(across, up) + cells + line + rows + tags + notes + name


def shaded_fates(events: Sequence[Event], across: Axis, up: Axis) -> set[Fate]:
    """Return the fates whose rows are drawn as cells, because dots or shapes would cover each other."""
    numbers = Counter(event.fate for event in events)
    shaded: set[Fate] = {fate for fate in ("late", "dead") if numbers[fate] > _MOST_SHAPES}
    return shaded | ({"window"} if numbers["window"] and detail_of(events, across, up) == "density" else set())


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


def _labelled_inside(dots: Sequence[Event], small: bool, places: Places, across: Axis, up: Axis) -> set[int]:
    """Return the numbers of the dots that are as large as their label; no other dot covers it. Occupy their places."""
    texts = Places(Box(across.first, up.last, across.last - across.first, up.first - up.last))
    inside = set()
    for number in sorted(range(len(dots)), key=lambda number: dots[number].fate == "window"):
        dot = dots[number]
        x, y = across.position(dot.time), up.position(dot.at)
        wide = text_width(dot.label, _FONT)
        label, circle = Box(x - wide / 2, y - 5, wide, 10), around(x, y, _RADIUS)
        if dot.fate != "window":
            places.occupy(around(x, y, _SHAPE_RADIUS))
        elif small:
            places.avoid(around(x, y, _SMALL_RADIUS))
        elif len(dot.label) <= 2 and places.is_free(label) and texts.is_free(circle):
            inside.add(number)
            places.occupy(circle)
            texts.occupy(label)
        else:
            places.avoid(around(x, y, _PLAIN_RADIUS))
    return inside


def _outside_labels(dots: Sequence[Event], numbers: set[int], places: Places, across: Axis, up: Axis) -> dict[int, Box]:
    """Return the places of labels next to their dots: to the right or the left, or above or below."""
    labels = {}
    for number in sorted(numbers):
        dot = dots[number]
        x, y, wide = across.position(dot.time), up.position(dot.at), text_width(dot.label, _FONT)
        away = _RADIUS + 0.5  # clear of any dot at this place
        rights = [x + away, x - away - wide]
        level, above, below = y - _TEXT_HEIGHT / 2, y - away - _TEXT_HEIGHT, y + away
        middle = min(max(x - wide / 2, across.first), across.last - wide)
        choices = [*((left, level) for left in rights), (middle, above), (middle, below)]
        choices += [(left, level + line) for line in (-_TEXT_HEIGHT, _TEXT_HEIGHT) for left in rights]
        place = places.place([Box(left, top, wide, _TEXT_HEIGHT) for left, top in choices]) if dot.label else None
        if place is not None:
            labels[number] = place
    return labels


def _event(event: Event, inside: bool, label: Box | None, small: bool, across: Axis, up: Axis) -> str:
    x, y = across.position(event.time), up.position(event.at)
    if event.fate != "window":
        shape = element("path", d=CROSS if event.fate == "late" else DIAMOND)
    else:
        shape = element("circle", r=_SMALL_RADIUS if small else _RADIUS if inside else _PLAIN_RADIUS)
    words = ""
    if inside and event.label:
        words = element("text", text(event.label), class_="inside", y=4)
    elif label is not None:
        words = _aligned(event.label, label, x, kind="outside", origin=(x, y))
    return element(
        "g",
        hover(_described(event)),
        shape,
        words,
        class_=f"event {event.fate}" + (" small" if small and event.fate == "window" else ""),
        transform=f"translate({x} {y})",
    )


def _aligned(label: str, place: Box, x: float, *, kind: str, origin: tuple[float, float] = (0.0, 0.0)) -> str:
    """Return a text aligned to its dot or line at ``x``, however wide its font is."""
    anchor, left = "start", place.x
    if place.x + place.width <= x:
        anchor, left = "end", place.x + place.width
    elif place.x < x:
        anchor, left = "middle", place.x + place.width / 2
    at = {"x": round(left - origin[0], 1), "y": round(place.y - origin[1] + 11, 1)}
    return element("text", text(label), class_=kind, text_anchor=anchor, **at)


def _described(event: Event) -> str:
    label = f"{event.label}: " if event.label else ""
    time = f"event time {format_instant(event.time)}" if event.time > MIN else "no known event time"
    number = f"{event.rows:,} rows, " if event.rows > 1 else ""
    return f"{label}{number}{time}, arrived {format_instant(event.at)}, {_FATES[event.fate]}"


def _watermark(watermarks: Sequence[tuple[int, int]], across: Axis, up: Axis) -> str:
    if not watermarks:
        return ""
    steps = sorted(watermarks)
    path = f"M{across.position(steps[0][1])},{up.position(steps[0][0])}"
    for at, time in steps[1:]:
        path += f" V{up.position(at)} H{across.position(time)}"
    last = f"{format_instant(steps[-1][1])} at {format_instant(steps[-1][0])}"
    return element("path", hover(f"watermark, last {last}"), d=f"{path} V{up.last}", class_="watermark")


def _watermark_name(watermarks: Sequence[tuple[int, int]], places: Places, across: Axis, up: Axis) -> str:
    """Return the name of the line, next to its newest part."""
    wide = text_width("watermark", _FONT)
    lines = [(across.position(time), up.position(at)) for at, time in sorted(watermarks)[-1:]]
    lefts = [left for x, _ in lines for left in (x - wide - 8, x + 8)]
    tops = [top for _, y in lines for top in (up.last + 4, (up.last + y) / 2, y + 8)]
    place = places.place([Box(left, top, wide, _TEXT_HEIGHT) for top in tops for left in lefts])
    return "" if place is None else _aligned("watermark", place, lines[0][0], kind="line")


def _watermark_boxes(watermarks: Sequence[tuple[int, int]], across: Axis, up: Axis) -> list[Box]:
    """Return what the staircase covers, so that labels avoid it. Steps of less than a pixel are combined."""
    corners: list[tuple[float, float]] = []
    for at, time in sorted(watermarks):
        x, y = across.position(time), up.position(at)
        if not corners or math.dist(corners[-1], (x, y)) >= 1:
            corners.append((x, y))
    boxes = []
    for (x, y), (x2, y2) in pairwise(corners):
        boxes.append(Box(x - _LINE / 2, y2, _LINE, y - y2))
        boxes.append(Box(min(x, x2), y2 - _LINE / 2, abs(x2 - x), _LINE))
    for x, y in corners[-1:]:  # it holds until the end of the drawing
        boxes.append(Box(x - _LINE / 2, up.last, _LINE, y - up.last))
    return boxes


def _band(note: Remark, across: Axis, up: Axis) -> str:
    if note.until is None:
        return ""
    top, bottom = up.position(note.until), up.position(note.at)
    wide, high = round(across.last - across.first, 1), round(bottom - top, 1)
    return element("rect", hover(note.text), x=across.first, y=top, width=wide, height=high, class_="band")


def _note(note: Remark, places: Places, across: Axis, up: Axis) -> str:
    """Return a note at the left, where few rows are: above the ideal line. Its text is next to its line."""
    y = up.position(note.at)
    wide = text_width(note.text, _NOTE_FONT, bold=True)
    lefts = (across.first + 10, across.first + _NOTE_LINE + 8, across.last - wide - 10)
    tops = (y - 18, y + 4)
    place = places.place([Box(left, top, wide, _TEXT_HEIGHT + 2) for left in lefts for top in tops])
    line = element("path", hover(note.text), d=f"M{across.first},{y} H{across.first + _NOTE_LINE}")
    words = "" if place is None else element("text", text(note.text), x=round(place.x, 1), y=round(place.y + 13, 1))
    return element("g", line, words, class_="note")


def _ideal(across: Axis, up: Axis) -> str:
    """Return the line on which rows arrive without delay."""
    low, high = max(across.low, up.low), min(across.high, up.high)
    if low >= high:
        return ""
    start, end = (f"{across.position(us)},{up.position(us)}" for us in (low, high))
    return element("path", hover("ideal: no delay"), d=f"M{start} L{end}", class_="ideal")
