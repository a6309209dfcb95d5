"""What the marks of a picture mean."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.testing.picture.marks import CROSS, DIAMOND
from eventide.testing.picture.svg import element, hover, text
from eventide.testing.picture.timeline import Timeline


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
