"""The history of a query as pictures: its watermark and its panes, then the watermark of each slow origin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from eventide.cli.history import Told
from eventide.spark.metrics import BatchMetrics
from eventide.testing.picture import Facet, Pane, Timeline, Timing, pictures
from eventide.time import MAX, MIN, format_instant

_ORIGINS = 6  # pictures of origins
_PANES = 300  # that can still be told apart


def page(told: Told, *, title: str, last: int) -> str:
    """An HTML page that stands alone."""
    batches = _newest([one for one in told.batches if one.depth == 0], last)
    whole = Timeline(watermarks=_steps(batches), panes=_panes(told, batches))
    facets = [Facet("All origins", whole, _said(told, batches, len(whole.panes)))]
    for name in _origins(batches)[:_ORIGINS]:
        facets.append(Facet(f"Origin {name}", Timeline(watermarks=_steps_of(name, batches)), _standing(name, batches)))
    return pictures(facets, title=title, text=_intro(batches))


def _newest(batches: Sequence[BatchMetrics], last: int) -> list[BatchMetrics]:
    return sorted(batches, key=lambda one: one.at)[-last:]


def _steps(batches: Sequence[BatchMetrics]) -> list[tuple[int, int]]:
    return [(one.at, one.watermark) for one in batches if one.watermark is not None]


def _steps_of(name: str | None, batches: Sequence[BatchMetrics]) -> list[tuple[int, int]]:
    times = [(one.at, time) for one in batches for own, time in one.slowest if own == name]
    return [(at, time) for at, time in times if MIN < time < MAX]


def _origins(batches: Sequence[BatchMetrics]) -> list[str | None]:
    """Those that held the watermark back most often come first."""
    held = [one.least_origin for one in batches]
    names = dict.fromkeys(name for one in reversed(batches) for name, _ in one.slowest)
    return sorted(names, key=lambda name: -held.count(name))


def _panes(told: Told, batches: Sequence[BatchMetrics]) -> list[Pane]:
    since = batches[0].at if batches else MAX
    shown = [one for one in told.windows if one.at >= since][-_PANES:]
    return [Pane("", one.start, one.end, one.at, f"{one.keys:,}", cast(Timing, one.timing), one.diff) for one in shown]


def _intro(batches: Sequence[BatchMetrics]) -> str:
    if not batches:
        return "No batch has ended yet."
    rows = sum(one.rows for one in batches)
    return (
        f"{len(batches):,} batches from {format_instant(batches[0].at)} to {format_instant(batches[-1].at)}, "
        f"{rows:,} rows. Event time runs across, processing time upwards: the nearer the watermark is to the ideal, "
        "the fresher the results."
    )


def _said(told: Told, batches: Sequence[BatchMetrics], panes: int) -> str:
    late, dead = sum(one.late for one in batches), sum(sum(one.dead.values()) for one in batches)
    aside = f"{late:,} late rows, {dead:,} dead letters. {_end(batches)}"
    if panes:
        return f"{aside}A number is that of the keys for which the window was told."
    hint = "" if told.windows else "Panes are drawn for a query that runs with --trace."
    return aside + hint


def _end(batches: Sequence[BatchMetrics]) -> str:
    """The end of time cannot be drawn."""
    ended = next((one for one in batches if one.drained), None)
    return "" if ended is None else f"At {format_instant(ended.at)} the stream was drained: its time has ended. "


def _standing(name: str | None, batches: Sequence[BatchMetrics]) -> str:
    if batches and batches[-1].drained:
        batches = [one for one in batches if not one.drained]  # afterwards nobody is waited for
    held = sum(one.least_origin == name for one in batches)
    idle = " It is idle now." if batches and name in batches[-1].idle_origins else ""
    return f"It held the watermark back in {held:,} of {len(batches):,} batches.{idle}"
