"""The page around the drawings: axes, captions and legend, as a self-contained HTML page.

A timeline contains what happened: when rows arrived, the watermark, and the emitted panes. Nothing here computes any
of it, so a picture shows what an operator did, not what it should have done.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventide.testing.chart_marks import CROSS, DIAMOND, Detail, detail_of, draw, shaded_fates
from eventide.testing.chart_svg import STYLE, element, hover, text
from eventide.testing.chart_timeline import Axis, Facet, Fate, Timeline, event_axis, processing_axis

_SIZE, _SINGLE_SIZE = (600, 500), (1160, 680)  # pixels of each of several drawings, and of a single one
_LEFT, _RIGHT, _TOP, _BOTTOM = 88, 30, 16, 56
_DESCRIBED = 60  # panes in the text for screen readers


def picture(timeline: Timeline, *, title: str = "Event time and processing time", text: str = "") -> str:
    """Return a page with one drawing.

    >>> from eventide.testing.chart_timeline import Event
    >>> page = picture(Timeline(events=[Event(time=0, at=5_000_000, label="7")]), title="One row")
    >>> page.startswith("<!DOCTYPE html>"), "<h1>One row</h1>" in page
    (True, True)
    """
    return _page(title, text, [Facet(title="", timeline=timeline)])


def pictures(
    facets: Sequence[Facet], *, title: str = "Event time and processing time", text: str = "", same_axes: bool = True
) -> str:
    """Return a page with several drawings side by side. They share their axes, so that they can be compared.

    >>> page = pictures([Facet("Discarding", Timeline()), Facet("Retracting", Timeline())], title="Modes")
    >>> page.count("<figure>")
    2
    """
    return _page(title, text, facets, same_axes=same_axes)


def _page(title: str, sentence: str, facets: Sequence[Facet], *, same_axes: bool = True) -> str:
    shared = [facet.timeline for facet in facets]
    size = _SIZE if len(facets) > 1 else _SINGLE_SIZE
    drawings = [
        _figure(facet, number, shared if same_axes else [facet.timeline], title, size)
        for number, facet in enumerate(facets)
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
        element("header", element("h1", text(title)), intro, _legend(shared, size)),
        element("main", *drawings, class_="one" if len(facets) == 1 else "many"),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _axes(timelines: Sequence[Timeline], size: tuple[int, int]) -> tuple[Axis, Axis]:
    width, height = size
    return event_axis(timelines, _LEFT, width - _RIGHT), processing_axis(timelines, height - _BOTTOM, _TOP)


def _legend(timelines: Sequence[Timeline], size: tuple[int, int]) -> str:
    """Return the list of the marks that the drawings show, and no others."""
    events = [event for timeline in timelines for event in timeline.events]
    panes = [pane for timeline in timelines for pane in timeline.panes]
    fates = {event.fate for event in events}
    timings = {pane.timing for pane in panes if pane.diff > 0}
    axes = _axes(timelines, size)
    details = {detail_of(timeline.events, *axes) for timeline in timelines if timeline.events and "window" in fates}
    details |= {"density" for timeline in timelines if timeline.densities}
    shaded = {fate for timeline in timelines for fate in shaded_fates(timeline.events, *axes)}
    entries = [
        *((detail in details, *_ROW_SYMBOLS[detail]) for detail in _ROW_SYMBOLS),
        ("late" in fates, _aside_symbol("late", CROSS, shaded), "late row"),
        ("dead" in fates, _aside_symbol("dead", DIAMOND, shaded), "dead letter"),
        (
            any(timeline.watermarks for timeline in timelines),
            element("path", d="M-12,5 H0 V-5 H12", class_="watermark"),
            "watermark",
        ),
        (True, element("path", d="M-12,6 L12,-6", class_="ideal"), "ideal: no delay"),
        ("EARLY" in timings, _pane_symbol("EARLY"), "early pane"),
        ("ON_TIME" in timings, _pane_symbol("ON_TIME"), "on-time pane"),
        ("LATE" in timings, _pane_symbol("LATE"), "late pane"),
        (any(pane.diff < 0 for pane in panes), element("path", d="M-12,0 H12", class_="retracted"), "retraction"),
    ]
    items = [
        element("li", element("svg", hover(name), mark, viewBox="-14 -10 28 20", width=28, height=20), text(name))
        for shown, mark, name in entries
        if shown
    ]
    return element("ul", *items, class_="legend")


def _cells(fate: Fate) -> str:
    cells = [element("rect", x=x, y=-5, width=10, height=10, fill_opacity=shade) for x, shade in ((-10, 0.2), (0, 0.8))]
    return element("g", *cells, class_=f"density {fate}")


_ROW_SYMBOLS: dict[Detail, tuple[str, str]] = {
    "labelled": (element("g", element("circle", r=7), class_="event window"), "row, with its value"),
    "small": (element("g", element("circle", r=3.5), class_="event window small"), "row"),
    "density": (_cells("window"), "rows: the darker, the more"),
}


def _aside_symbol(fate: Fate, shape: str, shaded: set[Fate]) -> str:
    return _cells(fate) if fate in shaded else element("g", element("path", d=shape), class_=f"event {fate}")


def _pane_symbol(timing: str) -> str:
    box = element("rect", x=-12, y=-7, width=24, height=14)
    return element("g", box, element("path", d="M-12,-7 H12"), class_=f"pane {timing}")


def _figure(facet: Facet, number: int, shared: Sequence[Timeline], title: str, size: tuple[int, int]) -> str:
    across, up = _axes(shared, size)
    name = f"drawing-{number}"
    drawing = element(
        "svg",
        element("title", text(facet.title or title), id=name),
        element("desc", text(_description(facet)), id=f"{name}-text"),
        _grid(across, up),
        draw(facet.timeline, across, up),
        _axis_titles(across, up, size[1]),
        viewBox=f"0 0 {size[0]} {size[1]}",
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_labelledby=f"{name} {name}-text",
    )
    caption = element("h2", text(facet.title)) if facet.title else ""
    caption += element("p", text(facet.text)) if facet.text else ""
    return element("figure", element("figcaption", caption) if caption else "", drawing)


def _description(facet: Facet) -> str:
    timeline = facet.timeline
    shown = timeline.panes[:_DESCRIBED]
    emitted = ", ".join(("" if pane.diff > 0 else "minus ") + pane.label for pane in shown) or "none"
    more = f" and {len(timeline.panes) - _DESCRIBED:,} more" if len(timeline.panes) > _DESCRIBED else ""
    notes = "".join(f" {note.text}." for note in timeline.notes)
    rows = sum(event.rows for event in timeline.events) + sum(sum(density.rows) for density in timeline.densities)
    return (
        f"Event time runs across, processing time upwards. {rows:,} rows, "
        f"{len(timeline.watermarks)} watermarks. Panes in order: {emitted}{more}.{notes} {facet.text}"
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


def _axis_titles(across: Axis, up: Axis, height: int) -> str:
    def named(name: str, date: str) -> str:
        return f"{name}, {date} UTC →" if date else f"{name} →"

    x, y = (across.first + across.last) / 2, (up.first + up.last) / 2
    return element("text", text(named("event time", across.date)), x=x, y=height - 12, class_="axis") + element(
        "text", text(named("processing time", up.date)), class_="axis", transform=f"translate(16 {y}) rotate(-90)"
    )
