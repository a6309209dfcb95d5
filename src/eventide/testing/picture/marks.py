"""How rows, the watermark and panes are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eventide.testing.picture.axes import Axis
from eventide.testing.picture.svg import element, hover, text
from eventide.testing.picture.timeline import Event, Pane, Timeline
from eventide.time import format_instant

_RADIUS = 10.5
CROSS = "M-7,-4 L-4,-7 L0,-3 L4,-7 L7,-4 L3,0 L7,4 L4,7 L0,3 L-4,7 L-7,4 L-3,0 Z"
DIAMOND = "M0,-8 L8,0 L0,8 L-8,0 Z"
_TAG_HEIGHT = 18.0
_EDGE = 2.5  # keeps the edge of an emission clear of the watermark, which often caused it


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
    """All marks, those that must stay legible last."""
    tags, room = "", [_room(event, across, up) for event in timeline.events]
    for pane in sorted(timeline.panes, key=lambda pane: (pane.at, -pane.diff)):
        drawn, taken = _tag(pane, across, up, room)
        tags += drawn
        room.append(taken)
    boxes = "".join(_box(pane, timeline, across, up) for pane in timeline.panes)
    events = "".join(_event(event, across, up) for event in timeline.events)
    return boxes + _ideal(across, up) + _watermark(timeline.watermarks, across, up) + events + tags


def _event(event: Event, across: Axis, up: Axis) -> str:
    fates = {"window": "in a window", "late": "late", "dead": "dead letter"}
    said = hover(
        f"{event.label}: event time {format_instant(event.time)}, "
        f"arrived {format_instant(event.at)}, {fates[event.fate]}"
    )
    if event.fate == "window":
        fits = len(event.label) <= 2
        shape = element("circle", r=_RADIUS if fits else 5)
    else:
        fits = False
        shape = element("path", d=CROSS if event.fate == "late" else DIAMOND)
    beside = {"class_": "inside", "y": 4} if fits else {"class_": "beside", "x": 11, "y": 4}
    return element(
        "g",
        said,
        shape,
        element("text", text(event.label), **beside),
        class_=f"event {event.fate}",
        transform=f"translate({across.place(event.time)} {up.place(event.at)})",
    )


def _room(event: Event, across: Axis, up: Axis) -> Box:
    wide = 0.0 if event.fate == "window" and len(event.label) <= 2 else 7.0 * len(event.label)
    x, y = across.place(event.time), up.place(event.at)
    return Box(x - _RADIUS, y - _RADIUS, 2 * _RADIUS + wide, 2 * _RADIUS)


def _box(pane: Pane, timeline: Timeline, across: Axis, up: Axis) -> str:
    left, right, top = across.place(pane.start), across.place(pane.end), up.place(pane.at)
    if pane.diff < 0:
        return element("path", d=f"M{left},{top - _EDGE} H{right}", class_="retracted")
    bottom = up.place(_since(pane, timeline))
    return element(
        "g",
        element("rect", x=left, y=top, width=round(right - left, 1), height=round(bottom - top, 1)),
        element("path", d=f"M{left},{top + _EDGE} H{right}"),
        class_=f"pane {pane.timing}",
    )


def _since(pane: Pane, timeline: Timeline) -> int:
    """When the pane began to gather: at the emission before it, or else with the first row of its window."""
    replaced = {
        (old.start, old.end)
        for old in timeline.panes
        if old.diff < 0 and old.key == pane.key and old.at == pane.at and old.start < pane.end and pane.start < old.end
    }
    windows = replaced | {(pane.start, pane.end)}
    before = [
        old.at
        for old in timeline.panes
        if old.key == pane.key and old.diff > 0 and old.at < pane.at and (old.start, old.end) in windows
    ]
    rows = [
        event.at
        for event in timeline.events
        if event.fate == "window" and pane.start <= event.time < pane.end and event.at <= pane.at
    ]
    return max(before) if before else min(rows, default=pane.at)


def _tag(pane: Pane, across: Axis, up: Axis, room: Sequence[Box]) -> tuple[str, Box]:
    label = pane.label if pane.diff > 0 else f"−{pane.label}"
    wide = 12 + 7.2 * len(label)
    left, right, top = across.place(pane.start), across.place(pane.end), up.place(pane.at)
    inside, above = top + 6, top - _TAG_HEIGHT - 5
    slack = right - left - wide - 6
    shares = (1.0, 0.75, 0.5, 0.25, 0.0) if pane.diff > 0 else (0.0, 0.25, 0.5, 0.75, 1.0)
    places = [
        Box(round(left + 3 + share * slack, 1), round(y, 1), wide, _TAG_HEIGHT)
        for y in ((inside, above) if pane.diff > 0 else (above, inside))
        for share in shares
    ]
    best = min(places, key=lambda place: sum(place.overlap(other) for other in room))
    verb = "emitted" if pane.diff > 0 else "taken back"
    said = hover(
        f"{label} {verb} at {format_instant(pane.at)} for {pane.key} "
        f"[{format_instant(pane.start)}, {format_instant(pane.end)}), {pane.timing}"
    )
    drawn = element(
        "g",
        said,
        element("rect", x=best.x, y=best.y, width=round(wide, 1), height=_TAG_HEIGHT, rx=4),
        element("text", text(label), x=round(best.x + wide / 2, 1), y=best.y + 13),
        class_=f"tag {pane.timing if pane.diff > 0 else 'retraction'}",
    )
    return drawn, best


def _watermark(marks: Sequence[tuple[int, int]], across: Axis, up: Axis) -> str:
    if not marks:
        return ""
    steps = sorted(marks)
    path = f"M{across.place(steps[0][1])},{up.place(steps[0][0])}"
    for at, time in steps[1:]:
        path += f" V{up.place(at)} H{across.place(time)}"
    last = f"{format_instant(steps[-1][1])} at {format_instant(steps[-1][0])}"
    return element("path", hover(f"watermark, last {last}"), d=f"{path} V{up.last}", class_="watermark")


def _ideal(across: Axis, up: Axis) -> str:
    """Where rows would lie if they arrived the moment they happened."""
    low, high = max(across.low, up.low), min(across.high, up.high)
    if low >= high:
        return ""
    start, end = (f"{across.place(us)},{up.place(us)}" for us in (low, high))
    return element("path", hover("ideal: no delay at all"), d=f"M{start} L{end}", class_="ideal")
