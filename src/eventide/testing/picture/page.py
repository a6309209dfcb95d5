"""The page around the drawings: axes, captions, legend, colours."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.testing.picture.axes import Axis, event_axis, processing_axis
from eventide.testing.picture.legend import legend
from eventide.testing.picture.marks import draw
from eventide.testing.picture.style import STYLE
from eventide.testing.picture.svg import element, text
from eventide.testing.picture.timeline import Facet, Timeline

_WIDTH, _HEIGHT = 600, 500
_LEFT, _RIGHT, _TOP, _BOTTOM = 88, 30, 16, 56


def picture(timeline: Timeline, *, title: str = "Event time and processing time", text: str = "") -> str:
    """A page with one drawing.

    >>> from eventide.testing.picture import Event
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
        element("desc", text(_said(facet)), id=f"{name}-said"),
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


def _said(facet: Facet) -> str:
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
        x = across.place(tick)
        lines += f"M{x},{up.last} V{up.first} "
        labels += element("text", text(across.label(tick)), x=x, y=up.first + 18, class_="tick middle")
    for tick in up.ticks:
        y = up.place(tick)
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
