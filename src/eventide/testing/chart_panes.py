"""How panes are drawn: boxes from the rows that they collected to their emission, with labels of their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from eventide.testing.chart_labels import Box, Places, text_width
from eventide.testing.chart_svg import element, hover, text
from eventide.testing.chart_timeline import Axis, Pane, Timeline
from eventide.time import format_instant

_TAG_HEIGHT, _TAG_GAP, _TAG_FONT = 18.0, 2.0, 12.5
_EDGE = 2.5  # separates the edge of an emission from the watermark, which often caused it
_IMPORTANCE = {"ON_TIME": 0, "LATE": 1, "EARLY": 2}  # of labels, where not all fit
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)  # places of a label along the edge of its pane, the best first


def draw_panes(timeline: Timeline, across: Axis, up: Axis) -> str:
    """Return the boxes of panes, and lines for retractions."""
    starts = _starts(timeline)
    return "".join(_box(pane, since, across, up) for pane, since in zip(timeline.panes, starts, strict=True))


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


def draw_pane_labels(timeline: Timeline, places: Places, across: Axis, up: Axis) -> str:
    """Return the labels of panes, a pane next to the panes that it retracts.

    Where these do not fit together, retractions are left out first. The tooltips of panes have the same text.
    """
    bottoms = [up.position(since) for since in _starts(timeline)]
    by_place = sorted(zip(timeline.panes, bottoms, strict=True), key=lambda item: _emission(item[0]))
    groups = [list(group) for _, group in groupby(by_place, key=lambda item: _emission(item[0]))]
    return "".join(
        label
        for group in sorted(groups, key=lambda group: _priority([pane for pane, _ in group]))
        for label in _group_labels([pane for pane, _ in group], max(bottom for _, bottom in group), places, across, up)
    )


def _emission(pane: Pane) -> tuple[str, int, int, int]:
    return pane.key, pane.start, pane.end, pane.at


def _group_labels(group: Sequence[Pane], bottom: float, places: Places, across: Axis, up: Axis) -> Iterator[str]:
    ordered = sorted(group, key=lambda pane: pane.diff)
    emitted = [pane for pane in ordered if pane.diff > 0]
    for shown in filter(None, (ordered, emitted, emitted[-1:])):
        place = places.place(_choices(shown, bottom, across, up))
        if place is not None:
            x = place.x
            for pane in shown:
                yield _tag(pane, x, place.y)
                x += _tag_width(pane) + _TAG_GAP
            return


def _priority(group: Sequence[Pane]) -> tuple[int, int]:
    emitted = [_IMPORTANCE[pane.timing] for pane in group if pane.diff > 0]
    return min(emitted, default=len(_IMPORTANCE)), -group[0].at


def _choices(shown: Sequence[Pane], bottom: float, across: Axis, up: Axis) -> list[Box]:
    """Return where the labels of an emission can be: below its edge, above it, and further down in its box."""
    pane = shown[0]
    wide = sum(_tag_width(pane) for pane in shown) + _TAG_GAP * (len(shown) - 1)
    left, right, top = across.position(pane.start), across.position(pane.end), up.position(pane.at)
    slack = right - left - wide - 6
    lines = (top + 6 + (_TAG_HEIGHT + 3) * number for number in range(1, 5))
    heights = [top + 6, top - _TAG_HEIGHT - 5, *(y for y in lines if y + _TAG_HEIGHT <= bottom)]
    xs = [min(max(left + 3 + share * slack, across.first), across.last - wide) for share in _SHARES]
    return [Box(round(x, 1), round(y, 1), wide, _TAG_HEIGHT) for y in heights for x in xs]


def _label(pane: Pane) -> str:
    return pane.label if pane.diff > 0 else f"−{pane.label}"


def _tag_width(pane: Pane) -> float:
    return 10 + text_width(_label(pane), _TAG_FONT, bold=True)


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
