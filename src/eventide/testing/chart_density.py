"""How thousands of rows are drawn: cells that are darker the more rows they contain, on a logarithmic scale.

A cell ends where its newest rows arrived, so that no row seems to arrive after a pane that contains it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from eventide.testing.chart_labels import Box
from eventide.testing.chart_svg import element, hover
from eventide.testing.chart_timeline import Axis, Density, Event

_CELL = 8.0  # pixels of a cell, about
_TALLEST = 24.0  # pixels of the cells of a batch: rows that arrived long after the batch before


def draw_cells(events: Sequence[Event], across: Axis, up: Axis, *, kind: str = "") -> str:
    """Return cells of rows. Each band of cells ends at an arrival and begins less than a cell before it."""
    tops = _bands({up.position(event.at) for event in events})
    columns = int((across.last - across.first) / _CELL)
    wide = (across.last - across.first) / columns
    cells: Counter[tuple[int, float]] = Counter()
    for event in events:
        column = min(int((across.position(event.time) - across.first) / wide), columns - 1)
        cells[column, tops[up.position(event.at)]] += event.rows
    boxes = {
        Box(across.first + column * wide, top, wide, min(_CELL, up.first - top)): rows
        for (column, top), rows in cells.items()
    }
    return _shaded(boxes, kind)


def draw_densities(densities: Sequence[Density], across: Axis, up: Axis) -> str:
    """Return the cells of histograms, each from the arrival before it to its own."""
    boxes: dict[Box, int] = {}
    for number, density in enumerate(densities):
        top = up.position(density.at)
        before = up.position(densities[number - 1].at) if number else top + _first_height(densities, up)
        high = min(max(before - top, 1.0), _TALLEST)
        wide = (density.high - density.low) / len(density.rows)
        for index, rows in enumerate(density.rows):
            if rows:
                left, right = (across.position(int(density.low + place * wide)) for place in (index, index + 1))
                boxes[Box(left, top, max(right - left, 2.0), high)] = rows
    return _shaded(boxes)


def _first_height(densities: Sequence[Density], up: Axis) -> float:
    """Return the height of the first cells, whose batch before is unknown: that of the second, or of a cell."""
    tops = [up.position(density.at) for density in densities[:2]]
    return min(tops[0] - tops[-1] or _CELL, _CELL)


def _bands(arrivals: Iterable[float]) -> Mapping[float, float]:
    """Return the upper edge of the band of each arrival."""
    tops: dict[float, float] = {}
    top = -math.inf
    for arrival in sorted(arrivals):
        if arrival >= top + _CELL:
            top = arrival
        tops[arrival] = top
    return tops


def _shaded(boxes: Mapping[Box, int], kind: str = "") -> str:
    most = math.log1p(max(boxes.values(), default=1))
    shades = (
        element(
            "rect",
            hover(f"{rows:,} row{'s' * (rows > 1)}"),
            x=round(box.x, 2),
            y=round(box.y, 2),
            width=round(box.width, 2),
            height=round(box.height, 2),
            fill_opacity=round(0.08 + 0.72 * math.log1p(rows) / most, 2),
        )
        for box, rows in sorted(boxes.items(), key=lambda item: (item[0].x, item[0].y))
    )
    return element("g", *shades, class_=f"density {kind}".strip())
