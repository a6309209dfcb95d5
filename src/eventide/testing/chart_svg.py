"""Elements of SVG and XHTML as text, escaped.

The colours and letters of a picture, for light and dark surroundings.

Ink is for what happened, colour for when a pane came; the hues keep apart for colour-blind eyes.

What the marks of a picture mean.

How rows, the watermark and panes are drawn.

The page around the drawings: axes, captions, legend, colours.

Pictures of event time against processing time, as a standalone HTML page.

A timeline says what happened: when rows arrived, where the watermark stood, which panes were emitted. Nothing
here computes any of it, so a picture shows what an operator did, not what it should have done.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from eventide.testing.chart_timeline import (
    Axis,
    Event,
    Facet,
    Fate,
    Pane,
    Timeline,
    Timing,
    event_axis,
    processing_axis,
)
from eventide.time import format_instant

__all__ = ["Event", "Facet", "Fate", "Pane", "Timeline", "Timing", "picture", "pictures"]


# XML has no way to write these characters at all.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(value: str) -> str:
    """Text that may stand between tags or in an attribute.

    >>> text('a < "b"')
    'a &lt; &quot;b&quot;'
    """
    return escape(_FORBIDDEN.sub("\ufffd", value))


def element(name: str, /, *children: str, **attributes: object) -> str:
    """One element; the children are markup already.

    >>> element("text", text("1 < 2"), x=3, class_="tick")
    '<text x="3" class="tick">1 &lt; 2</text>'
    """
    markup = "".join(f' {key.rstrip("_").replace("_", "-")}="{text(str(value))}"' for key, value in attributes.items())
    return f"<{name}{markup}>{''.join(children)}</{name}>" if children else f"<{name}{markup}/>"


def hover(what: str) -> str:
    """What is shown, and read aloud, for the element that holds it."""
    return element("title", text(what))


STYLE = """
:root {
  --paper: #ffffff; --sheet: #faf9f6; --ink: #22262b; --soft: #6a7178; --line: #e4e2dc; --dot: #ffffff;
  --EARLY: #2f76b5; --ON_TIME: #12805c; --LATE: #c4620a; --retraction: #b5277d; --on-tag: #ffffff; --wash: 0.13;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181c; --sheet: #1b1f24; --ink: #e8e6e1; --soft: #9aa1a9; --line: #2d333a; --dot: #15181c;
    --EARLY: #6cb2ee; --ON_TIME: #4cc79a; --LATE: #f2a154; --retraction: #ee83bf; --on-tag: #12151a; --wash: 0.18;
  }
}
body {
  margin: 0 auto; padding: 2rem 1.5rem; max-width: 84rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
header { margin: 0 0 1.5rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.08rem; margin: 0; }
p { margin: .1rem 0 0; max-width: 46rem; color: var(--soft); }
main.many { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 2rem; }
main.one { max-width: 56rem; }
figure { margin: 0; display: flex; flex-direction: column; justify-content: space-between; }
figcaption { margin: 0 0 .5rem; }
figure svg { width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--ink); font-variant-numeric: tabular-nums; }
.area { fill: var(--sheet); stroke: var(--line); }
.grid { stroke: var(--line); fill: none; }
text.tick { fill: var(--soft); font-size: 11.5px; }
text.middle, text.axis, .inside, .tag text { text-anchor: middle; }
text.end { text-anchor: end; }
text.axis { fill: var(--soft); font-size: 12.5px; }
.event circle { fill: var(--dot); stroke: var(--ink); stroke-width: 1.6; }
.event .inside { font-weight: 650; }
.event .beside { paint-order: stroke; stroke: var(--sheet); stroke-width: 3px; }
.event.late path { fill: var(--dot); stroke: var(--LATE); stroke-width: 1.6; stroke-linejoin: round; }
.event.dead path { fill: var(--dot); stroke: var(--soft); stroke-width: 1.6; stroke-dasharray: 3 2; }
.watermark { fill: none; stroke: var(--ink); stroke-width: 2.2; stroke-linejoin: round; }
.ideal { fill: none; stroke: var(--soft); stroke-width: 1.3; stroke-dasharray: 5 5; }
.pane rect { fill: var(--tone); fill-opacity: var(--wash); stroke: var(--tone); stroke-opacity: .45; }
.pane path { stroke: var(--tone); stroke-width: 3; }
.tag rect { fill: var(--tone); }
.tag text { fill: var(--on-tag); font-weight: 700; font-size: 12.5px; }
.retracted { stroke: var(--retraction); stroke-width: 2.4; stroke-dasharray: 3 3; }
.EARLY { --tone: var(--EARLY); }
.ON_TIME { --tone: var(--ON_TIME); }
.LATE { --tone: var(--LATE); }
.retraction { --tone: var(--retraction); }
.legend { list-style: none; margin: .9rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: .35rem 1.4rem; }
.legend li { display: flex; align-items: center; gap: .45rem; font-size: .875rem; color: var(--soft); }
@media print { body { padding: 0; } figure { break-inside: avoid; } }
"""


def legend(timelines: Sequence[Timeline]) -> str:
    """A list of the kinds of marks that the drawings show, and no others."""
    events = [event for timeline in timelines for event in timeline.events]
    panes = [pane for timeline in timelines for pane in timeline.panes]
    fates = {event.fate for event in events}
    timings = {pane.timing for pane in panes if pane.diff > 0}
    entries = [
        ("window" in fates, element("g", element("circle", r=7), class_="event window"), "row, with its value"),
        ("late" in fates, element("g", element("path", d=CROSS), class_="event late"), "late row"),
        ("dead" in fates, element("g", element("path", d=DIAMOND), class_="event dead"), "dead letter"),
        (
            any(timeline.watermarks for timeline in timelines),
            element("path", d="M-12,5 H0 V-5 H12", class_="watermark"),
            "watermark",
        ),
        (True, element("path", d="M-12,6 L12,-6", class_="ideal"), "ideal: no delay"),
        ("EARLY" in timings, _pane("EARLY"), "early pane"),
        ("ON_TIME" in timings, _pane("ON_TIME"), "on-time pane"),
        ("LATE" in timings, _pane("LATE"), "late pane"),
        (any(pane.diff < 0 for pane in panes), element("path", d="M-12,0 H12", class_="retracted"), "retraction"),
    ]
    items = [
        element("li", element("svg", hover(name), mark, viewBox="-14 -10 28 20", width=28, height=20), text(name))
        for shown, mark, name in entries
        if shown
    ]
    return element("ul", *items, class_="legend")


def _pane(timing: str) -> str:
    box = element("rect", x=-12, y=-7, width=24, height=14)
    return element("g", box, element("path", d="M-12,-7 H12"), class_=f"pane {timing}")


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
        drawn, occupied = _tag(pane, across, up, room)
        tags += drawn
        room.append(occupied)
    boxes = "".join(_box(pane, timeline, across, up) for pane in timeline.panes)
    events = "".join(_event(event, across, up) for event in timeline.events)
    return boxes + _ideal(across, up) + _watermark(timeline.watermarks, across, up) + events + tags


def _event(event: Event, across: Axis, up: Axis) -> str:
    fates = {"window": "in a window", "late": "late", "dead": "dead letter"}
    tooltip = hover(
        f"{event.label}: event time {format_instant(event.time)}, "
        f"arrived {format_instant(event.at)}, {fates[event.fate]}"
    )
    if event.fate == "window":
        fits = len(event.label) <= 2
        shape = element("circle", r=_RADIUS if fits else 5)
    else:
        fits = False
        shape = element("path", d=CROSS if event.fate == "late" else DIAMOND)
    label_style = {"class_": "inside", "y": 4} if fits else {"class_": "beside", "x": 11, "y": 4}
    return element(
        "g",
        tooltip,
        shape,
        element("text", text(event.label), **label_style),
        class_=f"event {event.fate}",
        transform=f"translate({across.position(event.time)} {up.position(event.at)})",
    )


def _room(event: Event, across: Axis, up: Axis) -> Box:
    wide = 0.0 if event.fate == "window" and len(event.label) <= 2 else 7.0 * len(event.label)
    x, y = across.position(event.time), up.position(event.at)
    return Box(x - _RADIUS, y - _RADIUS, 2 * _RADIUS + wide, 2 * _RADIUS)


def _box(pane: Pane, timeline: Timeline, across: Axis, up: Axis) -> str:
    left, right, top = across.position(pane.start), across.position(pane.end), up.position(pane.at)
    if pane.diff < 0:
        return element("path", d=f"M{left},{top - _EDGE} H{right}", class_="retracted")
    bottom = up.position(_since(pane, timeline))
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
    left, right, top = across.position(pane.start), across.position(pane.end), up.position(pane.at)
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
    tooltip = hover(
        f"{label} {verb} at {format_instant(pane.at)} for {pane.key} "
        f"[{format_instant(pane.start)}, {format_instant(pane.end)}), {pane.timing}"
    )
    drawn = element(
        "g",
        tooltip,
        element("rect", x=best.x, y=best.y, width=round(wide, 1), height=_TAG_HEIGHT, rx=4),
        element("text", text(label), x=round(best.x + wide / 2, 1), y=best.y + 13),
        class_=f"tag {pane.timing if pane.diff > 0 else 'retraction'}",
    )
    return drawn, best


def _watermark(marks: Sequence[tuple[int, int]], across: Axis, up: Axis) -> str:
    if not marks:
        return ""
    steps = sorted(marks)
    path = f"M{across.position(steps[0][1])},{up.position(steps[0][0])}"
    for at, time in steps[1:]:
        path += f" V{up.position(at)} H{across.position(time)}"
    last = f"{format_instant(steps[-1][1])} at {format_instant(steps[-1][0])}"
    return element("path", hover(f"watermark, last {last}"), d=f"{path} V{up.last}", class_="watermark")


def _ideal(across: Axis, up: Axis) -> str:
    """Where rows would lie if they arrived the moment they happened."""
    low, high = max(across.low, up.low), min(across.high, up.high)
    if low >= high:
        return ""
    start, end = (f"{across.position(us)},{up.position(us)}" for us in (low, high))
    return element("path", hover("ideal: no delay at all"), d=f"M{start} L{end}", class_="ideal")


_WIDTH, _HEIGHT = 600, 500
_LEFT, _RIGHT, _TOP, _BOTTOM = 88, 30, 16, 56


def picture(timeline: Timeline, *, title: str = "Event time and processing time", text: str = "") -> str:
    """A page with one drawing.

    >>> from eventide.testing.chart_svg import Event
    >>> page = picture(Timeline(events=[Event(time=0, at=5_000_000, label="7")]), title="One row")
    >>> page.startswith("<!DOCTYPE html>"), "<h1>One row</h1>" in page
    (True, True)
    """
    return _page(title, text, [Facet(title="", timeline=timeline)])


def pictures(
    facets: Sequence[Facet], *, title: str = "Event time and processing time", text: str = "", same_axes: bool = True
) -> str:
    """A page with several drawings side by side, on the same axes so that they can be compared.

    >>> page = pictures([Facet("Discarding", Timeline()), Facet("Retracting", Timeline())], title="Modes")
    >>> page.count("<figure>")
    2
    """
    return _page(title, text, facets, same_axes=same_axes)


def _page(title: str, sentence: str, facets: Sequence[Facet], *, same_axes: bool = True) -> str:
    shared = [facet.timeline for facet in facets]
    drawings = [
        _figure(facet, number, shared if same_axes else [facet.timeline], title) for number, facet in enumerate(facets)
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", text(title)),
        element("style", STYLE),
    )
    intro = element("p", text(sentence)) if sentence else ""
    body = element(
        "body",
        element("header", element("h1", text(title)), intro, legend(shared)),
        element("main", *drawings, class_="one" if len(facets) == 1 else "many"),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _figure(facet: Facet, number: int, shared: Sequence[Timeline], title: str) -> str:
    across = event_axis(shared, _LEFT, _WIDTH - _RIGHT)
    up = processing_axis(shared, _HEIGHT - _BOTTOM, _TOP)
    name = f"drawing-{number}"
    drawing = element(
        "svg",
        element("title", text(facet.title or title), id=name),
        element("desc", text(_description(facet)), id=f"{name}-said"),
        _grid(across, up),
        draw(facet.timeline, across, up),
        _axis_titles(across, up),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_labelledby=f"{name} {name}-said",
    )
    caption = element("h2", text(facet.title)) if facet.title else ""
    caption += element("p", text(facet.text)) if facet.text else ""
    return element("figure", element("figcaption", caption) if caption else "", drawing)


def _description(facet: Facet) -> str:
    timeline = facet.timeline
    emitted = ", ".join(("" if pane.diff > 0 else "minus ") + pane.label for pane in timeline.panes) or "none"
    return (
        f"Event time runs across, processing time upwards. {len(timeline.events)} rows, "
        f"{len(timeline.watermarks)} watermarks. Panes in order: {emitted}. {facet.text}"
    )


def _grid(across: Axis, up: Axis) -> str:
    area = element(
        "rect", x=across.first, y=up.last, width=across.last - across.first, height=up.first - up.last, class_="area"
    )
    lines = labels = ""
    for tick in across.ticks:
        x = across.position(tick)
        lines += f"M{x},{up.last} V{up.first} "
        labels += element("text", text(across.label(tick)), x=x, y=up.first + 18, class_="tick middle")
    for tick in up.ticks:
        y = up.position(tick)
        lines += f"M{across.first},{y} H{across.last} "
        labels += element("text", text(up.label(tick)), x=across.first - 8, y=y + 4, class_="tick end")
    return area + element("path", d=lines.strip(), class_="grid") + labels


def _axis_titles(across: Axis, up: Axis) -> str:
    def named(name: str, date: str) -> str:
        return f"{name}, {date} UTC →" if date else f"{name} →"

    x, y = (across.first + across.last) / 2, (up.first + up.last) / 2
    return element("text", text(named("event time", across.date)), x=x, y=_HEIGHT - 12, class_="axis") + element(
        "text", text(named("processing time", up.date)), class_="axis", transform=f"translate(16 {y}) rotate(-90)"
    )
